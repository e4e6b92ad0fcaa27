"""Measurements of time and memory on a machine that has other work to do.

A background job slows everything that runs at the same time, so contenders take turns. Every round
runs each of them once, in an order that rotates. A ratio compares two times of the same round.
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

# A function that displays progress. It gets a line of text before each run of a contender.
Watch = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """Something to time: `run` does its work and returns the seconds that it took."""

    name: str
    run: Callable[[], float]


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, and their range."""

    median: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float] | NDArray[np.float64]) -> Self:
        """Return median and range of the values.

        >>> Spread.from_values([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
        """
        return cls(float(np.median(values)), float(np.min(values)), float(np.max(values)))


def rotate(names: Sequence[str], turn: int) -> list[str]:
    """Return the order of the contenders in one round, so that each comes first equally often.

    >>> rotate(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    start = turn % len(names)
    return [*names[start:], *names[:start]]


def take_turns(
    contenders: Sequence[Contender], rounds: int, watch: Watch
) -> dict[str, list[float]]:
    """Run all contenders in turns; return the seconds that each took, with a value per round."""
    by_name = {contender.name: contender for contender in contenders}
    seconds: dict[str, list[float]] = {name: [] for name in by_name}
    for turn in range(rounds):
        for name in rotate(list(by_name), turn):
            watch(f"round {turn + 1} of {rounds}: {name}")
            seconds[name].append(by_name[name].run())
    return seconds


def compute_ratio(seconds: Mapping[str, Sequence[float]], name: str, base: str) -> Spread:
    """Return the time of one contender divided by that of another, round by round."""
    return Spread.from_values(np.asarray(seconds[name]) / np.asarray(seconds[base]))


@dataclass(frozen=True)
class ResidentMemory:
    """Resident bytes of a process."""

    start: int
    """Bytes when the process was ready."""
    peak: int
    """Largest number of bytes since the process started."""


def read_cpu_seconds(pid: int) -> float:
    """Return user and system time of all threads of a process so far."""
    # The second field is the program's name, which may contain anything, also a bracket.
    fields = _read_proc_file(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_resident_bytes(pid: int) -> int:
    """Return the resident bytes of a process."""
    return _read_status(pid, "VmRSS")


def read_max_resident_bytes(pid: int) -> int:
    """Return the largest number of resident bytes since a process started."""
    return _read_status(pid, "VmHWM")


def _read_status(pid: int, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", _read_proc_file(pid, "status"), re.MULTILINE)
    assert match is not None, "every process has these lines"
    return 1024 * int(match[1])


def _read_proc_file(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"this needs /proc, as on Linux: {error}") from error
