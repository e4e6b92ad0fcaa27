"""Ranks of test items, among sampled negatives or among the whole catalogue.

A test item is scored against items that the user never touched, neither in training nor as the
test item.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sottovoce.core import Histories
from sottovoce.data.split import Split
from sottovoce.errors import SettingsError

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

# Items that a test item is ranked with, in the paper and in all tables of this project.
DEFAULT_NEGATIVES = 99
# People who are tested after an epoch that is not the last, at most.
PEOPLE_PER_EPOCH_TEST = 10_000
# Groups of items for each place of a list: the more, the fewer items are sorted.
GROUPS_PER_PLACE = 8
# Users whose scores a thread has in memory at a time: few, so that a cache holds them.
USERS_PER_BLOCK = 64
# The increment of SplitMix64.
SPLITMIX_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Ranks:
    """The place of each test item among its candidates."""

    better: NDArray[np.int64]
    """How many candidates score higher."""
    ties: NDArray[np.int64]
    """How many score the same."""

    def select(self, entries: NDArray[np.bool_]) -> Ranks:
        """Return the ranks of these test items."""
        return Ranks(self.better[entries], self.ties[entries])

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
    # A test item must not compete with itself.
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


class Scorer(Protocol):
    """Any model that scores all items for some of the people whom it is tested on."""

    def score(self, users: Int64) -> Float32:
        """Return the scores of all items, len(users) x M, in an array that may be overwritten."""


@dataclass(frozen=True, eq=False)
class Factors:
    """A model whose scores are products of two vectors."""

    X: Float32
    """Vectors of people, N x F."""
    V: Float32
    """Vectors of items, M x F."""

    def score(self, users: Int64) -> Float32:
        """Return the scores of all items, len(users) x M."""
        return np.asarray(self.X[users] @ self.V.T)


def rank_factors(X: Float32, V: Float32, candidates: Candidates) -> Ranks:
    """Rank each person's test item by scores `x . v`.

    Args:
        X: User vectors, N x F.
        V: The item matrix, M x F.
        candidates: What each test item is ranked against.
    """
    split, items = candidates.split, candidates.items
    is_testable = find_testable_users(candidates)
    if candidates.full:
        ranks = rank_hidden(X, V, split.excluded_from_ranking, split.left_out)
        return ranks.select(is_testable[split.test >= 0])
    users = np.flatnonzero(is_testable)
    return _rank_sampled(X, V, users, split.test[users], items[users])


def _rank_sampled(
    X: Float32, V: Float32, users: Int64, tests: NDArray[np.int32], items: NDArray[np.int32]
) -> Ranks:
    """Rank a test item of each of these users among the items of its row; -1 is no item."""
    better, ties = np.zeros((2, len(users)), np.int64)
    for begin in range(0, len(users), USERS_PER_BLOCK):
        some = slice(begin, begin + USERS_PER_BLOCK)
        ranked = np.column_stack([tests[some], items[some]])
        # Every product is summed in the same order, so items with equal vectors tie.
        scores = np.einsum("unf,uf->un", V[ranked], X[users[some]])
        scores[ranked < 0] = -np.inf
        better[some] = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
        ties[some] = (scores[:, 1:] == scores[:, :1]).sum(axis=1)
    return Ranks(better, ties)


def sample_negatives(
    histories: Histories, hidden: Histories, negatives: int, seed: int
) -> NDArray[np.int32]:
    """Draw items that each person neither has nor is tested on, as `sample_candidates` does."""
    both = Histories.from_csr(histories.to_csr() + hidden.to_csr())
    no_tests = np.full(histories.n_users, -1, np.int32)
    return sample_candidates(Split(both, no_tests, "random", seed), negatives, seed).items


def rank_hidden(X: Float32, V: Float32, histories: Histories, hidden: Histories) -> Ranks:
    """Rank each entry of `hidden` by `x . v` among all items that its person does not have."""
    return rank_and_list(Factors(X, V), histories, hidden)[0]


def rank_and_list(
    scorer: Scorer,
    histories: Histories,
    hidden: Histories | None = None,
    length: int = 0,
    negatives: NDArray[np.int32] | None = None,
) -> tuple[Ranks, NDArray[np.int32]]:
    """Rank hidden items, and list the best items of each person.

    Every item is scored once for both. The last digits of scores depend on the machine, which
    multiplies matrices in an order of its own.

    Args:
        scorer: The model.
        histories: What each person has, which is neither ranked nor listed.
        hidden: What is ranked, a row for each person; None: nothing.
        length: The length of the lists.
        negatives: What a hidden item is ranked with besides its person's others, N x n, -1 where
            there are no more; None: the whole catalogue. Lists are of the whole catalogue anyway.

    Returns:
        The rank of each entry of `hidden`, and N x length items, best first and -1 where there are
        no more. Items with equal scores come in the order of their numbers.
    """
    n = histories.n_users
    better, ties = np.zeros((2, 0 if hidden is None else hidden.n_interactions), np.int64)
    lists = np.full((n, length), -1, np.int32)

    def rank_block(users: Int64) -> None:
        scores = np.require(scorer.score(users), np.float32, ["C", "W"])
        own = histories.slice(int(users[0]), int(users[-1]) + 1)
        # Below every score: what a person has is neither listed nor better than a hidden item.
        scores[own.users_of_entries(), own.indices] = -np.inf
        if hidden is not None:
            for row, user in zip(scores, users, strict=True):
                tested, competitors = row[hidden[user]], row
                if negatives is not None:
                    others = negatives[user]
                    competitors = np.concatenate([tested, row[others[others >= 0]]])
                for entry, own_score in enumerate(tested, hidden.indptr[user]):
                    better[entry] = np.count_nonzero(competitors > own_score)
                    # An item ties with itself, which does not count.
                    ties[entry] = np.count_nonzero(competitors == own_score) - 1
        if length:
            lists[users] = _list_best(scores, length)

    # Threads that multiply small matrices with threads of their own would wait for each other.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(cpu_count()) as threads:
        # An error of a thread is raised here.
        deque(threads.map(rank_block, _split_users(n)), maxlen=0)
    return Ranks(better, ties), lists


def _list_best(scores: Float32, length: int) -> NDArray[np.int32]:
    """Return the items with the best scores of each row, best first; -1 for a score of -inf."""
    n_items = scores.shape[1]
    n = min(length, n_items)
    lists = np.full((len(scores), length), -1, np.int32)
    # The n best of the maxima of groups of items bound the n best of all: faster than sorting.
    n_groups = min(GROUPS_PER_PLACE * n, n_items)
    grouped = scores[:, : n_items - n_items % n_groups].reshape(len(scores), -1, n_groups)
    bound = np.partition(grouped.max(axis=1), n_groups - n, axis=1)[:, [n_groups - n]]
    selected = scores >= bound
    n_selected = np.count_nonzero(selected, axis=1)
    for row in np.flatnonzero(n_selected > n_groups):
        # Many items tie: the first ones are taken.
        last = np.partition(scores[row], n_items - n)[n_items - n]
        ties = np.flatnonzero(scores[row] == last)
        selected[row] = scores[row] > last
        selected[row, ties[: n - np.count_nonzero(selected[row])]] = True
    rows, items = np.divmod(np.flatnonzero(selected), n_items)
    best = scores[rows, items]
    items[np.isneginf(best)] = -1
    order = np.lexsort((-best, rows))
    places = np.searchsorted(rows, np.arange(len(scores)))[:, None] + np.arange(n)
    lists[:, :n] = items[order[places]]
    return lists


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
