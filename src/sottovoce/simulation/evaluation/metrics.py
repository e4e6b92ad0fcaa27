"""Metrics by name, such as "ndcg@100", of the ranks of test items and of the lists that people get.

Hidden items are test items, of which a person may have several. Items with equal scores are taken
in random order, and each metric is the expectation. For a person with H hidden items, and a list
of K items:

- `hr`: whether any hidden item is in the list. `mrr`: one over the place of the first one.
- `recall`: the number of hidden items in the list, divided by min(K, H) as in Liang et al. (2018).
- `precision`: the number of hidden items in the list, divided by K.
- `map`: the precision of the list up to each hidden item, summed and divided by min(K, H).
- `ndcg`: the sum of 1 / log2(1 + place), divided by the best possible sum.
- `coverage`: the share of items that are in anybody's list. `gini`: the Gini index of how often
  they are. `novelty`: the mean of -log2(share of people who have an item) over lists.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.core import Histories
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation.evaluation.ranking import Factors, Ranks, rank_and_list

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# Metrics of the ranks of hidden items, and metrics of the lists that people get.
RANK_METRICS = ("hr", "recall", "precision", "map", "mrr", "ndcg")
LIST_METRICS = ("coverage", "novelty", "gini")
# The metrics of the paper's tables.
PAPER_METRICS = ("hr@2", "hr@5", "hr@10", "ndcg@10", "mrr@10")
# Quantile of Student's t for an interval of 95%.
INTERVAL_QUANTILE = 0.975


@dataclass(frozen=True)
class Metric:
    """A metric, and the length of the lists that it measures."""

    kind: str
    cutoff: int

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Read a name such as "recall@20".

        Raises:
            SettingsError: There is no such metric.
        """
        kind, _, digits = name.partition("@")
        kinds = (*RANK_METRICS, *LIST_METRICS)
        if kind not in kinds or not re.fullmatch("[1-9][0-9]{0,5}", digits):
            raise SettingsError(
                f"no metric {name!r:.80}: name one of {', '.join(kinds)} with a length, as ndcg@100"
            )
        return cls(kind, int(digits))

    def __str__(self) -> str:
        return f"{self.kind}@{self.cutoff}"


def compute_by_person(metric: Metric, ranks: Ranks, n_hidden: NDArray[np.int64]) -> Float64:
    """Return a metric of ranks for each person.

    Args:
        metric: One of `RANK_METRICS`.
        ranks: The ranks of all hidden items, person by person.
        n_hidden: The number of each person's hidden items, at least 1.
    """
    cutoff, owners = metric.cutoff, np.repeat(np.arange(len(n_hidden)), n_hidden)
    if metric.kind in ("hr", "mrr"):
        # If hidden items of one person tie with each other, the true expectation is a bit larger.
        compute = compute_hits if metric.kind == "hr" else compute_reciprocals
        best = np.zeros(len(n_hidden))
        np.maximum.at(best, owners, compute(ranks, cutoff))
        return best
    possible = np.minimum(n_hidden, cutoff).astype(np.float64)
    if metric.kind == "precision":
        possible[:] = cutoff
    elif metric.kind == "ndcg":
        possible = sum_discounts(cutoff)[np.minimum(n_hidden, cutoff)]
    if metric.kind == "map":
        gains = _compute_precisions(ranks, owners, cutoff)
    else:
        gains = (compute_gains if metric.kind == "ndcg" else compute_hits)(ranks, cutoff)
    return np.bincount(owners, weights=gains, minlength=len(n_hidden)) / possible


def compute_hits(ranks: Ranks, cutoff: int) -> Float64:
    """Return the chance of each test item to be among the first `cutoff` items.

    A test item that ties with t others is equally likely to be at each of the t + 1 places that
    they share. So a model that scores everything alike is exactly as good as a random one.
    """
    return np.clip((cutoff - ranks.better) / (ranks.ties + 1), 0.0, 1.0)


def compute_gains(ranks: Ranks, cutoff: int) -> Float64:
    """Return 1 / log2(1 + rank) of each test item, or 0 beyond the cutoff."""
    return _average_ties(ranks, sum_discounts(cutoff))


def compute_reciprocals(ranks: Ranks, cutoff: int) -> Float64:
    """Return 1 / rank of each test item, or 0 beyond the cutoff."""
    return _average_ties(ranks, _sum_reciprocals(cutoff))


def _average_ties(ranks: Ranks, totals: Float64) -> Float64:
    """Average a gain over the places of a tie; `totals[n]` is the sum of the first n gains."""
    # A tie takes the places from `first` to `last`; those beyond the cutoff gain nothing.
    cutoff = len(totals) - 1
    first = np.minimum(ranks.better, cutoff)
    last = np.minimum(ranks.better + ranks.ties + 1, cutoff)
    return np.asarray((totals[last] - totals[first]) / (ranks.ties + 1))


