"""The same evaluation for any model, and popularity, which every model must be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation.evaluation.metrics import Metric
from sottovoce.simulation.evaluation.quality import (
    DEFAULT_METRICS,
    Evaluation,
    measure_lists,
    measure_scores,
)
from sottovoce.simulation.evaluation.ranking import Scorer, sample_negatives
from sottovoce.simulation.federated import FederatedMF
from sottovoce.simulation.inputs import UserItems, check_positive, parse_rows, parse_test

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

# Number of people whose lists are requested from a model at a time.
PEOPLE_PER_REQUEST = 1024


class Recommender(Protocol):
    """A model that makes lists, as those of `implicit` do."""

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        """Return the N best items of each person, without those in `user_items`, and scores."""


def evaluate(
    model: FederatedMF | Recommender | Scorer | ArrayLike,
    user_items: UserItems,
    test: UserItems,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    negatives: int | None = None,
    seed: int = 0,
    filter_already_liked_items: bool = True,
) -> Evaluation:
    """Measure any model in the same way.

    >>> from scipy import sparse
    >>> train = sparse.csr_matrix([[1, 0, 0, 0], [0, 1, 0, 0]])
    >>> test = sparse.csr_matrix([[0, 1, 0, 0], [0, 0, 0, 1]])
    >>> result = evaluate([[0, 3, 2, 1], [3, 0, 2, 1]], train, test, metrics=["hr@1", "ndcg@3"])
    >>> result["hr@1"], round(result["ndcg@3"], 6), result.by_person["hr@1"].tolist()
    (0.5, 0.75, [1.0, 0.0])

    Args:
        model: One of:

            - a `FederatedMF`;
            - an object with `score(users)`, which returns the scores of all items for these rows of
              `user_items`;
            - a matrix of scores, N people x M items;
            - an object with `recommend(users, user_items[users], N=...)`, as in `implicit`. Items
              that it does not list are ranked last.

            Models other than `FederatedMF` identify people and items by rows and columns. For a
            table, these are its ids in ascending order.
        user_items: The histories, in a form that `FederatedMF.fit` takes.
        test: The test items of the same people, in the same rows, or with the same ids in a table.
        metrics: Names with a length, such as "ndcg@100": hr, recall, precision, map, mrr, ndcg,
            coverage, novelty and gini.
        negatives: Number of untouched items that each test item is ranked with. None ranks it in
            the whole catalogue, like a real list.
        seed: The seed of the negatives.
        filter_already_liked_items: Whether lists leave out the items of the person's history. If
            so, test items that are in it do not count. If not, repurchases count.

    Returns:
        A dict of means over people, with `by_person` and `people`.
    """
    if isinstance(model, FederatedMF):
        return model.evaluate(
            user_items,
            test,
            metrics=metrics,
            negatives=negatives,
            seed=seed,
            filter_already_liked_items=filter_already_liked_items,
        )
    histories, users, items = parse_rows(user_items, None)
    repeats = not filter_already_liked_items
    hidden = parse_test(test, items, histories, users, repurchases=repeats)
    if hasattr(model, "score") or not hasattr(model, "recommend"):
        others = None
        if negatives is not None:
            n_negatives = check_positive("negatives", negatives)
            others = sample_negatives(histories, hidden, n_negatives, seed)
        scores = _Scores(model, histories)
        result = measure_scores(scores, histories, hidden, metrics, others, may_repeat=repeats)
    elif negatives is not None:
        raise SettingsError(
            "negatives need the scores of all items, and this model makes only lists: leave "
            "negatives out, or pass an object with score(users)"
        )
    else:
        length = max(Metric.from_name(name).cutoff for name in metrics)
        lists = _request_lists(model, histories, length, may_repeat=repeats)
        result = measure_lists(lists, histories, hidden, metrics, may_repeat=repeats)
    if users is not None:
        result.people = users.ids[result.people]
    return result


class _Scores:
    """A scorer that checks the scores of a model, and calls the model from one thread at a time."""

    def __init__(self, model: Any, histories: Histories):
        self._n_items = histories.n_items
        self._lock = Lock()
        if hasattr(model, "score"):
            self._score = model.score
        else:
            matrix = np.asarray(model)
            shape = (histories.n_users, histories.n_items)
            if matrix.shape != shape or matrix.dtype.kind not in "biuf":
                raise DataError(
                    f"model must have score(), recommend() or be a matrix of scores, {shape[0]} x "
                    f"{shape[1]}; got {type(model).__name__} of shape {matrix.shape}"
                )
            self._score = matrix.__getitem__

    def score(self, users: Int64) -> Float32:
        with self._lock:
            scores = np.array(self._score(users), np.float32)
        if scores.shape != (len(users), self._n_items):
            raise DataError(
                f"score() must return {len(users)} x {self._n_items} scores, not {scores.shape}"
            )
        if np.isnan(scores).any():
            raise DataError("scores must be numbers, and some are NaN")
        return scores


def _request_lists(
    model: Any, histories: Histories, length: int, *, may_repeat: bool
) -> NDArray[np.int32]:
    """Return everybody's lists, N x length; lists with fewer items are filled up with -1."""
    # An argument that is the usual one need not be known to the model.
    options = {"filter_already_liked_items": False} if may_repeat else {}
    lists, matrix = np.full((histories.n_users, length), -1, np.int32), histories.to_csr()
    for begin in range(0, histories.n_users, PEOPLE_PER_REQUEST):
        users = np.arange(begin, min(begin + PEOPLE_PER_REQUEST, histories.n_users))
        lists_and_scores = model.recommend(users, matrix[users], N=length, **options)
        items = np.asarray(lists_and_scores[0])[:, :length]
        lists[users, : items.shape[1]] = np.where(items < histories.n_items, items, -1)
    rows, places = np.nonzero(lists >= 0)
    cells = np.sort(rows * histories.n_items + lists[rows, places])
    own = histories.users_of_entries() * histories.n_items + histories.indices
    if not may_repeat and (np.append(own, -1)[np.searchsorted(own, cells)] == cells).any():
        raise DataError("recommend() must leave out what a person has in user_items")
    if (cells[1:] == cells[:-1]).any():
        raise DataError("recommend() must list an item once")
    return lists


