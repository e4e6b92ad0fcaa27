"""How well lists find items that were left out, and how much of the catalogue they show."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import DataError
from sottovoce.evaluation import (
    CUTOFFS,
    coverage,
    exposure,
    hit_ratio_of_several,
    mrr_of_several,
    ndcg_of_several,
    rank_hidden,
    recall,
    wide_vectors,
)
from sottovoce.model.tags import no_tags
from sottovoce.model.wide import WideModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.model.tags import Tags
    from sottovoce.simulation.interface import Engine, LocalEngine
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

CUTOFF = max(CUTOFFS)
LISTED = 10_000
"""People whose lists a simulation makes to see what they show: every item is scored for each."""


def model_of(V: Float32, settings: Settings) -> Callable[[Tags], WideModel]:
    """The model as devices use it, with the tags that it is called with."""
    ridge = settings.user_ridge(V)
    return partial(WideModel.of, V, alpha=settings.alpha, regularization=ridge)


def quality(
    model: WideModel, histories: Histories, hidden: Histories, weights: Float64 | None = None
) -> dict[str, float]:
    """Metrics of lists of ten from the whole catalogue, less what each person touched.

    `hidden` has a row for the same people. HR@10: any of theirs is in the list. Recall@10: how many
    of them are, of as many as could be. MRR@10: one over the place of the first. NDCG@10: what all
    their places are worth. Coverage@10: the share of items that are in anybody's list.
    """
    X, W = as_factors(model, histories, weights)
    ranks = rank_hidden(X, W, histories, hidden)
    return {
        f"hr@{CUTOFF}": hit_ratio_of_several(ranks, hidden, CUTOFF),
        f"ndcg@{CUTOFF}": ndcg_of_several(ranks, hidden, CUTOFF),
        f"mrr@{CUTOFF}": mrr_of_several(ranks, hidden, CUTOFF),
        f"recall@{CUTOFF}": recall(ranks, hidden, CUTOFF),
        f"coverage@{CUTOFF}": coverage(exposure(X, W, histories, CUTOFF)),
    }


def coverage_of(
    engine: Engine, model: Callable[[Tags], WideModel], *, known: bool
) -> dict[str, float]:
    """The share of items in the first ten of anybody, of the first `LISTED` people.

    `model` with the tags that devices have `known`, who also know an order then; or with none.
    """

    def shown(part: LocalEngine) -> NDArray[np.int64]:
        n = min(max(LISTED - part.people.first, 0), part.histories.n_users)
        if not n:
            return np.zeros(part.histories.n_items, np.int64)
        histories, theirs = part.histories.some(0, n), part.left_out.some(0, n).known
        tags = theirs.tags if known else no_tags(histories.n_items)
        X, W = as_factors(model(tags), histories, theirs.weights if known else None)
        return exposure(X, W, histories, CUTOFF)

    return {f"coverage@{CUTOFF}": coverage(np.sum(list(engine.each(shown)), axis=0))}


def as_factors(
    model: WideModel, histories: Histories, weights: Float64 | None = None
) -> tuple[Float32, Float32]:
    """X and W with `X W^T` the scores of lists: one more factor is popularity.

    It is for people without a history alone.
    """
    X = wide_vectors(model, histories, weights)
    new = (np.diff(histories.indptr) == 0).astype(np.float32)
    rows = model.rows(np.arange(len(model.V)))
    W = np.concatenate([rows, model.popularity[:, None]], axis=1).astype(np.float32)
    return np.concatenate([X, new[:, None]], axis=1), W


def check_hidden(histories: Histories, hidden: Histories) -> Histories:
    """The same people and items, something to find, and nothing that they are known to have."""
    if (hidden.n_users, hidden.n_items) != (histories.n_users, histories.n_items):
        raise DataError(
            f"test must have the shape of user_items, {histories.n_users} x {histories.n_items}, "
            f"not {hidden.n_users} x {hidden.n_items}"
        )
    if not hidden.n_interactions:
        raise DataError("test is empty: there is nothing to find")
    both = np.intersect1d(_cells(histories), _cells(hidden))
    if len(both):
        user, item = divmod(int(both[0]), histories.n_items)
        raise DataError(
            f"test must hold what user_items does not: user {user} has item {item} in both"
        )
    return hidden


def _cells(histories: Histories) -> NDArray[np.int64]:
    return histories.users_of_entries() * histories.n_items + histories.indices
