"""Which item liars push, whom it is shown to, and what they know of these people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, gram, outer_table
from sottovoce.data.split import Split
from sottovoce.data.streams import stream
from sottovoce.simulation.evaluation import Candidates, Ranks, rank_factors
from sottovoce.simulation.evaluation.metrics import hit_ratio
from sottovoce_lab.baselines.devices import blocks_of, normal_equations

Float32 = NDArray[np.float32]


class Ridge(Protocol):
    """Lambda of the users' equations, for some V."""

    def __call__(self, V: Float32) -> float: ...


SHOWN = 10
"""As many items as a person looks at."""
SAMPLE = 300
"""People whose histories the liars know: friends, leaks, public profiles."""
BANDS = {"cold": (0.0, 0.1), "middling": (0.45, 0.55), "popular": (0.95, 0.99)}
"""Where an item lies among all, from the least to the most popular."""


def targets(train: Histories, seed: int) -> dict[str, int]:
    """One item of each band, drawn by the seed."""
    order = np.argsort(train.popularity(), kind="stable")
    chance, n = stream(seed, "liars"), train.n_items
    return {
        name: int(order[chance.integers(int(low * n), max(int(high * n), int(low * n) + 1))])
        for name, (low, high) in BANDS.items()
    }


@dataclass(frozen=True, eq=False)
class Audience:
    """People to whom an item may be shown: those who have not touched it."""

    candidates: Candidates
    """The item of each as if it were the one left out, among the whole catalogue."""
    alpha: float
    ridge: Ridge

    @classmethod
    def of(cls, item: int, split: Split, alpha: float, ridge: Ridge) -> Audience:
        train = split.train
        touched = train.users_of_entries()[train.indices == item]
        test = np.full(train.n_users, item, np.int32)
        test[touched] = -1
        test[split.test == item] = -1
        whole = np.empty((train.n_users, 0), np.int32)
        return cls(Candidates(whole, Split(train, test, split.rule, split.seed)), alpha, ridge)

    @property
    def histories(self) -> Histories:
        return self.candidates.split.train

    def sample(self, seed: int) -> Audience:
        """Some of them, whom the liars know."""
        split = self.candidates.split
        n = split.train.n_users
        known = np.sort(stream(seed, "known").permutation(n)[:SAMPLE])
        some = Split(split.train.take(known), split.test[known], split.rule, split.seed)
        whole = np.empty((len(known), 0), np.int32)
        return Audience(Candidates(whole, some), self.alpha, self.ridge)

    def vectors(self, V: Float32) -> Float32:
        return solved(V, self.histories, self.alpha, self.ridge(V))

    def exposure(self, V: Float32) -> float:
        """The share of them who find the item among the first ten of the catalogue."""
        return hit_ratio(self._ranks(V), SHOWN)

    def nearness(self, V: Float32) -> float:
        """The same, where a place behind the tenth counts for something: 10 over the place."""
        ranks = self._ranks(V)
        place = ranks.better + ranks.ties / 2 + 1
        return float(np.minimum(SHOWN / place, 1.0).mean())

    def distances(self, V: Float32) -> NDArray[np.float64]:
        """How far the item must move for each of them to be shown: the score that it lacks.

        Over the length of their vector; 0 to whom it is shown, or who have touched it.
        """
        X, train, test = self.vectors(V), self.histories, self.candidates.split.test
        scores = (X @ V.T).astype(np.float64)
        scores[train.users_of_entries(), train.indices] = -np.inf
        shown = min(SHOWN, V.shape[0])
        tenth = -np.partition(-scores, shown - 1, axis=1)[:, shown - 1]
        lacking = tenth - scores[np.arange(len(X)), test]
        known = (test >= 0) & np.isfinite(lacking)
        sizes = np.maximum(np.linalg.norm(X, axis=1), 1e-30)
        return np.asarray(np.where(known, np.maximum(lacking, 0), 0.0) / sizes)

    def _ranks(self, V: Float32) -> Ranks:
        return rank_factors(self.vectors(V), V, self.candidates)


def solved(V: Float32, histories: Histories, alpha: float, regularization: float) -> Float32:
    """Everybody's vector as `sottovoce.core.user_vectors`, quickly and not to the last bit."""
    table, G, factors = outer_table(V), gram(V), V.shape[1]
    parts = []
    for some in blocks_of(histories):
        system, right = normal_equations(some.to_csr() @ table, G, factors, alpha)
        system[:, np.arange(factors), np.arange(factors)] += regularization
        parts.append(np.linalg.solve(system, right[:, :, None])[:, :, 0].astype(np.float32))
    return np.concatenate(parts)
