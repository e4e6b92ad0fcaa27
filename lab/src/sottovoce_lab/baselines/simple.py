"""The two baselines that need no learning: chance, and what everybody watches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories


@dataclass(frozen=True, eq=False)
class Popularity:
    """Scores an item by how many people touched it: hard to beat, and it knows nobody."""

    counts: NDArray[np.float32]
    n_users: int

    @classmethod
    def fit(cls, train: Histories) -> Popularity:
        return cls(train.popularity().astype(np.float32), train.n_users)

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.broadcast_to(self.counts, (len(users), len(self.counts)))

    def factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """One factor: everybody has 1 of it."""
        return np.ones((self.n_users, 1), np.float32), self.counts[:, None]


@dataclass(frozen=True)
class Random:
    """Scores without looking at anything: the floor."""

    n_items: int
    seed: int = 0

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """A fresh row for each user, the same for the same seed."""
        rows = [np.random.default_rng([self.seed, int(u)]).random(self.n_items) for u in users]
        return np.asarray(rows, dtype=np.float32)
