"""Lower bounds of epsilon from counts of reports, without trust in the code that made the reports.

If a client is eps-LDP, then for any two histories, `P[event | first] <= e^eps P[event | second]`
for every event. From counts of the event under both histories, Clopper and Pearson's exact
intervals give a lower bound of the client's true epsilon. The bound is wrong with a probability
that is chosen beforehand.
"""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sottovoce.errors import SettingsError


@dataclass(frozen=True)
class Count:
    """How often an event happened in a number of trials."""

    happened: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.happened <= self.trials or self.trials < 1:
            raise SettingsError(f"happened must be from 0 to {self.trials}, got {self.happened}")

    def bound_below(self, miss: float) -> float:
        """Return a number below the event's probability, except with probability `miss`."""
        if self.happened == 0:
            return 0.0
        return float(stats.beta.ppf(miss, self.happened, self.trials - self.happened + 1))

    def bound_above(self, miss: float) -> float:
        """Return a number above the event's probability, except with probability `miss`."""
        if self.happened == self.trials:
            return 1.0
        return float(stats.beta.isf(miss, self.happened + 1, self.trials - self.happened))


@dataclass(frozen=True)
class Ratio:
    """Counts of an event under two histories; its probabilities may differ by `e^claim`."""

    mechanism: str
    check: str
    event: str
    first: Count
    second: Count
    claim: float


@dataclass(frozen=True)
class Surprise:
    """The p-value of an event that is unlikely for an honest client."""

    mechanism: str
    check: str
    event: str
    p_value: float


@dataclass(frozen=True)
class Fact:
    """A statement that holds or not.

    For an honest client, the probability that it does not hold is below 2^-200.
    """

    mechanism: str
    check: str
    seen: str
    holds: bool


Evidence = Ratio | Surprise | Fact


def bound_epsilon(first: Count, second: Count, alpha: float) -> float:
    """Return a lower bound of epsilon that is wrong with probability `alpha` or less.

    It is 0 if the counts prove nothing.

    >>> round(bound_epsilon(Count(94264, 100_000), Count(5736, 100_000), 1e-6), 6)
    2.731547
    """
    # The event may be more likely under either history. Each of the two cases needs a lower and an
    # upper bound of a probability, so four bounds share alpha.
    miss = alpha / 4
    return max(_bound_one_way(first, second, miss), _bound_one_way(second, first, miss))


def _bound_one_way(likelier: Count, rarer: Count, miss: float) -> float:
    low = likelier.bound_below(miss)
    return max(0.0, log(low / rarer.bound_above(miss))) if low > 0 else 0.0


def compute_count_p_value(seen: Count, probability: float) -> float:
    """Return the two-sided p-value of a count of an event with this probability."""
    return _compute_p_value(stats.binom(seen.trials, probability), np.array(seen.happened))


def compute_counts_p_value(
    counts: NDArray[np.integer], probabilities: NDArray[np.float64]
) -> float:
    """Return the p-value of the counts of several outcomes with these probabilities."""
    return _compute_p_value(stats.binom(int(counts.sum()), probabilities), counts)


def compute_independence_p_value(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the p-value of pairs of values that should be independent."""
    rows, columns = (np.unique(values, return_inverse=True)[1] for values in (one, other))
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    table = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    by_row, by_column = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    # Given the sums of its rows and columns, each cell of the table is hypergeometric.
    return _compute_p_value(stats.hypergeom(int(table.sum()), by_row, by_column), table)


def _compute_p_value(distribution: Any, seen: NDArray[np.integer]) -> float:
    """Return one p-value for all cells: the smallest exact tail, times the number of tails."""
    # Not chi-square: its approximation fails for rare outcomes, and for p-values of one
    # in a thousand million.
    tails = np.minimum(distribution.cdf(seen), distribution.sf(seen - 1))
    return min(1.0, 2 * seen.size * float(tails.min()))
