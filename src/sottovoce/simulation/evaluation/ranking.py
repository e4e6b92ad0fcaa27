"""Ranks of test items, among sampled negatives or among the whole catalogue.

A test item is ranked against items that the user never touched. Items in the training history and
the test item itself are touched.
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
# Maximum number of people who are tested after each epoch except the last, which tests everybody.
PEOPLE_PER_EPOCH_TEST = 10_000
# `_list_best` divides the items into this many groups for each place of a list. With more groups,
# fewer items remain to be sorted.
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
    """N x n; rows of users with fewer untouched items are filled up with -1. n = 0 means the whole
    catalogue."""
    split: Split

    @property
    def full(self) -> bool:
        """Whether a test item is ranked among the whole catalogue."""
        return bool(self.items.shape[1] == 0)


def sample_candidates(split: Split, negatives: int, seed: int, first: int = 0) -> Candidates:
    """Draw distinct items that each user never touched, to rank the test item against.

    Each user has a random stream, keyed by the seed and the user's number. So the same split and
    seed give the same candidates on any machine. A split of only some of the users gives them the
    same candidates as a split of all.

    Args:
        split: The training histories and the test items.
        negatives: Number of items for each user; a user with fewer untouched items gets all of
            them. 0 means the whole catalogue.
        seed: The seed of the draws.
        first: The number of the first user of the split; the others follow.
    """
    if negatives < 0:
        raise SettingsError(f"negatives must not be negative, got {negatives}")
    excluded = split.excluded_from_ranking
    items = np.full((excluded.n_users, min(negatives, excluded.n_items)), -1, np.int32)
    for users in _split_users(excluded.n_users) if negatives else ():
        items[users] = _draw_untouched(split, users, items.shape[1], seed, first)
    return Candidates(items, split)


def _draw_untouched(
    split: Split, users: Int64, negatives: int, seed: int, first: int
) -> NDArray[np.int32]:
    """Draw items for some users, and draw again if an item is touched or was drawn before."""
    excluded, test = split.excluded_from_ranking.take(users), split.test[users]
    n_items = split.train.n_items
    taken = np.zeros((len(users), n_items), np.bool_)
    taken[excluded.users_of_entries(), excluded.indices] = True
    tested = np.flatnonzero(test >= 0)
    # A test item must not compete with itself.
    taken[tested, test[tested]] = True
    n_free = n_items - taken.sum(axis=1)
    wanted, out = np.minimum(negatives, n_free), np.full((len(users), negatives), -1, np.int32)
    # SplitMix64, a stream for each user: no two users share a starting state.
    seed_word = _mix(np.array([seed], np.uint64) + SPLITMIX_STEP)
    start = _mix(seed_word ^ (users + first).astype(np.uint64))
    # Users who touched nearly everything would have to draw too often. Shuffle their free items
    # instead.
    shuffles = 2 * wanted > n_free
    for user in np.flatnonzero(shuffles):
        free = np.flatnonzero(~taken[user])
        out[user, : wanted[user]] = _shuffle_beginning(free, wanted[user], start[user])
    drawing, n_draws = np.flatnonzero(~shuffles & (wanted > 0)), 2 * negatives
    while len(drawing):
        draws = _draw_below(start[drawing, None], np.arange(n_draws), n_items)
        row = np.broadcast_to(np.arange(len(drawing))[:, None], draws.shape)
        # A stable sort, so that the first of several equal draws counts.
        order = np.argsort(draws, axis=1, kind="stable")
        ordered = np.take_along_axis(draws, order, axis=1)
        is_new = ~taken[drawing[row], draws]
        is_new[row[:, 1:], order[:, 1:]] &= ordered[:, 1:] != ordered[:, :-1]
        nth = np.cumsum(is_new, axis=1) - 1
        selected = is_new & (nth < wanted[drawing, None])
        out[drawing[row[selected]], nth[selected]] = draws[selected]
        # Users who still lack items repeat their draws from the beginning, and draw twice as many.
        drawing, n_draws = drawing[nth[:, -1] + 1 < wanted[drawing]], 2 * n_draws
    return out


def _shuffle_beginning(items: Int64, length: int, start: np.uint64) -> Int64:
    """Move `length` random items to the front, in place, and return them in random order."""
    places = np.arange(length)
    others = places + _draw_below(start, places, len(items) - places)
    for place, other in zip(places, others, strict=True):
        items[[place, other]] = items[[other, place]]
    return items[:length]


def _draw_below(start: NDArray[np.uint64] | np.uint64, nth: Int64, below: Int64 | int) -> Int64:
    """Return the numbers at positions `nth` of streams, each from 0 to `below` - 1.

    Only the upper 32 bits of a word are scaled, so the numbers are not exactly equally likely. The
    relative error of each probability is at most `below` / 2^32.
    """
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
    """Rank each user's test item among the items in the user's row, in which -1 is no item."""
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
    """Draw items that each person neither has nor is tested on, as `sample_candidates` does.

    Here a person may have several test items, which are the person's row of `hidden`.
    """
    both = Histories.from_csr(histories.to_csr() + hidden.to_csr())
    no_tests = np.full(histories.n_users, -1, np.int32)
    return sample_candidates(Split(both, no_tests, "random", seed), negatives, seed).items


def rank_hidden(X: Float32, V: Float32, histories: Histories, hidden: Histories) -> Ranks:
    """Rank each test item in `hidden` by `x . v` among all items that its person does not have."""
    return rank_and_list(Factors(X, V), histories, hidden)[0]


def rank_and_list(
    scorer: Scorer,
    histories: Histories,
    hidden: Histories | None = None,
    length: int = 0,
    negatives: NDArray[np.int32] | None = None,
) -> tuple[Ranks, NDArray[np.int32]]:
    """Rank test items, and list the best items of each person.

    Every item is scored once for both purposes. The last digits of scores depend on the machine,
    because libraries add the products of a matrix multiplication in different orders.

    Args:
        scorer: The model.
        histories: The items that each person has. They are neither ranked nor listed.
        hidden: The test items, any number for each person. None ranks nothing.
        length: The length of the lists.
        negatives: Items that each of a person's test items is ranked with, N x n, with -1 where a
            person has fewer. The person's other test items are added to them. None ranks among the
            whole catalogue. Lists are always made from the whole catalogue.

    Returns:
        The rank of each entry of `hidden`, and the lists: N x length items, best first, with -1
        where there are no more. Items with equal scores come in the order of their numbers.
    """
    n = histories.n_users
    better, ties = np.zeros((2, 0 if hidden is None else hidden.n_interactions), np.int64)
    lists = np.full((n, length), -1, np.int32)

    def rank_block(users: Int64) -> None:
        scores = np.require(scorer.score(users), np.float32, ["C", "W"])
        block = histories.slice(int(users[0]), int(users[-1]) + 1)
        # A person's own items are neither listed nor better than a test item.
        scores[block.users_of_entries(), block.indices] = -np.inf
        if hidden is not None:
            for row, user in zip(scores, users, strict=True):
                tested, competitors = row[hidden[user]], row
                if negatives is not None:
                    others = negatives[user]
                    competitors = np.concatenate([tested, row[others[others >= 0]]])
                for entry, score in enumerate(tested, hidden.indptr[user]):
                    better[entry] = np.count_nonzero(competitors > score)
                    # The test item is among the competitors and ties with itself.
                    ties[entry] = np.count_nonzero(competitors == score) - 1
        if length:
            lists[users] = _list_best(scores, length)

    # If each thread multiplied its small matrices with several BLAS threads, all would wait for
    # each other.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(cpu_count()) as threads:
        # An error of a thread is raised here.
        deque(threads.map(rank_block, _split_users(n)), maxlen=0)
    return Ranks(better, ties), lists


def _list_best(scores: Float32, length: int) -> NDArray[np.int32]:
    """Return the items with the best scores of each row, best first; -1 for a score of -inf."""
    n_items = scores.shape[1]
    n = min(length, n_items)
    lists = np.full((len(scores), length), -1, np.int32)
    # Divide the items into groups and take the best score of each group. The n-th largest of these
    # is a lower bound of the n-th best score, so items below it need not be sorted.
    n_groups = min(GROUPS_PER_PLACE * n, n_items)
    grouped = scores[:, : n_items - n_items % n_groups].reshape(len(scores), -1, n_groups)
    bound = np.partition(grouped.max(axis=1), n_groups - n, axis=1)[:, [n_groups - n]]
    selected = scores >= bound
    n_selected = np.count_nonzero(selected, axis=1)
    for row in np.flatnonzero(n_selected > n_groups):
        # Many items tie with the n-th best: take those with the lowest numbers.
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
    has_test, excluded = candidates.split.test >= 0, candidates.split.excluded_from_ranking
    if candidates.full:
        return np.asarray(has_test & (excluded.n_items - np.diff(excluded.indptr) > 1))
    return np.asarray(has_test & (candidates.items[:, 0] >= 0))
