"""Time and memory on a machine that others use too: what counts is a ratio within one round.

A background job slows whatever runs beside it, so contenders take turns: every round runs each of
them once, in an order that rotates, and only times of the same round are divided by each other.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import SettingsError

Watch = Callable[[str], None]
"""Is told what is being done."""


@dataclass(frozen=True)
class Contender:
    """Something that can be run again and again; `run` says how many seconds it took."""

    name: str
    run: Callable[[], float]


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, and their range."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> Self:
        """The middle and the ends.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
        """
        return cls(float(np.median(values)), float(np.min(values)), float(np.max(values)))


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """The order of one round: each contender starts once in as many rounds as there are.

    >>> rotated(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    start = turn % len(names)
    return [*names[start:], *names[:start]]


def take_turns(
    contenders: Sequence[Contender], rounds: int, watch: Watch
) -> dict[str, list[float]]:
    """Seconds of every contender, one for each round."""
    by_name = {contender.name: contender for contender in contenders}
    seconds: dict[str, list[float]] = {name: [] for name in by_name}
    for turn in range(rounds):
        for name in rotated(list(by_name), turn):
            watch(f"round {turn + 1} of {rounds}: {name}")
            seconds[name].append(by_name[name].run())
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], of: str, over: str) -> Spread:
    """`of / over`, divided round by round."""
    return Spread.of(np.asarray(seconds[of]) / np.asarray(seconds[over]))


@dataclass(frozen=True)
class ResidentMemory:
    """Resident bytes of a process."""

    start: int
    """When it was ready."""
    most: int
    """At its largest, ever since it began."""


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far."""
    # The second field is the program's name, which may hold anything, a bracket too.
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Resident bytes now."""
    return _status(pid, "VmRSS")


def most_resident(pid: int) -> int:
    """Resident bytes at the most."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _read(pid, "status"), re.MULTILINE)
    assert found is not None, "every process has these lines"
    return 1024 * int(found[1])


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"this needs /proc, as on Linux: {error}") from error
