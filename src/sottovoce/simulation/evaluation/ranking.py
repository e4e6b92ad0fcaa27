"""Ranks of test items, among sampled negatives or among the whole catalogue.

A test item is scored against items that the user never touched, neither in training nor as the
test item. Numpy ranks small work, and compiled loops rank large work; both give the same ranks.
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

# Items that a test item is ranked with, in the paper and in all tables of this project.
DEFAULT_NEGATIVES = 99
# Users whose scores are in memory at a time.
USERS_PER_BLOCK = 256
# Numpy ranks for about this time before a loop is compiled, which takes as long. So nobody waits
# more than twice as long as with the better choice, and small work waits for no compiler.
MAX_NUMPY_SECONDS = 3.0
# Products that numpy adds up in a second, about.
STEPS_PER_SECOND = 1e8
# The increment of SplitMix64.
SPLITMIX_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class NumpyWork:
    """The time for which numpy has ranked in this process."""

    seconds: float = 0.0

    def is_worth_compiling(self, steps: float) -> bool:
        """Return whether to compile a loop that adds up this many products; else count them."""
        total = self.seconds + steps / STEPS_PER_SECOND
        if total > MAX_NUMPY_SECONDS and find_spec("numba") is not None:
            return True
        self.seconds = total
        return False


NUMPY_WORK = NumpyWork()


@dataclass(frozen=True)
class Ranks:
    """The place of each test item among its candidates."""

    better: NDArray[np.int64]
    """How many candidates score higher."""
    ties: NDArray[np.int64]
    """How many score the same."""

    @classmethod
    def concatenate(cls, parts: Iterable[Ranks]) -> Ranks:
        """Join the ranks of several groups of people."""
        ranks = list(parts)
        return cls(
            np.concatenate([part.better for part in ranks]),
            np.concatenate([part.ties for part in ranks]),
        )


@dataclass(frozen=True)
class Candidates:
    """The items that each user's test item is ranked with, fixed before there is a model."""

    items: NDArray[np.int32]
    """N x n, -1 where a user has fewer untouched items; n = 0 means the whole catalogue."""
    split: Split

    @property
    def full(self) -> bool:
        """Whether a test item is ranked among the whole catalogue."""
        return bool(self.items.shape[1] == 0)


def sample_candidates(split: Split, negatives: int, seed: int, first: int = 0) -> Candidates:
    """Draw distinct items that each user never touched, to rank the test item against.

    Each user has a random stream, keyed by the seed and their number. So the same split and seed
    give the same candidates on any machine, and to a part of the people.

    Args:
        split: The training histories and the test items.
        negatives: Items for each user, or all untouched ones where these are fewer. 0: the whole
            catalogue.
        seed: The seed of the draws.
        first: The number of the first user.
    """
    if negatives < 0:
        raise SettingsError(f"negatives must not be negative, got {negatives}")
    own = split.excluded_from_ranking
    items = np.full((own.n_users, min(negatives, own.n_items)), -1, np.int32)
    for users in _split_users(own.n_users) if negatives else ():
        items[users] = _draw_untouched(split, users, items.shape[1], seed, first)
    return Candidates(items, split)


def _draw_untouched(
    split: Split, users: Int64, negatives: int, seed: int, first: int
) -> NDArray[np.int32]:
    """Draw items for some users, again where an item is touched or drawn already."""
    some, test = split.excluded_from_ranking.take(users), split.test[users]
    n_items = split.train.n_items
    taken = np.zeros((len(users), n_items), np.bool_)
    taken[some.users_of_entries(), some.indices] = True
    tested = np.flatnonzero(test >= 0)
    taken[tested, test[tested]] = True
    n_free = n_items - taken.sum(axis=1)
    wanted, out = np.minimum(negatives, n_free), np.full((len(users), negatives), -1, np.int32)
    # SplitMix64, a stream for each user: no two users share a starting state.
    seed_word = _mix(np.array([seed], np.uint64) + SPLITMIX_STEP)
    start = _mix(seed_word ^ (users + first).astype(np.uint64))
    # Users who touched nearly everything would draw too often: their free items are shuffled.
    shuffles = 2 * wanted > n_free
    for user in np.flatnonzero(shuffles):
        free = np.flatnonzero(~taken[user])
        out[user, : wanted[user]] = _shuffle_beginning(free, wanted[user], start[user])
    drawing, n_draws = np.flatnonzero(~shuffles & (wanted > 0)), 2 * negatives
    while len(drawing):
        draws = _draw_below(start[drawing, None], np.arange(n_draws), n_items)
        row = np.broadcast_to(np.arange(len(drawing))[:, None], draws.shape)
        # A stable order: of equal draws the first counts.
        order = np.argsort(draws, axis=1, kind="stable")
        ordered = np.take_along_axis(draws, order, axis=1)
        is_new = ~taken[drawing[row], draws]
        is_new[row[:, 1:], order[:, 1:]] &= ordered[:, 1:] != ordered[:, :-1]
        nth = np.cumsum(is_new, axis=1) - 1
        selected = is_new & (nth < wanted[drawing, None])
        out[drawing[row[selected]], nth[selected]] = draws[selected]
        # Those who still lack items draw twice as many, which begin with the same ones.
        drawing, n_draws = drawing[nth[:, -1] + 1 < wanted[drawing]], 2 * n_draws
    return out


def _shuffle_beginning(items: Int64, length: int, start: np.uint64) -> Int64:
    """Shuffle items in place, as far as the first `length`, and return these."""
    places = np.arange(length)
    others = places + _draw_below(start, places, len(items) - places)
    for place, other in zip(places, others, strict=True):
        items[[place, other]] = items[[other, place]]
    return items[:length]


