"""What baselines share: ranks, vectors that devices solve, and the two that learn nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, solve_user_vectors
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors, select_tested


class Scorer(Protocol):
    """Any model: scores of every item for some of the training users, one row each."""

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """len(users) x M."""


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


def rank_scores(model: Scorer, candidates: Candidates) -> Ranks:
    """Ranks under any model's scores, a block of users at a time."""
    return rank_several_ways(model, [candidates])[0]


def rank_several_ways(model: Scorer, tests: Sequence[Candidates]) -> list[Ranks]:
    """The same of several tests of one split: everything is scored once."""
    split = tests[0].split
    better, ties = np.zeros((2, len(tests), split.train.n_users), np.int64)
    everybody = np.flatnonzero(split.test >= 0)
    for first in range(0, len(everybody), AT_ONCE):
        users = everybody[first : first + AT_ONCE]
        scores = model.scores(users)
        own = scores[np.arange(len(users)), split.test[users]][:, None]
        for number, candidates in enumerate(tests):
            competes = _competes(candidates, users)
            better[number, users] = ((scores > own) & competes).sum(axis=1)
            ties[number, users] = ((scores == own) & competes).sum(axis=1)
    return [select_tested(*each) for each in zip(tests, better, ties, strict=True)]


def _competes(candidates: Candidates, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """len(users) x M: which items the test item of each user is ranked against."""
    own, test = candidates.split.excluded_from_ranking, candidates.split.test
    mask = np.full((len(users), own.n_items), candidates.full)
    if candidates.full:
        some = own.take(users)
        mask[some.users_of_entries(), some.indices] = False
        mask[np.arange(len(users)), test[users]] = False
        return mask
    items = candidates.items[users]
    row, _ = np.nonzero(items >= 0)
    mask[row, items[items >= 0]] = True
    return mask


@dataclass(frozen=True, eq=False)
class Popularity:
    """Scores an item by how many people touched it: hard to beat, and it knows nobody."""

    counts: NDArray[np.float32]
    n_users: int

    @classmethod
    def fit(cls, train: Histories) -> Self:
        return cls(train.popularity().astype(np.float32), train.n_users)

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.broadcast_to(self.counts, (len(users), len(self.counts)))

    def factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """One factor: everybody has 1 of it."""
        return np.ones((self.n_users, 1), np.float32), self.counts[:, None]


AT_ONCE = 256
"""People whose scores of all items are held at once."""
USERS_PER_BLOCK = 8192
"""Enough for whole-array arithmetic, few enough to fit beside the data."""


def blocks_of(train: Histories) -> Iterator[Histories]:
    """The same people in their order, some thousands at a time."""
    for first in range(0, train.n_users, USERS_PER_BLOCK):
        yield train.take(np.arange(first, min(first + USERS_PER_BLOCK, train.n_users)))


def device_vectors(
    V: NDArray[np.float32], train: Histories, *, alpha: float, regularization: float
) -> NDArray[np.float32]:
    """`model.user_vectors` for any number of people: the same bits, in bounded memory."""
    X = np.empty((train.n_users, V.shape[1]), np.float32)
    first = 0
    for some in blocks_of(train):
        X[first : first + some.n_users] = solve_user_vectors(
            V, some, alpha=alpha, regularization=regularization
        )
        first += some.n_users
    return X


def outer_table(V: NDArray[np.float32]) -> NDArray[np.float64]:
    """For each item the lower triangle of `v v^T`, row by row, and then `v` itself.

    The system of a user's normal equations is a sum of such rows: no product is computed twice.
    """
    wide = V.astype(np.float64)
    rows, columns = np.tril_indices(V.shape[1])
    return np.concatenate([wide[:, rows] * wide[:, columns], wide], axis=1)


def normal_equations(
    sums: NDArray[np.float64], G: NDArray[np.float64], factors: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`G + alpha sum v v^T` and `(1 + alpha) sum v`, from sums of `outer_table` rows."""
    rows, columns = np.tril_indices(factors)
    triangle = alpha * sums[:, : len(rows)]
    system = np.empty((len(sums), factors, factors))
    system[:, rows, columns] = triangle
    system[:, columns, rows] = triangle
    return system + G, (1 + alpha) * sums[:, len(rows) :]
