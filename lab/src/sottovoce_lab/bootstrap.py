"""A paired bootstrap over people: how much differences depend on the choice of people.

Intervals over splits do not say this, because all splits have the same people. Here each draw takes
as many people as there are, with replacement. All methods get the same draws, so their differences
are paired.

A table claims many differences at once. Of forty intervals that each hold in 95 of 100 cases, one
or two would be wrong. So the intervals of a table are widened until all of them hold together in 95
of 100 cases (the "max-t" method of Romano and Wolf). For each draw, the largest deviation of any
difference is taken, in standard errors. Intervals are as wide as 95% of these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.streams import stream

Float64 = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)
RESAMPLE_COUNT = 1_000
RESAMPLE_SEED = 7_919
# Decimal digits of the means that are stored.
STORED_DIGITS = 7
# The chance with which all intervals of a table hold together.
COVERAGE = 0.95


def resample_people(n_people: int) -> Iterator[NDArray[np.int64]]:
    """Yield how often each person is in a draw, draw by draw."""
    draws = stream(RESAMPLE_SEED, "drawn")
    for _ in range(RESAMPLE_COUNT):
        yield np.bincount(draws.integers(0, n_people, n_people), minlength=n_people)


def compute_resampled_means(values: Mapping[str, Float64]) -> dict[str, list[float]]:
    """Return the mean of each metric in every draw, from its value for each person."""
    table = np.column_stack(list(values.values()))
    means = [times.astype(np.float64) @ table / len(table) for times in resample_people(len(table))]
    return {
        name: np.round(column, STORED_DIGITS).tolist()
        for name, column in zip(values, np.transpose(means), strict=True)
    }


@dataclass(frozen=True)
class Difference:
    """The difference of two methods' means over the same people, with its interval."""

    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.difference:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


def compute_differences(
    differences: Mapping[Key, float], draws: Mapping[Key, Float64]
) -> dict[Key, Difference]:
    """Compute intervals of all differences of a table, which hold together.

    Args:
        differences: The differences of means.
        draws: The same differences in every draw.
    """
    if not differences:
        return {}
    drawn = np.column_stack([draws[key] for key in differences])
    errors = drawn.std(axis=0, ddof=1)
    deviations = np.abs(drawn - drawn.mean(axis=0))
    # Two methods with equal lists differ by exactly 0 in every draw.
    relative = np.divide(deviations, errors, out=np.zeros_like(deviations), where=errors > 0)
    width = float(np.quantile(relative.max(axis=1), COVERAGE))
    return {
        key: Difference(mean, mean - width * float(error), mean + width * float(error))
        for (key, mean), error in zip(differences.items(), errors, strict=True)
    }
