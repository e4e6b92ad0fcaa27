"""Metrics of ranks: HR@K, NDCG@K, MRR@K, Recall@K, coverage; means with a 95% interval.

With one test item for each person Recall@K is HR@K. Of several it is, as in the literature on
held-out people (Liang et al. 2018), divided by the number of items that could have been found,
`min(K, hidden)`, and NDCG by the best that the same person could have had. Both are sums over the
hidden items, so they need only the rank of each hidden item. Everywhere a tie counts as its
expectation under a fair coin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.core import Histories
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.ranking import Factors, Ranks, rank_and_list

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# The cutoffs of the paper's tables.
METRIC_CUTOFFS = (2, 5, 10)
# Of Student's t, for an interval of 95%.
INTERVAL_QUANTILE = 0.975


def compute_hits(ranks: Ranks, cutoff: int) -> Float64:
    """Return the chance of each test item to be among the first `cutoff`, ties by a fair coin.

    A test item that ties with t others has an equal chance for each of these t + 1 places. So a
    model that scores everything alike is exactly as good as a random one.
    """
    return np.clip((cutoff - ranks.better) / (ranks.ties + 1), 0.0, 1.0)


def hit_ratio(ranks: Ranks, cutoff: int) -> float:
    """Return the share of test items that are among the first ones.

    Args:
        ranks: The ranks of the test items; ties count by their expectation under a fair coin.
        cutoff: How many are the first.
    """
    return compute_mean(compute_hits(ranks, cutoff))


def ndcg(ranks: Ranks, cutoff: int) -> float:
    """Return the mean of 1 / log2(1 + rank) within the cutoff, ties averaged over their places."""
    return compute_mean(compute_gains(ranks, cutoff))


def mrr(ranks: Ranks, cutoff: int) -> float:
    """Return the mean of 1 / rank within the cutoff, ties averaged over their places."""
    return compute_mean(compute_reciprocals(ranks, cutoff))


def compute_gains(ranks: Ranks, cutoff: int) -> Float64:
    """Return 1 / log2(1 + rank) of each test item; beyond the cutoff 0."""
    return _average_ties(ranks, sum_discounts(cutoff))


def compute_reciprocals(ranks: Ranks, cutoff: int) -> Float64:
    """Return 1 / rank of each test item; beyond the cutoff 0."""
    return _average_ties(ranks, np.concatenate([[0.0], np.cumsum(1 / np.arange(1, cutoff + 1))]))


def _average_ties(ranks: Ranks, totals: Float64) -> Float64:
    """Average a gain over the places of a tie; `totals[n]` is that of the first n places."""
    # A tie takes the places from `first` to `last`; those beyond the cutoff gain nothing.
    cutoff = len(totals) - 1
    first = np.minimum(ranks.better, cutoff)
    last = np.minimum(ranks.better + ranks.ties + 1, cutoff)
    return np.asarray((totals[last] - totals[first]) / (ranks.ties + 1))


def sum_discounts(cutoff: int) -> Float64:
    """Return the sum of 1 / log2(1 + rank) over the first n places, for n from 0 to the cutoff."""
    places = np.arange(1, cutoff + 1)
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + places))])


def summarize_ranks(ranks: Ranks, cutoffs: Sequence[int] = METRIC_CUTOFFS) -> dict[str, float]:
    """Return `hr@K` for every cutoff, and `ndcg@` and `mrr@` the largest."""
    metrics = {f"hr@{cutoff}": hit_ratio(ranks, cutoff) for cutoff in cutoffs}
    metrics[f"ndcg@{max(cutoffs)}"] = ndcg(ranks, max(cutoffs))
    metrics[f"mrr@{max(cutoffs)}"] = mrr(ranks, max(cutoffs))
    return metrics


def compute_mean(values: Float64) -> float:
    """Return the mean over people, of whom there must be one."""
    if not len(values):
        raise DataError("to be tested, somebody must have two interactions and an untouched item")
    return float(values.mean())


def recall(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """Return the mean over people of the share of their items among the first `cutoff`."""
    possible = np.minimum(np.diff(hidden.indptr), cutoff).astype(np.float64)
    return _average_shares(compute_hits(ranks, cutoff), hidden, possible)


def ndcg_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """Return the mean over people of the gain of their items, relative to the best possible."""
    best = sum_discounts(cutoff)[np.minimum(np.diff(hidden.indptr), cutoff)]
    return _average_shares(compute_gains(ranks, cutoff), hidden, best)


def hit_ratio_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """Return the share of people with any of their items among the first `cutoff`."""
    return _average_best(compute_hits(ranks, cutoff), hidden)


def mrr_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """Return the mean over people of one over the first place that any of their items has."""
    return _average_best(compute_reciprocals(ranks, cutoff), hidden)


def _average_shares(gains: Float64, hidden: Histories, possible: Float64) -> float:
    """Return the mean share of the possible gain over people who have hidden items."""
    totals = np.bincount(hidden.users_of_entries(), weights=gains, minlength=hidden.n_users)
    is_tested = possible > 0
    return compute_mean(totals[is_tested] / possible[is_tested])


def _average_best(gains: Float64, hidden: Histories) -> float:
    """Return the mean of the best gain of each person; ties between own items do not count."""
    # Where own items tie with each other, the expectation of their maximum is larger than this.
    best = np.zeros(hidden.n_users)
    np.maximum.at(best, hidden.users_of_entries(), gains)
    return compute_mean(best[np.diff(hidden.indptr) > 0])


def count_exposure(X: Float32, V: Float32, histories: Histories, length: int) -> NDArray[np.int64]:
    """Count for each item the lists of `length` that have it; a list has only untouched items."""
    _, lists = rank_and_list(Factors(X, V), histories, length=length)
    return count_listed(lists, histories.n_items)


def count_listed(lists: NDArray[np.int32], n_items: int) -> NDArray[np.int64]:
    """Count for each item the lists that have it; -1 is no item."""
    return np.bincount(lists[lists >= 0], minlength=n_items)


def coverage(exposed: NDArray[np.int64]) -> float:
    """Return the share of items that are recommended to anybody.

    >>> coverage(np.array([3, 0, 1, 0]))
    0.5
    """
    if not len(exposed):
        raise DataError("a catalogue must have at least one item")
    return float(np.count_nonzero(exposed)) / len(exposed)


@dataclass(frozen=True)
class Interval:
    """A mean over runs and its 95% interval (Student's t); with one run there is no interval."""

    mean: float
    half_width: float | None
    runs: int

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Self:
        """Compute the interval of one number for each seed or split.

        >>> Interval.from_values([1.0, 2.0, 3.0]).mean
        2.0
        """
        n = len(values)
        if n == 0:
            raise DataError("a mean needs at least one run")
        if n == 1:
            return cls(float(values[0]), None, 1)
        t = float(special.stdtrit(n - 1, INTERVAL_QUANTILE))
        return cls(float(np.mean(values)), t * float(np.std(values, ddof=1)) / sqrt(n), n)

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.half_width is None else f" ± {self.half_width:.4f}")
