"""Where each user's test item ranks: among sampled negatives, or among the whole catalogue.

The test item is scored against items that the user never touched, neither in training nor as the
test item. Two ways in: any model gives blocks of scores; a factor model goes straight through
numpy, or through compiled loops where there is more to do. All give the same ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, predict
from sottovoce.data.split import Split
from sottovoce.errors import SettingsError

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

DEFAULT_NEGATIVES = 99
"""As in the paper, and in every table of ours: an item that was left out competes with so many."""
USERS_PER_BLOCK = 256
MAX_NUMPY_SECONDS = 3.0
"""Seconds of a process that numpy ranks, about, before a loop is compiled: that takes as long, so
nobody ever waits twice as long as with the better choice, and small work waits for no compiler."""
STEPS_PER_SECOND = 1e8
"""Products that numpy adds up, about."""


@dataclass
class NumpyWork:
    """What numpy has ranked in this process, in seconds."""

    seconds: float = 0.0

    def is_worth_compiling(self, steps: float) -> bool:
        """Whether a loop that adds up so many products is to be compiled; else they are counted."""
        needed = self.seconds + steps / STEPS_PER_SECOND
        if needed > MAX_NUMPY_SECONDS and find_spec("numba") is not None:
            return True
        self.seconds = needed
        return False


NUMPY_WORK = NumpyWork()


@dataclass(frozen=True)
class Ranks:
    """For each tested user: how many candidates score higher than the test item, how many alike."""

    better: NDArray[np.int64]
    ties: NDArray[np.int64]

    @classmethod
    def concatenate(cls, parts: Iterable[Ranks]) -> Ranks:
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


def sample_candidates(split: Split, negatives: int, seed: int, first: int = 0) -> Candidates:
    """Distinct items that each user never touched, drawn uniformly, to rank the test item against.

    Each user has a random stream of their own, keyed by the seed and their number. So the same
    split and seed give the same candidates on any machine, and to a part of the people.

    Args:
        split: What was left out of whose history.
        negatives: How many items; a user with fewer untouched ones meets all of those. 0: all.
        seed: Of what is drawn.
        first: The number of the first user.
    """
    if negatives < 0:
        raise SettingsError(f"negatives must not be negative, got {negatives}")
    own = split.excluded_from_ranking
    items = np.full((own.n_users, min(negatives, own.n_items)), -1, np.int32)
    for users in _blocks(own.n_users) if negatives else ():
        items[users] = _untouched_of(split, users, items.shape[1], seed, first)
    return Candidates(items, split)


def _untouched_of(
    split: Split, users: Int64, negatives: int, seed: int, first: int
) -> NDArray[np.int32]:
    """What some users draw, and draw again where it is touched or taken already."""
    some, test, n_items = (
        split.excluded_from_ranking.take(users),
        split.test[users],
        split.train.n_items,
    )
    taken = np.zeros((len(users), n_items), np.bool_)
    taken[some.users_of_entries(), some.indices] = True
    tested = np.flatnonzero(test >= 0)
    taken[tested, test[tested]] = True
    left = n_items - taken.sum(axis=1)
    wanted, out = np.minimum(negatives, left), np.full((len(users), negatives), -1, np.int32)
    # SplitMix64, a stream for each user: no two users share a starting state.
    start = _mixed(
        _mixed(np.array([seed], np.uint64) + _GOLDEN) ^ (users + first).astype(np.uint64)
    )
    shuffling = 2 * wanted > left
    for user in np.flatnonzero(shuffling):
        free = np.flatnonzero(~taken[user])
        out[user, : wanted[user]] = _shuffled(free, wanted[user], start[user])
    drawing, n_draws = np.flatnonzero(~shuffling & (wanted > 0)), 2 * negatives
    while len(drawing):
        draws = _drawn(start[drawing, None], np.arange(n_draws), n_items)
        row = np.broadcast_to(np.arange(len(drawing))[:, None], draws.shape)
        order = np.argsort(draws, axis=1, kind="stable")  # of equal draws the first counts
        ordered = np.take_along_axis(draws, order, axis=1)
        fresh = ~taken[drawing[row], draws]
        fresh[row[:, 1:], order[:, 1:]] &= ordered[:, 1:] != ordered[:, :-1]
        nth = np.cumsum(fresh, axis=1) - 1
        kept = fresh & (nth < wanted[drawing, None])
        out[drawing[row[kept]], nth[kept]] = draws[kept]
        drawing, n_draws = drawing[nth[:, -1] + 1 < wanted[drawing]], 2 * n_draws
    return out


def _shuffled(free: Int64, wanted: int, start: np.uint64) -> Int64:
    """For users who touched nearly everything: what is left, its beginning shuffled."""
    places = np.arange(wanted)
    for place, other in zip(
        places, places + _drawn(start, places, len(free) - places), strict=True
    ):
        free[[place, other]] = free[[other, place]]
    return free[:wanted]


def _drawn(start: NDArray[np.uint64] | np.uint64, nth: Int64, below: Int64 | int) -> Int64:
    """The nth numbers of streams: the upper 32 bits scaled down, uniform to within n / 2^32."""
    words = _mixed(start + (nth + 1).astype(np.uint64) * _GOLDEN)
    scaled = (words >> np.uint64(32)) * np.asarray(below).astype(np.uint64)
    return np.asarray(scaled >> np.uint64(32)).astype(np.int64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def rank_factors(X: Float32, V: Float32, candidates: Candidates) -> Ranks:
    """Where each person's test item ranks under scores `x . v`.

    Args:
        X: User vectors, N x F.
        V: The item matrix, M x F.
        candidates: What each test item is ranked against.
    """
    split, items = candidates.split, candidates.items
    if candidates.full:
        ranks = rank_hidden(X, V, split.excluded_from_ranking, split.left_out)
        can_be = find_testable_users(candidates)[split.test >= 0]
        return Ranks(ranks.better[can_be], ranks.ties[can_be])
    ranks = _rank_sampled(X, V, split.test, items)
    return select_tested(candidates, ranks.better, ranks.ties)


def _rank_sampled(
    X: Float32, V: Float32, test: NDArray[np.int32], items: NDArray[np.int32]
) -> Ranks:
    better, ties = np.zeros((2, len(X)), np.int64)
    if NUMPY_WORK.is_worth_compiling(items.size * V.shape[1]):
        from sottovoce.simulation.evaluation import kernels

        arrays = items, test, X, V, better, ties
        kernels.run_in_threads(
            len(X), lambda begin, end, _: kernels.rank_sampled(begin, end, *arrays)
        )
        return Ranks(better, ties)
    for users in _blocks(len(X)):
        x, there = X[users], items[users] >= 0
        own = predict(x, V[test[users]])[:, None]
        others = predict(x[:, None], V[items[users]])
        better[users] = ((others > own) & there).sum(axis=1)
        ties[users] = ((others == own) & there).sum(axis=1)
    return Ranks(better, ties)


def sample_negatives(
    known: Histories, hidden: Histories, negatives: int, seed: int
) -> NDArray[np.int32]:
    """Items that each person neither has nor is tested on, as in `sample_candidates`."""
    both = Histories.from_csr(known.to_csr() + hidden.to_csr())
    nothing = np.full(known.n_users, -1, np.int32)
    return sample_candidates(Split(both, nothing, "random", seed), negatives, seed).items


def rank_with_negatives(
    X: Float32, V: Float32, hidden: Histories, others: NDArray[np.int32]
) -> Ranks:
    """Of each entry of `hidden`, under `x . v`, among its person's other entries and `others`."""
    users = hidden.users_of_entries()
    ranks = _rank_sampled(X[users], V, hidden.indices, others[users])
    for user in np.flatnonzero(np.diff(hidden.indptr) > 1):
        entries = slice(*hidden.indptr[user : user + 2])
        own = predict(X[user], V[hidden.indices[entries]])
        ranks.better[entries] += (own > own[:, None]).sum(axis=1)
        ranks.ties[entries] += (own == own[:, None]).sum(axis=1) - 1
    return ranks


