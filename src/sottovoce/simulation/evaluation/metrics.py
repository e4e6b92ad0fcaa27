"""From ranks to numbers: HR@K, NDCG@K, MRR@K, Recall@K, coverage; means with a 95% interval.

With one test item for each person Recall@K is HR@K. Of several it is, as in the literature on
held-out people (Liang et al. 2018), divided by as many items as could have been found,
`min(K, hidden)`, and NDCG by the best that the same person could have had. Both are sums over the
hidden items, so the place of each one by itself is all that is needed. Ties count by a fair coin in
expectation everywhere.
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
from sottovoce.simulation.evaluation.ranking import Ranks, find_best_untouched

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

METRIC_CUTOFFS = (2, 5, 10)


def compute_hits(ranks: Ranks, cutoff: int) -> Float64:
    """For each, the chance that the test item is among the first `cutoff`, ties by a fair coin.

    A test item that ties with t others lies anywhere among these t + 1 places with equal chance,
    so a model that scores everything alike is exactly as good as a random one.
    """
    return np.clip((cutoff - ranks.better) / (ranks.ties + 1), 0.0, 1.0)


def hit_ratio(ranks: Ranks, cutoff: int) -> float:
    """The share of test items among the first ones.

    Args:
        ranks: Where test items rank; ties count by their expectation under a fair coin.
        cutoff: How many are the first.
    """
    return compute_mean(compute_hits(ranks, cutoff))


def ndcg(ranks: Ranks, cutoff: int) -> float:
    """Mean of 1 / log2(1 + rank) within the cutoff, ties averaged over their places."""
    return compute_mean(compute_gains(ranks, cutoff))


def mrr(ranks: Ranks, cutoff: int) -> float:
    """Mean of 1 / rank within the cutoff, ties averaged over their places."""
    return compute_mean(compute_reciprocals(ranks, cutoff))


def compute_gains(ranks: Ranks, cutoff: int) -> Float64:
    """For each, what its place is worth; beyond the cutoff nothing."""
    return _averaged(ranks, sum_discounts(cutoff))


def compute_reciprocals(ranks: Ranks, cutoff: int) -> Float64:
    """For each, one over its place; beyond the cutoff nothing."""
    return _averaged(ranks, np.concatenate([[0.0], np.cumsum(1 / np.arange(1, cutoff + 1))]))


def _averaged(ranks: Ranks, worth: Float64) -> Float64:
    """Over the places of a tie, where the first n places are worth `worth[n]` together."""
    cutoff = len(worth) - 1
    first = np.minimum(ranks.better, cutoff)
    last = np.minimum(ranks.better + ranks.ties + 1, cutoff)
    return np.asarray((worth[last] - worth[first]) / (ranks.ties + 1))


def sum_discounts(cutoff: int) -> Float64:
    """What the first n places are worth together, for n from 0 to the cutoff."""
    places = np.arange(1, cutoff + 1)
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + places))])


def summarize_ranks(ranks: Ranks, cutoffs: Sequence[int] = METRIC_CUTOFFS) -> dict[str, float]:
    """`hr@K` for every cutoff, `ndcg@` and `mrr@` the largest."""
    out = {f"hr@{cutoff}": hit_ratio(ranks, cutoff) for cutoff in cutoffs}
    out[f"ndcg@{max(cutoffs)}"] = ndcg(ranks, max(cutoffs))
    out[f"mrr@{max(cutoffs)}"] = mrr(ranks, max(cutoffs))
    return out


def compute_mean(values: Float64) -> float:
    """Over people, of whom there must be one."""
    if not len(values):
        raise DataError("to be tested, somebody must have two interactions and an untouched item")
    return float(values.mean())


def recall(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The mean over people of the share that is among the first `cutoff`."""
    possible = np.minimum(np.diff(hidden.indptr), cutoff).astype(np.float64)
    return _mean_share(compute_hits(ranks, cutoff), hidden, possible)


def ndcg_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The mean over people of what the places of their items are worth, the best being 1."""
    best = sum_discounts(cutoff)[np.minimum(np.diff(hidden.indptr), cutoff)]
    return _mean_share(compute_gains(ranks, cutoff), hidden, best)


def hit_ratio_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The share of people with any of their items among the first `cutoff`."""
    return _mean_best(compute_hits(ranks, cutoff), hidden)


def mrr_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The mean over people of one over the first place that any of their items has."""
    return _mean_best(compute_reciprocals(ranks, cutoff), hidden)


def _mean_share(found: Float64, hidden: Histories, possible: Float64) -> float:
    """Over people of whom something is hidden."""
    totals = np.bincount(hidden.users_of_entries(), weights=found, minlength=hidden.n_users)
    asked = possible > 0
    return compute_mean(totals[asked] / possible[asked])


def _mean_best(found: Float64, hidden: Histories) -> float:
    """The same of the best item of each; that several tie with each other is left aside."""
    most = np.zeros(hidden.n_users)
    np.maximum.at(most, hidden.users_of_entries(), found)
    return compute_mean(most[np.diff(hidden.indptr) > 0])


def count_exposure(X: Float32, V: Float32, histories: Histories, length: int) -> NDArray[np.int64]:
    """In how many people's first `length` each item is, of all that they did not touch."""
    lists = find_best_untouched(X, V, histories, length)
    return np.bincount(lists[lists >= 0], minlength=histories.n_items)


def coverage(exposed: NDArray[np.int64]) -> float:
    """The share of items that are recommended to anybody.

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
        """From one number for each seed or split.

        >>> Interval.from_values([1.0, 2.0, 3.0]).mean
        2.0
        """
        n = len(values)
        if n == 0:
            raise DataError("a mean needs at least one run")
        if n == 1:
            return cls(float(values[0]), None, 1)
        t = float(special.stdtrit(n - 1, 0.975))
        return cls(float(np.mean(values)), t * float(np.std(values, ddof=1)) / sqrt(n), n)

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.half_width is None else f" ± {self.half_width:.4f}")
