"""Small data for replays: people with two tastes and items, which arrive over time."""

import numpy as np

from sottovoce.core import Histories
from sottovoce.data import Interactions

DAY_SECONDS = 86_400


def make_living_people(n_users: int = 400, n_items: int = 60, seed: int = 0) -> Interactions:
    """Return the interactions of 100 days.

    Half of the items exist from the first day, the others arrive one after the other. One taste is
    the items with odd numbers, the other those with even numbers. A person stays for forty days and
    touches about eight of ten items of their taste.
    """
    rng = np.random.default_rng(seed)
    arrives = np.where(np.arange(n_items) < n_items // 2, 0, np.arange(n_items) * 90 // n_items)
    lists, times = [], []
    for user in range(n_users):
        begins = int(rng.integers(0, 60))
        own = np.flatnonzero((np.arange(n_items) % 2 == user % 2) & (arrives < begins + 40))
        own = own[(rng.random(len(own)) < 0.8) | (own < 2)]
        days = np.maximum(begins, arrives[own]) + rng.integers(0, 10, len(own))
        lists.append(own)
        times.append(days * DAY_SECONDS)
    tags = np.array([{"taste": ("odd" if item % 2 else "even",)} for item in range(n_items)])
    return Interactions(
        "living",
        Histories.from_lists([own.tolist() for own in lists], n_items),
        np.arange(n_users),
        np.arange(n_items),
        timestamps=np.concatenate(times).astype(np.int64),
        tags=tags,
    )
