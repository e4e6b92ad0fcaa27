"""Metrics of the lists that devices make from an item matrix, tags and the order of a history."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags
from sottovoce.simulation.evaluation.metrics import (
    METRIC_CUTOFFS,
    count_listed,
    coverage,
    hit_ratio_of_several,
    mrr_of_several,
    ndcg_of_several,
    recall,
)
from sottovoce.simulation.evaluation.ranking import (
    Candidates,
    Factors,
    Ranks,
    rank_and_list,
    rank_factors,
    rank_with_negatives,
)
from sottovoce.simulation.evaluation.side_information import (
    SideInformation,
    rank_devices,
    solve_wide_vectors,
)
from sottovoce.training import Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

MAX_CUTOFF = max(METRIC_CUTOFFS)
# Among metrics: the number of other items that a test item is ranked with.
NEGATIVES_METRIC = "negatives"


def make_device_model(V: Float32, settings: Settings, tags: Tags) -> WideModel:
    """Return the model as devices use it."""
    ridge = settings.compute_user_ridge(V)
    return WideModel.from_model(V, tags, alpha=settings.alpha, regularization=ridge)


def to_factors(
    model: WideModel, histories: Histories, weights: Float64 | None = None
) -> tuple[Float32, Float32]:
    """Return X and W with `X W^T` the scores of lists.

    The last factor is popularity, which counts only for people without a history.
    """
    X = solve_wide_vectors(model, histories, weights)
    # A last factor of 1 for people without a history and 0 for all others: it adds popularity, by
    # which their lists are ordered, to nobody else's scores.
    has_no_history = (np.diff(histories.indptr) == 0).astype(np.float32)
    rows = model.rows(np.arange(len(model.V)))
    W = np.concatenate([rows, model.popularity[:, None]], axis=1).astype(np.float32)
    return np.concatenate([X, has_no_history[:, None]], axis=1), W


def measure_quality(
    model: WideModel,
    histories: Histories,
    hidden: Histories,
    negatives: NDArray[np.int32] | None,
    weights: Float64 | None = None,
) -> dict[str, float]:
    """Measure lists of ten that are made of the hidden items and of negatives.

    HR@10: any hidden item of a person is in the list. Recall@10: the share of them that is, of as
    many as could be. MRR@10: one over the place of the first. NDCG@10: the worth of all their
    places. Coverage@10: the share of items that are in anybody's list of the whole catalogue.
    `negatives`: their number in the mean over people.

    Args:
        model: The model with tags.
        histories: What people touched.
        hidden: What is to be found, a row for each of these people.
        negatives: Other items for the list of each person; None: all that they did not touch.
        weights: Weights of the entries of the histories; None: all weigh alike.
    """
    X, W = to_factors(model, histories, weights)
    n_hidden = np.diff(hidden.indptr)
    ranks, lists = rank_and_list(Factors(X, W), histories, hidden, MAX_CUTOFF)
    if negatives is None:
        # Hidden items are no negatives of each other.
        n_negatives = histories.n_items - np.diff(histories.indptr) - n_hidden
    else:
        ranks = rank_with_negatives(X, W, hidden, negatives)
        n_negatives = (negatives >= 0).sum(axis=1)
    return {
        f"hr@{MAX_CUTOFF}": hit_ratio_of_several(ranks, hidden, MAX_CUTOFF),
        f"ndcg@{MAX_CUTOFF}": ndcg_of_several(ranks, hidden, MAX_CUTOFF),
        f"mrr@{MAX_CUTOFF}": mrr_of_several(ranks, hidden, MAX_CUTOFF),
        f"recall@{MAX_CUTOFF}": recall(ranks, hidden, MAX_CUTOFF),
        f"coverage@{MAX_CUTOFF}": coverage(count_listed(lists, histories.n_items)),
        NEGATIVES_METRIC: float(n_negatives[n_hidden > 0].mean()),
    }


def rank_by_popularity(
    candidates: Candidates,
    side_information: SideInformation | None = None,
    totals: tuple[NDArray[np.int64], int] | None = None,
) -> Ranks:
    """Rank test items by training counts, and by what devices know besides.

    Args:
        candidates: What each test item is ranked against.
        side_information: What devices know; None: nothing.
        totals: For each item how many people touched it, and the number of people; None: those of
            the people who are tested.
    """
    train = candidates.split.train
    # In parts, popularity is that of all people and not of one part.
    counts, people = totals or (train.popularity(), train.n_users)
    if side_information:
        return rank_devices(
            build_popularity_model(counts, people, side_information.tags),
            candidates,
            side_information.weights,
        )
    # A factor model with one factor, of which everybody has 1.
    ones = np.ones((train.n_users, 1), np.float32)
    return rank_factors(ones, counts.astype(np.float32)[:, None], candidates)
