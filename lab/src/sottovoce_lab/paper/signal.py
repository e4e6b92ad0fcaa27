"""Quality from signal: one number for people, reports, budget and catalogue together.

A server adds up what N people say in k reports each, about M items, and of every report `gain` is
signal. So what it knows of an item grows with `z = N k gain^2 / M`. Quality rises with z, along a
curve that is drawn through a few knots: first what is popular is learnt, much later who likes what.

A few loud reports say less than z. Where there are no more than some for each item, the first
epochs' models are made of single reports, and who reports next has nothing to correct. So z counts
for less by the factor `1 + (few / reports)^power`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, log1p

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError

Float64 = NDArray[np.float64]

KNOTS = 6
NUMBERS = KNOTS + 2
"""That are fitted."""
FEW, POWER = (0.0, 15.0), (0.3, 3.0)
"""Between which ln few and the power are sought."""


@dataclass(frozen=True)
class Measured:
    """What a law is fitted to, or checked on."""

    signal: float
    """z."""
    reports: float
    """Of all people, in the whole training."""
    quality: float


@dataclass(frozen=True)
class Law:
    """For one catalogue."""

    knots: tuple[float, ...]
    """ln z, ascending and evenly spaced."""
    heights: tuple[float, ...]
    """Quality there; never descending."""
    few: float
    """Reports with which z counts by half."""
    power: float

    @classmethod
    def fitted(cls, points: Sequence[Measured]) -> Law:
        """By least squares."""
        from scipy import optimize

        if len(points) < NUMBERS:
            raise DataError(f"a law needs {NUMBERS} measurements at least, got {len(points)}")
        z, reports, found = (
            np.array([getattr(each, name) for each in points])
            for name in ("signal", "reports", "quality")
        )
        knots = np.linspace(log(z.min()), log(z.max()), KNOTS)

        def misses(numbers: Float64) -> Float64:
            return np.asarray(_curve(knots, *_parts(numbers), np.log(z), reports) - found)

        rise = (found.max() - found.min()) / (KNOTS - 1)
        start = [found.min(), *[rise] * (KNOTS - 1), log(np.median(reports)) / 2 + 2, 1.0]
        lowest = [0.0] * KNOTS + [FEW[0], POWER[0]]
        highest = [1.0] * KNOTS + [FEW[1], POWER[1]]
        start = np.clip(start, np.add(lowest, 1e-6), np.subtract(highest, 1e-6)).tolist()
        best = optimize.least_squares(misses, start, bounds=(lowest, highest))
        heights, few, power = _parts(best.x)
        return cls(tuple(knots.tolist()), tuple(heights.tolist()), few, power)

    def quality(self, signal: float, reports: float = inf) -> float:
        """As far as signal was measured; beyond it the curve is level."""
        at = min(log(signal), self.knots[-1])
        knots, heights = np.array(self.knots), np.array(self.heights)
        return float(_curve(knots, heights, self.few, self.power, np.array(at), np.array(reports)))

    def needed(self, quality: float, reports: float = inf) -> float | None:
        """The least signal that is enough; None where none is that was measured."""
        low, high = self.knots[0], self.knots[-1]
        if self.quality(exp(high), reports) < quality:
            return None
        while high - low > 1e-6:
            middle = (low + high) / 2
            if self.quality(exp(middle), reports) < quality:
                low = middle
            else:
                high = middle
        return exp(high)

    def lost(self, reports: float) -> float:
        """By which factor z counts for less with so many reports in all."""
        return exp(log1p((self.few / reports) ** self.power))


def _parts(numbers: Float64) -> tuple[Float64, float, float]:
    """The first height and how far each following is above; ln few; the power."""
    return np.cumsum(numbers[:KNOTS]), exp(numbers[KNOTS]), float(numbers[KNOTS + 1])


def _curve(
    knots: Float64, heights: Float64, few: float, power: float, at: Float64, reports: Float64
) -> Float64:
    """Monotone between knots; outside of them straight on."""
    from scipy.interpolate import PchipInterpolator

    curve = PchipInterpolator(knots, heights)
    counted = at - np.log1p((few / reports) ** power)
    within = np.clip(counted, knots[0], knots[-1])
    return np.asarray(curve(within) + (counted - within) * curve.derivative()(within))
