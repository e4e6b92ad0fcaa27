"""A paired bootstrap over people: how far a difference depends on whom it was measured on.

Intervals over splits do not say that: their people are the same. People are drawn with replacement,
the same draws for every method, so a difference of two methods' means in one draw is paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.streams import stream

RESAMPLES, SEED = 1_000, 7_919
DIGITS = 7
"""Of the means that are kept."""
Means = Mapping[str, list[float]]
"""By metric, one for each draw of people."""


def means_of(values: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    """The mean of each metric in every draw, from its value for each person."""
    table = np.column_stack(list(values.values()))
    people = len(table)
    draws, out = stream(SEED, "drawn"), np.empty((RESAMPLES, table.shape[1]))
    for row in out:
        times = np.bincount(draws.integers(0, people, people), minlength=people)
        row[:] = times.astype(np.float64) @ table / people
    return {
        name: np.round(column, DIGITS).tolist() for name, column in zip(values, out.T, strict=True)
    }


@dataclass(frozen=True)
class Difference:
    """Of two methods' means over the same people and splits, with its 95% interval."""

    apart: float
    low: float
    high: float

    @classmethod
    def of(
        cls, apart: float, mine: Iterable[list[float]], other: Iterable[list[float]]
    ) -> Difference:
        """From the means of both in every draw, split by split."""
        drawn = np.mean([np.subtract(*both) for both in zip(mine, other, strict=True)], axis=0)
        low, high = np.quantile(drawn, [0.025, 0.975])
        return cls(apart, float(low), float(high))

    def __str__(self) -> str:
        return f"{self.apart:+.4f} ({self.low:+.4f} to {self.high:+.4f})"
