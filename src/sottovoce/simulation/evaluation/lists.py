"""The lists that devices make from an item matrix, tags and the order of a history."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.recommending import WideModel, build_popularity_model
from sottovoce.core.tags import Tags
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors
from sottovoce.simulation.evaluation.side_information import (
    SideInformation,
    rank_devices,
    solve_wide_vectors,
)
from sottovoce.training import Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


def make_device_model(V: Float32, settings: Settings, tags: Tags) -> WideModel:
    """Return the model as devices use it."""
    ridge = settings.compute_user_ridge(V)
    return WideModel.from_model(
        V,
        tags,
        alpha=settings.alpha,
        regularization=ridge,
        has_shares=settings.asks_for_names,
    )


def to_factors(
    model: WideModel, histories: Histories, weights: Float64 | None = None
) -> tuple[Float32, Float32]:
    """Return X and W, whose product `X W^T` contains the scores that lists are ranked by.

    The last factor is popularity, which counts only for people without a history.
    """
    X = solve_wide_vectors(model, histories, weights)
    # The last factor of a person is 1 without a history, and otherwise 0. So popularity orders the
    # lists of people without a history, and changes no other scores.
    has_no_history = (np.diff(histories.indptr) == 0).astype(np.float32)
    rows = model.rows(np.arange(len(model.V)))
    W = np.concatenate([rows, model.popularity[:, None]], axis=1).astype(np.float32)
    return np.concatenate([X, has_no_history[:, None]], axis=1), W


def rank_by_popularity(
    candidates: Candidates,
    side_information: SideInformation | None = None,
    totals: tuple[NDArray[np.int64], int] | None = None,
) -> Ranks:
    """Rank test items by popularity in the training data, and by side information.

    Args:
        candidates: The items that each test item is ranked against.
        side_information: The side information of devices; None: devices have none.
        totals: The number of people who touched each item, and the number of all people. None
            counts the people who are tested.
    """
    train = candidates.split.train
    # If people are tested in parts, `totals` has the popularity among all people.
    counts, people = totals or (train.popularity(), train.n_users)
    if side_information:
        return rank_devices(
            build_popularity_model(counts, people, side_information.tags),
            candidates,
            side_information.weights,
        )
    # A model with a single factor, which is 1 for everybody.
    ones = np.ones((train.n_users, 1), np.float32)
    return rank_factors(ones, counts.astype(np.float32)[:, None], candidates)
