"""Quality from signal: one number for people, reports, budget and catalogue together.

A server adds up what N people say in k reports each, about M items, and of every report `gain` is
signal. So what it knows of an item grows with `z = N k gain^2 / M`. Quality rises with z in two
steps: first what is popular is learnt, much later who likes what.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import exp, inf, log
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """What a law is fitted to, or checked on."""

    signal: float
    """z."""
    people: float
    """Whose histories are in it, each counted once."""
    quality: float


@dataclass(frozen=True)
class Law:
    """Seven numbers for one catalogue."""

    popular: float
    """Where the first step ends."""
    best: float
    """Where the second one does."""
    first: float
    """ln z in the middle of the first step."""
    first_width: float
    second: float
    second_width: float
    own: float
    """ln of the signal that a person's history is worth, where nothing is hidden: a few people say
    little about items however loudly they speak."""

    CHANCE = 0.1
    """HR@10 of a draw among 100."""

    @classmethod
    def fitted(cls, points: Sequence[Measured]) -> Law:
        """By least squares, from many starts."""
        from scipy import optimize

        if len(points) < len(LOWEST):
            raise DataError(f"a law needs {len(LOWEST)} measurements at least, got {len(points)}")
        z, people, found = (
            np.array([getattr(each, name) for each in points])
            for name in ("signal", "people", "quality")
        )

        def misses(numbers: Float64) -> Float64:
            return np.asarray(_quality(numbers, z, people) - found)

        tries = [
            optimize.least_squares(misses, start, bounds=(LOWEST, HIGHEST))
            for start in _starts(found)
        ]
        return cls(*min(tries, key=lambda each: each.cost).x.tolist())

    def quality(self, signal: float, people: float = inf) -> float:
        numbers = np.array(astuple(self))
        return float(_quality(numbers, np.array(signal), np.array(people)))

    def needed(self, quality: float, people: float = inf) -> float | None:
        """The least signal that is enough; None where none is."""
        low, high = -10.0, 40.0
        if self.quality(exp(high), people) < quality:
            return None
        while high - low > 1e-6:
            middle = (low + high) / 2
            if self.quality(exp(middle), people) < quality:
                low = middle
            else:
                high = middle
        return exp(high)


LOWEST = (0.1, 0.1, -5.0, 0.2, 0.0, 0.5, -10.0)
HIGHEST = (1.0, 1.0, 10.0, 5.0, 20.0, 8.0, 20.0)


def _quality(numbers: Float64, signal: Float64, people: Float64) -> Float64:
    popular, best, first, first_width, second, second_width, own = numbers
    alike = 1.0 / (1.0 / signal + 1.0 / (np.exp(own) * people))
    at = np.log(alike)
    learnt = _step((at - first) / first_width)
    further = _step((at - second) / second_width)
    return np.asarray(Law.CHANCE + (popular - Law.CHANCE) * learnt + (best - popular) * further)


def _step(at: Float64) -> Float64:
    return np.asarray(0.5 * (1.0 + np.tanh(at / 2)))


def _starts(found: Float64) -> list[tuple[float, ...]]:
    low, high = float(np.median(found)), min(float(found.max()) + 0.01, 0.99)
    return [
        (max(low, 0.11), high, log(first), 1.0, log(second), 2.0, own)
        for first in (0.5, 5.0)
        for second in (500.0, 5_000.0)
        for own in (0.0, 3.0)
    ]
