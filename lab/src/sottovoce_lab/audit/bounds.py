"""What counts prove about epsilon, whatever the code behind them says.

If a client is eps-LDP, then for every event `P[event | first] <= e^eps P[event | second]`, for any
two histories. Counting the event under both gives, by Clopper and Pearson's exact intervals, an
epsilon that the client is *at least* as bad as, except with a chance that is chosen beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sottovoce.errors import SettingsError


@dataclass(frozen=True)
class Count:
    happened: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.happened <= self.trials or self.trials < 1:
            raise SettingsError(f"cannot have seen {self.happened} of {self.trials}")

    def at_least(self, miss: float) -> float:
        """The chance lies above this, except with probability `miss`."""
        if self.happened == 0:
            return 0.0
        return float(stats.beta.ppf(miss, self.happened, self.trials - self.happened + 1))

    def at_most(self, miss: float) -> float:
        """The chance lies below this, except with probability `miss`."""
        if self.happened == self.trials:
            return 1.0
        return float(stats.beta.isf(miss, self.happened + 1, self.trials - self.happened))


def epsilon_at_least(first: Count, second: Count, alpha: float) -> float:
    """The epsilon that these counts prove, except with probability `alpha`; 0 if they prove none.

    Both directions are tried, and each needs one chance from below and one from above: four exact
    bounds that may miss, with `alpha / 4` each.

    >>> round(epsilon_at_least(Count(94264, 100_000), Count(5736, 100_000), 1e-6), 6)
    2.731547
    """
    miss = alpha / 4
    return max(_one_way(first, second, miss), _one_way(second, first, miss))


def _one_way(likelier: Count, rarer: Count, miss: float) -> float:
    low = likelier.at_least(miss)
    return max(0.0, log(low / rarer.at_most(miss))) if low > 0 else 0.0


def surprise(seen: Count, chance: float) -> float:
    """Two-sided p-value of a count whose chance is known."""
    return _two_sided(stats.binom(seen.trials, chance), np.array(seen.happened))


def unlike(counts: NDArray[np.integer], chances: NDArray[np.float64]) -> float:
    """p-value of counts of things with known chances."""
    return _two_sided(stats.binom(int(counts.sum()), chances), counts)


def related(one: NDArray[Any], other: NDArray[Any]) -> float:
    """p-value of two things that should have nothing to do with each other.

    Given the margins, each cell of their table is hypergeometric.
    """
    rows, columns = (np.unique(each, return_inverse=True)[1] for each in (one, other))
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    table = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    by_row, by_column = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    return _two_sided(stats.hypergeom(int(table.sum()), by_row, by_column), table)


def _two_sided(law: Any, seen: NDArray[np.integer]) -> float:
    """The most surprising cell, by exact tails: both of every cell count.

    Not chi-square, whose approximation fails where it is needed here: rare flips, and
    probabilities of one in a thousand million.
    """
    tails = np.minimum(law.cdf(seen), law.sf(seen - 1))
    return min(1.0, 2 * seen.size * float(tails.min()))
