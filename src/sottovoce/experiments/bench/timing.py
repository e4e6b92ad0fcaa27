"""Timing on a machine that others use too: what counts is a ratio within one round.

A background job slows whatever runs beside it, so contenders take turns: every round runs each of
them once, in an order that rotates, and only times of the same round are divided by each other.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Watch = Callable[[str], None]


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
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> Spread:
        """The middle and the ends.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
        """
        return cls(float(np.median(values)), float(np.min(values)), float(np.max(values)))


def let_ray_compete() -> None:
    """Ray's processes step back for all others on the machine (niceness 15); a contender may not.

    Before Ray starts; what somebody has set stays.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")


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


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The exponent p of `seconds = c * size^p`: least squares on logarithms.

    >>> round(slope([1, 2, 4], [3.0, 12.0, 48.0]), 12)
    2.0
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(seconds, float))
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def peak_memory() -> int | None:
    """The most bytes that this process ever had resident; None where nobody counts them."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def copy_bandwidth(megabytes: int = 256, threads: int = 1) -> float:
    """Bytes that so many threads move in a second (read and written), copying a large array.

    By processor time: others on the machine do not count.
    """
    source = np.ones(megabytes << 17, np.float64)
    target = np.empty_like(source)
    pieces = list(
        zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
    )
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(4):  # the first touches the pages
            began = time.process_time()
            list(pool.map(lambda piece: np.copyto(*piece), pieces))
            best = min(best, (time.process_time() - began) / threads)
    return 2 * source.nbytes / best
