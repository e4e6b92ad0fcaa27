"""Functions that several baselines use: ranks of scores, popularity, and vectors of many people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, solve_user_vectors
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors, select_tested

# Number of people whose scores of all items are in memory at a time.
USERS_PER_SCORING = 256
# Number of people in a block: enough for fast array operations, and few enough for the memory.
USERS_PER_BLOCK = 8192


class Scorer(Protocol):
    """Any model that can score all items for some of the training users."""

    def score(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return scores, len(users) x M."""


@runtime_checkable
class FactorModel(Protocol):
    """A model whose scores are products of two vectors."""

    def get_factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the vectors of all people and of all items, N x F and M x F."""


@dataclass(frozen=True, eq=False)
class Factorization:
    """A model that consists of vectors of people and items."""

    X: NDArray[np.float32]
    V: NDArray[np.float32]

    def score(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.X[users] @ self.V.T)

    def get_factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.X, self.V


@runtime_checkable
class ItemScorer(Protocol):
    """A model for which scores of a few items cost less than scores of all."""

    def score_items(
        self, users: NDArray[np.int64], items: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Return scores for each user's row of `items`; an entry of -1 is no item."""


def rank(model: Scorer, candidates: Candidates) -> Ranks:
    """Rank by the model's scores, in the fastest way that the model supports."""
    if isinstance(model, FactorModel):
        return rank_factors(*model.get_factors(), candidates)
    if isinstance(model, ItemScorer) and not candidates.full:
        return _rank_sampled(model, candidates)
    return rank_scores(model, candidates)


def _rank_sampled(model: ItemScorer, candidates: Candidates) -> Ranks:
    test = candidates.split.test
    # People without a test item or without any other item to rank it against are not tested.
    users = np.flatnonzero((test >= 0) & (candidates.items[:, 0] >= 0))
    others = candidates.items[users]
    scores = model.score_items(users, np.column_stack([test[users], others]))
    own, competes = scores[:, :1], others >= 0
    better = ((scores[:, 1:] > own) & competes).sum(axis=1)
    return Ranks(better, ((scores[:, 1:] == own) & competes).sum(axis=1))


def rank_scores(model: Scorer, candidates: Candidates) -> Ranks:
    """Rank by any model's scores, a block of users at a time."""
    return rank_for_tests(model, [candidates])[0]


def rank_for_tests(model: Scorer, tests: Sequence[Candidates]) -> list[Ranks]:
    """Rank for several tests of one split; scores are computed once for all tests."""
    split = tests[0].split
    better, ties = np.zeros((2, len(tests), split.train.n_users), np.int64)
    # Score all items for a block of people, and then rank these people in every test.
    everybody = np.flatnonzero(split.test >= 0)
    for first in range(0, len(everybody), USERS_PER_SCORING):
        users = everybody[first : first + USERS_PER_SCORING]
        scores = model.score(users)
        own = scores[np.arange(len(users)), split.test[users]][:, None]
        for number, candidates in enumerate(tests):
            competes = _mark_competitors(candidates, users)
            better[number, users] = ((scores > own) & competes).sum(axis=1)
            ties[number, users] = ((scores == own) & competes).sum(axis=1)
    return [select_tested(*ranks) for ranks in zip(tests, better, ties, strict=True)]


def _mark_competitors(candidates: Candidates, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which items compete with the test item of each user, len(users) x M."""
    own, test = candidates.split.excluded_from_ranking, candidates.split.test
    mask = np.full((len(users), own.n_items), candidates.full)
    if candidates.full:
        excluded = own.take(users)
        mask[excluded.users_of_entries(), excluded.indices] = False
        # The test item does not compete with itself.
        mask[np.arange(len(users)), test[users]] = False
        return mask
    items = candidates.items[users]
    row, _ = np.nonzero(items >= 0)
    mask[row, items[items >= 0]] = True
    return mask


def split_into_blocks(train: Histories) -> Iterator[Histories]:
    """Yield the histories in their order, `USERS_PER_BLOCK` at a time."""
    for first in range(0, train.n_users, USERS_PER_BLOCK):
        yield train.take(np.arange(first, min(first + USERS_PER_BLOCK, train.n_users)))


def solve_device_vectors(
    V: NDArray[np.float32], train: Histories, *, alpha: float, regularization: float
) -> NDArray[np.float32]:
    """Return the same bits as `solve_user_vectors`, in bounded memory."""
    X = np.empty((train.n_users, V.shape[1]), np.float32)
    first = 0
    for people in split_into_blocks(train):
        X[first : first + people.n_users] = solve_user_vectors(
            V, people, alpha=alpha, regularization=regularization
        )
        first += people.n_users
    return X


def build_outer_table(V: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return for each item the lower triangle of `v v^T`, row by row, and then `v` itself."""
    # The normal equations of a user are sums of such rows, so no product is computed twice.
    wide = V.astype(np.float64)
    rows, columns = np.tril_indices(V.shape[1])
    return np.concatenate([wide[:, rows] * wide[:, columns], wide], axis=1)


def build_normal_equations(
    sums: NDArray[np.float64], G: NDArray[np.float64], factors: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `G + alpha sum v v^T` and `(1 + alpha) sum v`.

    Args:
        sums: Sums of rows of `build_outer_table`, one row for each system.
        G: What all systems have in common, F x F.
        factors: F.
        alpha: Weight of a touched item beyond 1.
    """
    rows, columns = np.tril_indices(factors)
    triangle = alpha * sums[:, : len(rows)]
    system = np.empty((len(sums), factors, factors))
    # Both triangles: a solver may read either one.
    system[:, rows, columns] = triangle
    system[:, columns, rows] = triangle
    return system + G, (1 + alpha) * sums[:, len(rows) :]
