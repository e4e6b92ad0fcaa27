"""Two groups of people without a common item: the right recommendation is known."""

import numpy as np

from sottovoce.core import Histories
from sottovoce_lab.baselines.models import Scorer

ITEMS_PER_TASTE = 8


def two_blocks(n_users: int = 40) -> Histories:
    """Return histories in which user u touched all items of group u % 2 except one."""
    items = np.arange(ITEMS_PER_TASTE)
    rows = [
        (np.delete(items, u // 2 % ITEMS_PER_TASTE) + ITEMS_PER_TASTE * (u % 2)).tolist()
        for u in range(n_users)
    ]
    return Histories.from_lists(rows, 2 * ITEMS_PER_TASTE)


def ranks_own_block_first(model: Scorer, train: Histories) -> bool:
    """Return whether everybody's missing item of their own group is above all of the other."""
    users = np.arange(train.n_users)
    scores = model.score(users)
    missing = users // 2 % ITEMS_PER_TASTE + ITEMS_PER_TASTE * (users % 2)
    tastes = scores.reshape(len(users), 2, ITEMS_PER_TASTE)
    other = tastes[users, 1 - users % 2].max(axis=1)
    return bool((scores[users, missing] > other).all())