def rank_hidden(X: Float32, V: Float32, known: Histories, hidden: Histories) -> Ranks:
    """Of each entry of `hidden`, under `x . v`, among all items that its person does not have."""
    n = hidden.n_interactions
    better, ties = np.zeros(n, np.int64), np.zeros(n, np.int64)
    if NUMPY_WORK.is_worth_compiling(len(X) * V.size + n * len(V)):
        from sottovoce.simulation.evaluation import kernels

        arrays = known.indptr, known.indices, hidden.indptr, hidden.indices, X, V, better, ties
        kernels.run_in_threads(
            len(X), lambda begin, end, _: kernels.rank_several(begin, end, *arrays)
        )
        return Ranks(better, ties)
    for users in _blocks(len(X)):
        scores = _scores_of_new(X, V, known, users)
        for row, user in enumerate(users):
            entries = slice(*hidden.indptr[user : user + 2])
            own = scores[row, hidden.indices[entries], None]
            better[entries] = (scores[row] > own).sum(axis=1)
            ties[entries] = (scores[row] == own).sum(axis=1) - 1  # it ties with itself
    return Ranks(better, ties)


def find_best_untouched(X: Float32, V: Float32, known: Histories, length: int) -> NDArray[np.int32]:
    """The best items that each does not have, best first, -1 where there are no more; N x length.

    Items with equal scores come in the order of their numbers.
    """
    lists = np.full((len(X), length), -1, np.int32)
    if NUMPY_WORK.is_worth_compiling(len(X) * V.size):
        from sottovoce.simulation.evaluation import kernels

        arrays = known.indptr, known.indices, X, V, lists
        kernels.run_in_threads(
            len(X), lambda begin, end, _: kernels.find_best_untouched(begin, end, *arrays)
        )
        return lists
    for users in _blocks(len(X)):
        scores = _scores_of_new(X, V, known, users)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :length]
        found = np.where(np.isneginf(np.take_along_axis(scores, order, axis=1)), -1, order)
        lists[users, : found.shape[1]] = found
    return lists


def _scores_of_new(X: Float32, V: Float32, known: Histories, users: Int64) -> Float32:
    """Of all items, less what these users have."""
    scores = predict(X[users][:, None], V[None])
    some = known.take(users)
    scores[some.users_of_entries(), some.indices] = -np.inf
    return scores


def _blocks(n: int) -> Iterator[Int64]:
    for start in range(0, n, USERS_PER_BLOCK):
        yield np.arange(start, min(start + USERS_PER_BLOCK, n))


def select_tested(candidates: Candidates, better: Int64, ties: Int64) -> Ranks:
    """The ranks of those who can be tested."""
    can_be = find_testable_users(candidates)
    return Ranks(better[can_be], ties[can_be])


def find_testable_users(candidates: Candidates) -> NDArray[np.bool_]:
    """Only users with a test item and somebody to compete with."""
    can_be, own = candidates.split.test >= 0, candidates.split.excluded_from_ranking
    if candidates.full:  # beside the test item there is another that is not their own
        return np.asarray(can_be & (own.n_items - np.diff(own.indptr) > 1))
    return np.asarray(can_be & (candidates.items[:, 0] >= 0))