def _compute_precisions(ranks: Ranks, owners: NDArray[np.int64], cutoff: int) -> Float64:
    """Return the precision of the list up to each hidden item, or 0 beyond the cutoff."""
    order = np.lexsort((ranks.better, owners))
    owner, better, size = owners[order], ranks.better[order], ranks.ties[order] + 1
    # Hidden items of a person with equal scores form a group. The person's earlier groups have
    # higher scores.
    entries, is_first = np.arange(len(owner)), np.ones(len(owner), bool)
    is_first[1:] = (owner[1:] != owner[:-1]) | (better[1:] != better[:-1])
    group = np.cumsum(is_first) - 1
    own_in_group, start = np.bincount(group)[group], entries[is_first][group]
    above = start - np.searchsorted(owner, owner)
    # At the nth place of a tie, the expected share of the group's other items above is
    # (n - 1) / ties.
    slope = (own_in_group - 1) / np.maximum(size - 1, 1)
    n_places = np.clip(cutoff - better, 0, size)
    totals, first = _sum_reciprocals(cutoff), np.minimum(better, cutoff)
    reciprocals = totals[first + n_places] - totals[first]
    sums = (1 + above) * reciprocals + slope * (n_places - (better + 1) * reciprocals)
    precisions = np.empty(len(owner))
    precisions[order] = sums / size
    return precisions


def sum_discounts(cutoff: int) -> Float64:
    """Return the sum of 1 / log2(1 + rank) over the first n places, for n from 0 to the cutoff."""
    places = np.arange(1, cutoff + 1)
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + places))])


def _sum_reciprocals(cutoff: int) -> Float64:
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, cutoff + 1))])


def hit_ratio(ranks: Ranks, cutoff: int) -> float:
    """Return the share of test items that are among the first `cutoff` items.

    Args:
        ranks: The ranks of the test items; ties count by their expectation in a random order.
        cutoff: The length of the list.
    """
    return compute_mean(compute_hits(ranks, cutoff))


def ndcg(ranks: Ranks, cutoff: int) -> float:
    """Return the mean of 1 / log2(1 + rank) within the cutoff, ties averaged over their places."""
    return compute_mean(compute_gains(ranks, cutoff))


def summarize_ranks(
    ranks: Ranks,
    metrics: Sequence[str] = PAPER_METRICS,
    n_hidden: NDArray[np.int64] | None = None,
) -> dict[str, float]:
    """Return the means of metrics of ranks over people.

    Args:
        ranks: The ranks of all hidden items, person by person.
        metrics: Names of metrics; metrics of lists are ignored.
        n_hidden: The number of each person's hidden items, at least 1; None: everybody has one.
    """
    n_hidden = np.ones(len(ranks.better), np.int64) if n_hidden is None else n_hidden
    parsed = [metric for metric in map(Metric.from_name, metrics) if metric.kind in RANK_METRICS]
    return {
        str(metric): compute_mean(compute_by_person(metric, ranks, n_hidden)) for metric in parsed
    }


def compute_mean(values: Float64) -> float:
    """Return the mean over people, of whom there must be at least one."""
    if not len(values):
        raise DataError(
            "nobody can be tested: a person must have two interactions and an untouched item"
        )
    return float(values.mean())


def count_exposure(X: Float32, V: Float32, histories: Histories, length: int) -> NDArray[np.int64]:
    """Count for each item the lists that contain it; lists have `length` untouched items."""
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


def compute_gini(counts: NDArray[np.int64]) -> float:
    """Return the Gini index: 0 if all items are shown equally often, near 1 if few are shown.

    >>> compute_gini(np.array([2, 2, 2])), compute_gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    n, total = len(counts), float(counts.sum())
    places = 2 * np.arange(1, n + 1) - n - 1
    return float(places @ np.sort(counts)) / (n * total) if total else 0.0


def compute_novelty(lists: NDArray[np.int32], touched: NDArray[np.int64], people: int) -> Float64:
    """Return for each list the mean of -log2(share of people who have an item), 0 if empty.

    Args:
        lists: Items in rows; -1 is no item.
        touched: For each item, how many people have it; 0 counts as 1.
        people: The number of people.
    """
    surprise = -np.log2(np.maximum(touched, 1) / max(people, 1))
    is_item = lists >= 0
    totals = np.where(is_item, surprise[lists], 0.0).sum(axis=1)
    return np.asarray(totals / np.maximum(is_item.sum(axis=1), 1))


@dataclass(frozen=True)
class Interval:
    """A mean over runs and its 95% interval (Student's t); with one run there is no interval."""

    mean: float
    half_width: float | None
    values: tuple[float, ...]
    """The value of each run."""

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Self:
        """Compute the interval of numbers, of which there is one for each seed or split.

        >>> Interval.from_values([1.0, 2.0, 3.0]).mean
        2.0
        """
        n = len(values)
        if n == 0:
            raise DataError("a mean needs at least one run")
        if n == 1:
            return cls(float(values[0]), None, tuple(values))
        half_width = float(special.stdtrit(n - 1, INTERVAL_QUANTILE)) * float(
            np.std(values, ddof=1)
        )
        return cls(float(np.mean(values)), half_width / sqrt(n), tuple(values))

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + ("" if self.half_width is None else f" ± {self.half_width:.4f}")
