"""People to whom an item may be shown, and how many of them see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, compute_gram
from sottovoce.data.split import Split
from sottovoce.data.streams import stream
from sottovoce.simulation.evaluation.metrics import hit_ratio
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors
from sottovoce_lab.baselines.models import (
    build_normal_equations,
    build_outer_table,
    split_into_blocks,
)

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# Returns the lambda of the users' equations for an item matrix.
Ridge = Callable[[Float32], float]
# Number of items that a person sees.
ITEMS_SHOWN = 10
# Number of people whose histories the attackers know: friends, leaks, public profiles.
KNOWN_PEOPLE = 300
# For each band of popularity, its range of quantiles among all items.
POPULARITY_BANDS = {"cold": (0.0, 0.1), "middling": (0.45, 0.55), "popular": (0.95, 0.99)}
# Vectors and gradients are divided by their lengths, but not by less than this.
MIN_VECTOR_LENGTH = 1e-30


def draw_targets(train: Histories, seed: int) -> dict[str, int]:
    """Draw one item of each popularity band."""
    order = np.argsort(train.popularity(), kind="stable")
    # Keep the name of the stream: with another name, the same seed would draw other items.
    chance, n = stream(seed, "liars"), train.n_items
    return {
        name: int(order[chance.integers(int(low * n), max(int(high * n), int(low * n) + 1))])
        for name, (low, high) in POPULARITY_BANDS.items()
    }


@dataclass(frozen=True, eq=False)
class Audience:
    """People who have not touched an item, so that it may be shown to them."""

    candidates: Candidates
    """A test that ranks the item in the whole catalogue, as if it had been left out."""
    alpha: float
    ridge: Ridge

    @classmethod
    def from_split(cls, item: int, split: Split, alpha: float, ridge: Ridge) -> Audience:
        """Return the audience of an item in the training part of a split."""
        train = split.train
        touched = train.users_of_entries()[train.indices == item]
        test = np.full(train.n_users, item, np.int32)
        test[touched] = -1
        test[split.test == item] = -1
        negatives = np.empty((train.n_users, 0), np.int32)
        return cls(Candidates(negatives, Split(train, test, split.rule, split.seed)), alpha, ridge)

    @property
    def histories(self) -> Histories:
        """Training histories of all people, whether they have the item or not."""
        return self.candidates.split.train

    def sample(self, seed: int) -> Audience:
        """Return the audience among `KNOWN_PEOPLE` randomly drawn people."""
        split = self.candidates.split
        n = split.train.n_users
        sampled = np.sort(stream(seed, "known").permutation(n)[:KNOWN_PEOPLE])
        part = Split(split.train.take(sampled), split.test[sampled], split.rule, split.seed)
        negatives = np.empty((len(sampled), 0), np.int32)
        return Audience(Candidates(negatives, part), self.alpha, self.ridge)

    def solve_vectors(self, V: Float32) -> Float32:
        """Return everybody's vector for an item matrix."""
        return solve_vectors(V, self.histories, self.alpha, self.ridge(V))

    def compute_exposure(self, V: Float32) -> float:
        """Return the share of the audience that sees the item among the first `ITEMS_SHOWN`."""
        return hit_ratio(self._rank(V), ITEMS_SHOWN)

    def compute_nearness(self, V: Float32) -> float:
        """Return a smooth exposure: a person who does not see the item counts `ITEMS_SHOWN / rank`.

        A person who sees it counts 1, as in `compute_exposure`.
        """
        ranks = self._rank(V)
        rank = ranks.better + ranks.ties / 2 + 1
        return float(np.minimum(ITEMS_SHOWN / rank, 1.0).mean())

    def compute_distances(self, V: Float32) -> Float64:
        """Return how much higher the item's score must be so that each person sees the item.

        It is in units of the length of the person's vector, and 0 for people who see the item and
        for people outside the audience.
        """
        X, train, test = self.solve_vectors(V), self.histories, self.candidates.split.test
        scores = (X @ V.T).astype(np.float64)
        scores[train.users_of_entries(), train.indices] = -np.inf
        shown = min(ITEMS_SHOWN, V.shape[0])
        last_shown = -np.partition(-scores, shown - 1, axis=1)[:, shown - 1]
        missing = last_shown - scores[np.arange(len(X)), test]
        in_audience = (test >= 0) & np.isfinite(missing)
        lengths = np.maximum(np.linalg.norm(X, axis=1), MIN_VECTOR_LENGTH)
        return np.asarray(np.where(in_audience, np.maximum(missing, 0), 0.0) / lengths)

    def _rank(self, V: Float32) -> Ranks:
        return rank_factors(self.solve_vectors(V), V, self.candidates)


def solve_vectors(V: Float32, histories: Histories, alpha: float, regularization: float) -> Float32:
    """Solve user vectors like `core.solve_user_vectors`, but faster and with rounding errors."""
    table, gram, factors = build_outer_table(V), compute_gram(V), V.shape[1]
    diagonal = np.arange(factors)
    parts = []
    for block in split_into_blocks(histories):
        system, right = build_normal_equations(block.to_csr() @ table, gram, factors, alpha)
        system[:, diagonal, diagonal] += regularization
        parts.append(np.linalg.solve(system, right[:, :, None])[:, :, 0].astype(np.float32))
    return np.concatenate(parts)
