"""The law: quality as a function of people, reports, budget and catalogue. Not in the paper.

N people make k reports each, so there are N k reports about M items. The share `gain` of every
report is signal. So what a server learns about an item grows with the signal `z = N k gain^2 / M`.
Quality is a curve of z through a few knots. With a small z a model learns which items are popular.
It learns tastes only with a much larger z.

A large epsilon can give a large z with few reports. Then quality is lower than the curve, because
the models of the first epochs come from single reports. So z is divided by
`1 + (few / reports)^power`, where `reports` counts the reports of all people, and the numbers `few`
and `power` are fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError

Float64 = NDArray[np.float64]
KNOT_COUNT = 6
# Number of values that are fitted: the heights of the knots, `few` and `power`.
FITTED_NUMBERS = KNOT_COUNT + 2
# Range in which ln(few) is searched.
LOG_FEW_RANGE = (0.0, 15.0)
# Range in which the power is searched.
POWER_RANGE = (0.3, 3.0)
# The fit starts at least this far from the ends of all ranges.
START_MARGIN = 1e-6


@dataclass(frozen=True)
class Measurement:
    """A measured quality that a law is fitted to, or checked on."""

    signal: float
    """The signal z."""
    reports: float
    """Reports of all people in the whole training."""
    quality: float


@dataclass(frozen=True)
class Law:
    """A law for one catalogue."""

    knots: tuple[float, ...]
    """ln z, ascending and evenly spaced."""
    heights: tuple[float, ...]
    """Quality at these knots, which never descends."""
    few: float
    """Number of reports for which z is divided by 2."""
    power: float
    """Power of the correction for few reports."""

    @classmethod
    def fit(cls, measurements: Sequence[Measurement]) -> Law:
        """Fit a law by least squares."""
        # Imported here, because it takes long and reading results does not need it.
        from scipy import optimize

        if len(measurements) < FITTED_NUMBERS:
            raise DataError(
                f"a law needs {FITTED_NUMBERS} measurements at least, got {len(measurements)}"
            )
        z, reports, quality = (
            np.array([getattr(measurement, name) for measurement in measurements])
            for name in ("signal", "reports", "quality")
        )
        knots = np.linspace(log(z.min()), log(z.max()), KNOT_COUNT)

        def compute_misses(numbers: Float64) -> Float64:
            heights, few, power = _unpack(numbers)
            return np.asarray(_evaluate(knots, heights, few, power, np.log(z), reports) - quality)

        rise = (quality.max() - quality.min()) / (KNOT_COUNT - 1)
        log_few = log(np.median(reports)) / 2 + 2
        start = [quality.min(), *[rise] * (KNOT_COUNT - 1), log_few, 1.0]
        lowest = [0.0] * KNOT_COUNT + [LOG_FEW_RANGE[0], POWER_RANGE[0]]
        highest = [1.0] * KNOT_COUNT + [LOG_FEW_RANGE[1], POWER_RANGE[1]]
        inner = np.add(lowest, START_MARGIN), np.subtract(highest, START_MARGIN)
        start = np.clip(start, *inner).tolist()
        best = optimize.least_squares(compute_misses, start, bounds=(lowest, highest))
        heights, few, power = _unpack(best.x)
        return cls(tuple(knots.tolist()), tuple(heights.tolist()), few, power)

    def predict_quality(self, signal: float, reports: float = inf) -> float:
        """Predict quality; beyond the largest signal that was measured it is constant."""
        at = min(log(signal), self.knots[-1])
        knots, heights = np.array(self.knots), np.array(self.heights)
        args = (knots, heights, self.few, self.power, np.array(at), np.array(reports))
        return float(_evaluate(*args))

    def compute_loss(self, reports: float) -> float:
        """Return the number by which z is divided with this many reports in all."""
        return float(1 + (self.few / reports) ** self.power)


def _unpack(numbers: Float64) -> tuple[Float64, float, float]:
    """Convert the optimiser's numbers to heights, few and power.

    Its numbers are the rises from height to height, ln(few), and the power.
    """
    return np.cumsum(numbers[:KNOT_COUNT]), exp(numbers[KNOT_COUNT]), float(numbers[KNOT_COUNT + 1])


def _evaluate(
    knots: Float64, heights: Float64, few: float, power: float, at: Float64, reports: Float64
) -> Float64:
    """Return the curve at ln z, which is monotone between knots and straight outside of them."""
    from scipy.interpolate import PchipInterpolator

    curve = PchipInterpolator(knots, heights)
    counted = at - np.log1p((few / reports) ** power)
    within = np.clip(counted, knots[0], knots[-1])
    return np.asarray(curve(within) + (counted - within) * curve.derivative()(within))
