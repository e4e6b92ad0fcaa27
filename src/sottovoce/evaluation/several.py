"""Several items of everybody to be found in the whole catalogue: Recall@K and NDCG@K.

As in the literature on held-out people (Liang et al. 2018): recall is divided by as many items as
could have been found, `min(K, hidden)`, and NDCG by the best that the same person could have had.
Ties count by a fair coin in expectation, as everywhere here. Both are sums over the hidden items,
so the place of each one by itself is all that is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.evaluation import kernels
from sottovoce.evaluation.metrics import discounts, gains, hits, mean_of, reciprocals
from sottovoce.evaluation.ranking import Ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

RECALLS = (20, 50)
NDCG_AT = 100


def rank_hidden(X: Float32, V: Float32, known: Histories, hidden: Histories) -> Ranks:
    """Of each entry of `hidden`, under `x . v`, among all items that its person does not have."""
    n = hidden.n_interactions
    better, ties = np.zeros(n, np.int64), np.zeros(n, np.int64)
    kernels.rank_several(
        known.indptr, known.indices, hidden.indptr, hidden.indices, X, V, better, ties
    )
    return Ranks(better, ties)


def recall(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The mean over people of the share that is among the first `cutoff`."""
    possible = np.minimum(np.diff(hidden.indptr), cutoff).astype(np.float64)
    return _mean_share(hits(ranks, cutoff), hidden, possible)


def ndcg_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The mean over people of what the places of their items are worth, the best being 1."""
    best = discounts(cutoff)[np.minimum(np.diff(hidden.indptr), cutoff)]
    return _mean_share(gains(ranks, cutoff), hidden, best)


def hit_ratio_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The share of people with any of their items among the first `cutoff`."""
    return _mean_best(hits(ranks, cutoff), hidden)


def mrr_of_several(ranks: Ranks, hidden: Histories, cutoff: int) -> float:
    """The mean over people of one over the first place that any of their items has."""
    return _mean_best(reciprocals(ranks, cutoff), hidden)


def summary_of_several(ranks: Ranks, hidden: Histories) -> dict[str, float]:
    out = {f"recall@{cutoff}": recall(ranks, hidden, cutoff) for cutoff in RECALLS}
    out[f"ndcg@{NDCG_AT}"] = ndcg_of_several(ranks, hidden, NDCG_AT)
    return out


def _mean_share(found: Float64, hidden: Histories, possible: Float64) -> float:
    """Over people of whom something is hidden."""
    totals = np.bincount(hidden.users_of_entries(), weights=found, minlength=hidden.n_users)
    asked = possible > 0
    return mean_of(totals[asked] / possible[asked])


def _mean_best(found: Float64, hidden: Histories) -> float:
    """The same of the best item of each; that several tie with each other is left aside."""
    most = np.zeros(hidden.n_users)
    np.maximum.at(most, hidden.users_of_entries(), found)
    return mean_of(most[np.diff(hidden.indptr) > 0])
