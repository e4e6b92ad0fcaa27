"""A paired bootstrap over people: how much a difference depends on the choice of people.

Intervals over splits do not say this, because all splits have the same people. Here each draw takes
as many people as there are, with replacement. All methods get the same draws, so their differences
are paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.streams import stream

RESAMPLE_COUNT = 1_000
RESAMPLE_SEED = 7_919
# Decimal digits of the means that are stored.
STORED_DIGITS = 7


def compute_resampled_means(values: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    """Return the mean of each metric in every draw, from its value for each person."""
    table = np.column_stack(list(values.values()))
    people = len(table)
    draws, means = stream(RESAMPLE_SEED, "drawn"), np.empty((RESAMPLE_COUNT, table.shape[1]))
    for row in means:
        times = np.bincount(draws.integers(0, people, people), minlength=people)
        row[:] = times.astype(np.float64) @ table / people
    return {
        name: np.round(column, STORED_DIGITS).tolist()
        for name, column in zip(values, means.T, strict=True)
    }


@dataclass(frozen=True)
class Difference:
    """The difference of two methods' means over the same people, with its 95% interval."""

    difference: float
    low: float
    high: float

    @classmethod
    def from_draws(
        cls, difference: float, ours: Iterable[list[float]], theirs: Iterable[list[float]]
    ) -> Difference:
        """Compute the interval of a difference.

        Args:
            difference: The difference of the two means.
            ours: For each split, the mean of our method in every draw.
            theirs: For each split, the mean of the other method in every draw.
        """
        gains = [np.subtract(*pair) for pair in zip(ours, theirs, strict=True)]
        low, high = np.quantile(np.mean(gains, axis=0), [0.025, 0.975])
        return cls(difference, float(low), float(high))

    def __str__(self) -> str:
        return f"{self.difference:+.4f} ({self.low:+.4f} to {self.high:+.4f})"