@dataclass(frozen=True, eq=False)
class Popularity:
    """A model that scores an item by the number of people who touched it, at any time or recently.

    >>> bought = Interactions.from_lists("shop", [[0, 1], [1], [2]], 3)
    >>> Popularity.fit(bought).counts.tolist()
    [1.0, 2.0, 1.0]
    """

    counts: Float32
    """The count of each item."""

    @classmethod
    def fit(
        cls,
        user_items: UserItems,
        *,
        since: float | None = None,
        once: bool = False,
        times: NDArray[np.integer] | None = None,
    ) -> Self:
        """Count the people who touched each item.

        Args:
            user_items: The histories, in a form that `FederatedMF.fit` takes.
            since: Count only interactions at this moment or later. None counts all.
            once: Count only the latest item of each person. If several items have the same moment,
                they share the count.
            times: Times of the entries of the histories, as in `Split.times`. None: the timestamps
                of the data that `load` returned.

        Raises:
            DataError: Times are needed, and there are none.
        """
        histories, *_ = parse_rows(user_items, None)
        weights = np.ones(histories.n_interactions)
        if since is not None or once:
            if times is None and isinstance(user_items, Interactions):
                times = user_items.timestamps
            if times is None or len(times) != len(weights):
                raise DataError("popularity by time needs a time for each interaction: pass times")
            if since is not None:
                weights[times < since] = 0
            if once:
                users = histories.users_of_entries()
                latest = np.full(histories.n_users, times.min(initial=0))
                np.maximum.at(latest, users, times)
                weights[times < latest[users]] = 0
                weights /= np.maximum(np.bincount(users, weights), 1)[users]
        counts = np.bincount(histories.indices, weights, minlength=histories.n_items)
        return cls(counts.astype(np.float32))

    def score(self, users: Int64) -> Float32:
        """Return the same scores for all people.

        Args:
            users: The rows of the people.
        """
        return np.broadcast_to(self.counts, (len(users), len(self.counts)))