def _draw_below(start: NDArray[np.uint64] | np.uint64, nth: Int64, below: Int64 | int) -> Int64:
    """Return the nth numbers of streams: upper 32 bits scaled, uniform to within n / 2^32."""
    words = _mix(start + (nth + 1).astype(np.uint64) * SPLITMIX_STEP)
    scaled = (words >> np.uint64(32)) * np.asarray(below).astype(np.uint64)
    return np.asarray(scaled >> np.uint64(32)).astype(np.int64)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the output function of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def rank_factors(X: Float32, V: Float32, candidates: Candidates) -> Ranks:
    """Rank each person's test item by scores `x . v`.

    Args:
        X: User vectors, N x F.
        V: The item matrix, M x F.
        candidates: What each test item is ranked against.
    """
    split, items = candidates.split, candidates.items
    if candidates.full:
        ranks = rank_hidden(X, V, split.excluded_from_ranking, split.left_out)
        is_testable = find_testable_users(candidates)[split.test >= 0]
        return Ranks(ranks.better[is_testable], ranks.ties[is_testable])
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
    for users in _split_users(len(X)):
        x, is_item = X[users], items[users] >= 0
        own = predict(x, V[test[users]])[:, None]
        others = predict(x[:, None], V[items[users]])
        better[users] = ((others > own) & is_item).sum(axis=1)
        ties[users] = ((others == own) & is_item).sum(axis=1)
    return Ranks(better, ties)


def sample_negatives(
    histories: Histories, hidden: Histories, negatives: int, seed: int
) -> NDArray[np.int32]:
    """Draw items that each person neither has nor is tested on, as `sample_candidates` does."""
    both = Histories.from_csr(histories.to_csr() + hidden.to_csr())
    no_tests = np.full(histories.n_users, -1, np.int32)
    return sample_candidates(Split(both, no_tests, "random", seed), negatives, seed).items


def rank_with_negatives(
    X: Float32, V: Float32, hidden: Histories, others: NDArray[np.int32]
) -> Ranks:
    """Rank each entry of `hidden` by `x . v` among its person's other entries and `others`."""
    users = hidden.users_of_entries()
    ranks = _rank_sampled(X[users], V, hidden.indices, others[users])
    for user in np.flatnonzero(np.diff(hidden.indptr) > 1):
        entries = slice(*hidden.indptr[user : user + 2])
        own = predict(X[user], V[hidden.indices[entries]])
        ranks.better[entries] += (own > own[:, None]).sum(axis=1)
        ranks.ties[entries] += (own == own[:, None]).sum(axis=1) - 1
    return ranks


def rank_hidden(X: Float32, V: Float32, histories: Histories, hidden: Histories) -> Ranks:
    """Rank each entry of `hidden` by `x . v` among all items that its person does not have."""
    n = hidden.n_interactions
    better, ties = np.zeros(n, np.int64), np.zeros(n, np.int64)
    if NUMPY_WORK.is_worth_compiling(len(X) * V.size + n * len(V)):
        from sottovoce.simulation.evaluation import kernels

        arrays = (
            histories.indptr,
            histories.indices,
            hidden.indptr,
            hidden.indices,
            X,
            V,
            better,
            ties,
        )
        kernels.run_in_threads(
            len(X), lambda begin, end, _: kernels.rank_several(begin, end, *arrays)
        )
        return Ranks(better, ties)
    for users in _split_users(len(X)):
        scores = _score_untouched(X, V, histories, users)
        for row, user in enumerate(users):
            entries = slice(*hidden.indptr[user : user + 2])
            own = scores[row, hidden.indices[entries], None]
            better[entries] = (scores[row] > own).sum(axis=1)
            # An item ties with itself, which does not count.
            ties[entries] = (scores[row] == own).sum(axis=1) - 1
    return Ranks(better, ties)


def find_best_untouched(
    X: Float32, V: Float32, histories: Histories, length: int
) -> NDArray[np.int32]:
    """Return the best items that each does not have, N x length, -1 where there are no more.

    Items with equal scores come in the order of their numbers.
    """
    lists = np.full((len(X), length), -1, np.int32)
    if NUMPY_WORK.is_worth_compiling(len(X) * V.size):
        from sottovoce.simulation.evaluation import kernels

        arrays = histories.indptr, histories.indices, X, V, lists
        kernels.run_in_threads(
            len(X), lambda begin, end, _: kernels.find_best_untouched(begin, end, *arrays)
        )
        return lists
    for users in _split_users(len(X)):
        scores = _score_untouched(X, V, histories, users)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :length]
        best = np.where(np.isneginf(np.take_along_axis(scores, order, axis=1)), -1, order)
        lists[users, : best.shape[1]] = best
    return lists


def _score_untouched(X: Float32, V: Float32, histories: Histories, users: Int64) -> Float32:
    """Return the scores of all items, -inf for those that a user has."""
    scores = predict(X[users][:, None], V[None])
    some = histories.take(users)
    scores[some.users_of_entries(), some.indices] = -np.inf
    return scores


def _split_users(n: int) -> Iterator[Int64]:
    for start in range(0, n, USERS_PER_BLOCK):
        yield np.arange(start, min(start + USERS_PER_BLOCK, n))


def select_tested(candidates: Candidates, better: Int64, ties: Int64) -> Ranks:
    """Return the ranks of the users who can be tested."""
    is_testable = find_testable_users(candidates)
    return Ranks(better[is_testable], ties[is_testable])


def find_testable_users(candidates: Candidates) -> NDArray[np.bool_]:
    """Return a mask of the users with a test item and another item to rank it with."""
    has_test, own = candidates.split.test >= 0, candidates.split.excluded_from_ranking
    if candidates.full:
        return np.asarray(has_test & (own.n_items - np.diff(own.indptr) > 1))
    return np.asarray(has_test & (candidates.items[:, 0] >= 0))
