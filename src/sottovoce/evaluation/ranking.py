"""Where each user's test item ranks: among sampled negatives, or among the whole catalogue.

The test item is scored against items that the user never touched, neither in training nor as the
test item. Two ways in: any model gives blocks of scores; a factor model goes straight through
compiled kernels. Both give the same ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sottovoce.errors import SettingsError
from sottovoce.evaluation import kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sottovoce.data.split import Split
    from sottovoce.model import Histories

USERS_PER_BLOCK = 256


@dataclass(frozen=True)
class Ranks:
    """For each tested user: how many candidates score higher than the test item, how many alike."""

    better: NDArray[np.int64]
    ties: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Iterable[Ranks]) -> Ranks:
        """Of people one after the other."""
        found = list(parts)
        return cls(
            np.concatenate([each.better for each in found]),
            np.concatenate([each.ties for each in found]),
        )


@dataclass(frozen=True)
class Candidates:
    """Whom the test item of each user competes with: fixed before any model is looked at."""

    items: NDArray[np.int32]
    """N x n, -1 where a user has fewer untouched items; with n = 0 it is the whole catalogue."""
    split: Split

    @property
    def full(self) -> bool:
        """Whether the whole catalogue competes."""
        return bool(self.items.shape[1] == 0)


class Scorer(Protocol):
    """Any model: scores of every item for some of the training users, one row each."""

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """len(users) x M."""


def sample_candidates(split: Split, negatives: int, seed: int, first: int = 0) -> Candidates:
    """`negatives` distinct items that each user never touched, uniformly; 0 for all.

    A user with fewer untouched items meets all of those. Each has a random stream of their own,
    keyed by the seed and their number (from `first` on), so the same split and seed give the same
    candidates on any machine, and to a part of the people.
    """
    if negatives < 0:
        raise SettingsError(f"negatives must not be negative, got {negatives}")
    own = split.not_competing
    items = np.full((own.n_users, min(negatives, own.n_items)), -1, np.int32)
    if negatives:
        kernels.sample_untouched(
            own.indptr,
            own.indices,
            own.n_items,
            split.test,
            np.uint64(seed),
            np.uint64(first),
            items,
        )
    return Candidates(items, split)


def rank_factors(X: NDArray[np.float32], V: NDArray[np.float32], candidates: Candidates) -> Ranks:
    """Where each person's test item ranks under scores `x . v`: X is N x F, V is M x F."""
    better, ties = _empty(candidates.split)
    if candidates.full:
        own = candidates.split.not_competing
        kernels.rank_full(own.indptr, own.indices, candidates.split.test, X, V, better, ties)
    else:
        kernels.rank_sampled(candidates.items, candidates.split.test, X, V, better, ties)
    return tested(candidates, better, ties)


def rank_scores(model: Scorer, candidates: Candidates) -> Ranks:
    """Ranks under any model's scores, a block of users at a time."""
    split = candidates.split
    better, ties = _empty(split)
    everybody = np.flatnonzero(split.test >= 0)
    for start in range(0, len(everybody), USERS_PER_BLOCK):
        users = everybody[start : start + USERS_PER_BLOCK]
        scores = model.scores(users)
        own = scores[np.arange(len(users)), split.test[users]][:, None]
        competes = _competes(candidates, users)
        better[users] = ((scores > own) & competes).sum(axis=1)
        ties[users] = ((scores == own) & competes).sum(axis=1)
    return tested(candidates, better, ties)


def _empty(split: Split) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n = split.train.n_users
    return np.zeros(n, np.int64), np.zeros(n, np.int64)


def _competes(candidates: Candidates, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """len(users) x M: which items the test item of each user is ranked against."""
    own, test = candidates.split.not_competing, candidates.split.test
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


def tested(candidates: Candidates, better: NDArray[np.int64], ties: NDArray[np.int64]) -> Ranks:
    """The ranks of those who can be tested."""
    can_be = who_is_tested(candidates)
    return Ranks(better[can_be], ties[can_be])


def who_is_tested(candidates: Candidates) -> NDArray[np.bool_]:
    """Only users with a test item and somebody to compete with."""
    can_be = candidates.split.test >= 0
    if candidates.full:
        return np.asarray(can_be & (_untouched(candidates.split.not_competing) > 1))
    return np.asarray(can_be & (candidates.items[:, 0] >= 0))


def _untouched(own: Histories) -> NDArray[np.int64]:
    """How many items are not in each of these histories; the test item is one of them."""
    return own.n_items - np.diff(own.indptr)
