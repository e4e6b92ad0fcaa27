"""Metrics of a model that scores all items, or of the lists that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.simulation.evaluation.metrics import (
    LIST_METRICS,
    Metric,
    compute_by_person,
    compute_gini,
    compute_mean,
    compute_novelty,
    count_listed,
    coverage,
)
from sottovoce.simulation.evaluation.ranking import (
    Ranks,
    Scorer,
    rank_and_list,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

# What is measured by default.
DEFAULT_METRICS = ("hr@10", "ndcg@10", "mrr@10", "recall@10", "coverage@10")
# Name under which a result has the mean number of negatives.
NEGATIVES_METRIC = "negatives"


class Evaluation(dict[str, float]):
    """Metrics by name, as means over people, with the values of each person.

    Args:
        people: The people who were tested: rows of a matrix, or ids of a table.
    """

    def __init__(self, people: NDArray[Any]):
        super().__init__()
        self.people = people
        """Who was tested."""
        self.by_person: dict[str, NDArray[np.float64]] = {}
        """The values of metrics that are computed for single people, in the order of `people`."""


def measure_scores(
    scorer: Scorer,
    histories: Histories,
    hidden: Histories,
    metrics: Sequence[str] = DEFAULT_METRICS,
    negatives: Int32 | None = None,
    *,
    may_repeat: bool = False,
) -> Evaluation:
    """Measure a model that scores all items.

    Args:
        scorer: The model.
        histories: The items that each person has.
        hidden: The test items, any number for each person.
        metrics: Names such as "ndcg@100".
        negatives: Items that the hidden items of each person are ranked with, as `sample_negatives`
            draws them; None: all other items. Lists are always made from the whole catalogue.
        may_repeat: Whether people are also ranked and shown what they have.
    """
    parsed = [Metric.from_name(name) for name in metrics]
    length = max((metric.cutoff for metric in parsed if metric.kind in LIST_METRICS), default=0)
    left_out = make_empty_histories(histories) if may_repeat else histories
    ranks, lists = rank_and_list(scorer, left_out, hidden, length, negatives)
    return summarize(parsed, ranks, lists, histories, hidden, negatives, may_repeat=may_repeat)


def make_empty_histories(histories: Histories) -> Histories:
    """Return histories of the same people without any item."""
    no_items = histories.indices[:0]
    return Histories(np.zeros_like(histories.indptr), no_items, histories.n_items)


def measure_lists(
    lists: Int32,
    histories: Histories,
    hidden: Histories,
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    may_repeat: bool = False,
) -> Evaluation:
    """Measure lists, N x length, best first; lists with fewer items are filled up with -1."""
    parsed = [Metric.from_name(name) for name in metrics]
    is_hidden = lists[hidden.users_of_entries()] == hidden.indices[:, None]
    # A hidden item that is not in its person's list is ranked below all items.
    better = np.where(is_hidden.any(axis=1), is_hidden.argmax(axis=1), histories.n_items)
    ranks = Ranks(better, np.zeros_like(better))
    return summarize(parsed, ranks, lists, histories, hidden, None, may_repeat=may_repeat)


def summarize(
    metrics: Sequence[Metric],
    ranks: Ranks,
    lists: Int32,
    histories: Histories,
    hidden: Histories,
    negatives: Int32 | None,
    *,
    may_repeat: bool,
) -> Evaluation:
    """Return metrics of ranks and lists."""
    n_hidden, touched = np.diff(hidden.indptr), histories.popularity()
    people = np.flatnonzero(n_hidden)
    result = Evaluation(people)
    for metric in metrics:
        name, cut = str(metric), lists[:, : metric.cutoff]
        if metric.kind in LIST_METRICS:
            result[name] = measure_exposure(metric.kind, cut, touched, histories.n_users)
            if metric.kind == "novelty":
                result.by_person[name] = compute_novelty(cut, touched, histories.n_users)[people]
            continue
        result.by_person[name] = compute_by_person(metric, ranks, n_hidden[people])
        result[name] = compute_mean(result.by_person[name])
    if negatives is None:
        # Hidden items are no negatives of each other.
        n_own = 0 if may_repeat else np.diff(histories.indptr)
        n_negatives = histories.n_items - n_own - n_hidden
    else:
        n_negatives = (negatives >= 0).sum(axis=1)
    result[NEGATIVES_METRIC] = compute_mean(n_negatives[people].astype(np.float64))
    return result


def measure_exposure(kind: str, lists: Int32, touched: Int64, people: int) -> float:
    """Return a metric of lists.

    Args:
        kind: One of `LIST_METRICS`.
        lists: Items in rows; -1 is no item.
        touched: For each item, how many people have it.
        people: The number of people.
    """
    if kind == "novelty":
        return compute_mean(compute_novelty(lists, touched, people))
    counts = count_listed(lists, len(touched))
    return coverage(counts) if kind == "coverage" else compute_gini(counts)
