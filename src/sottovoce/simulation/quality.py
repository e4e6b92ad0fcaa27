"""How well lists find items that were left out, and how much of the catalogue they show."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.model.wide import WideModel

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

CUTOFF = max(CUTOFFS)


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
