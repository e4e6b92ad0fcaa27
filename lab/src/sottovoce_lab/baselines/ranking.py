"""Ranks of any baseline, the fast way where it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.simulation.evaluation import Candidates, Ranks, Scorer, rank_factors, rank_scores


@runtime_checkable
class FactorModel(Protocol):
    """A score is the product of two vectors."""

    def factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Everybody's vectors and every item's: N x F and M x F."""


@dataclass(frozen=True, eq=False)
class Factorization:
    """A model that is everybody's vectors and every item's."""

    X: NDArray[np.float32]
    V: NDArray[np.float32]

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.X[users] @ self.V.T)

    def factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.X, self.V


@runtime_checkable
class SomeScorer(Protocol):
    """A score of a few items costs less than scores of all."""

    def scores_of(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        """One row of scores for each user and their row of items; -1 is no item."""


def rank(model: Scorer, candidates: Candidates) -> Ranks:
    """`rank_scores`, less what need not be computed."""
    if isinstance(model, FactorModel):
        return rank_factors(*model.factors(), candidates)
    if isinstance(model, SomeScorer) and not candidates.full:
        return _rank_some(model, candidates)
    return rank_scores(model, candidates)


def _rank_some(model: SomeScorer, candidates: Candidates) -> Ranks:
    test = candidates.split.test
    users = np.flatnonzero((test >= 0) & (candidates.items[:, 0] >= 0))
    others = candidates.items[users]
    scores = model.scores_of(users, np.column_stack([test[users], others]))
    own, competes = scores[:, :1], others >= 0
    better = ((scores[:, 1:] > own) & competes).sum(axis=1)
    return Ranks(better, ((scores[:, 1:] == own) & competes).sum(axis=1))
