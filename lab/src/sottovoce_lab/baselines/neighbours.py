"""DPLCF (Gao et al. 2020) as the paper describes it in section 5.2; without noise, plain item-kNN.

Every person sends their whole 0/1 row through randomised response: each bit is flipped with the
probability of `sottovoce.core.coin`, so it is eps-LDP for that item and M eps for the person. The
server estimates how many touched both of two items, with the bias of the randomisation removed, and
from that the cosine similarity of the items. The device scores an item by its similarity to what
the person truly touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, coin
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError
from sottovoce.simulation.evaluation.kernels import check_threads, use_threads
from sottovoce_lab.baselines.kernels import both_set, sum_similarities

Words = NDArray[np.uint64]
LANES = 64
"""People to a word of a packed column."""
_USERS_PER_BLOCK = 8 * LANES
_ALL = np.uint64((1 << 64) - 1)
Counts = NDArray[np.integer]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
ITEMS_PER_BLOCK = 64
NEIGHBOURS = 50
FLOOR = 15.0
"""A count below this many deviations of a pair's count is taken for that many; see `Debias.floor`.

This and the number of neighbours were chosen on the Netflix subset, random splits of seeds 1001 and
1002, for 2.5 an item and for 5,000 a person.
"""


@dataclass(frozen=True)
class Debias:
    """What the server knows of the randomisation, and how it takes its bias out of counts."""

    n_users: int
    flip: float
    """The probability that a bit was flipped; 0 without noise."""

    def singles(self, counts: Counts) -> Float64:
        """Unbiased: how many touched an item, from how many noisy rows have it."""
        return np.asarray((counts - self.flip * self.n_users) / (1 - 2 * self.flip))

    def pairs(self, counts: Counts, first: Counts, second: Counts) -> Float64:
        """Unbiased: how many touched both, from how many noisy rows have both, one, the other."""
        q = self.flip
        by_chance = q * (first[:, None] + second[None, :]) - q * q * self.n_users
        return np.asarray((counts - by_chance) / (1 - 2 * q) ** 2)

    @property
    def pair_deviation(self) -> float:
        """The standard deviation of `pairs` for two items that nobody touched."""
        q = self.flip
        return sqrt(self.n_users) * q * (1 - q) / (1 - 2 * q) ** 2

    @property
    def floor(self) -> float:
        """What the count of an item is at least taken for, where a similarity is divided by it.

        Noise can make a count small or negative and so every similarity to that item huge. Above
        this floor noise alone makes a similarity of 1 / FLOOR in standard deviation, at most.
        """
        return max(1.0, FLOOR * self.pair_deviation)


@dataclass(frozen=True, eq=False)
class DPLCF:
    """Item similarities that everybody is sent, and the true histories that stay where they are."""

    similarity: Float32
    """M x M; row i is 0 but for the neighbours of item i."""
    histories: Histories
    threads: int | None = None
    weights: Float64 | None = None
    """Of the entries of the histories, on the device alone; None weighs all alike."""

    @classmethod
    def fit(
        cls,
        train: Histories,
        *,
        epsilon: float | None,
        neighbours: int = NEIGHBOURS,
        seed: int = 0,
        threads: int | None = None,
    ) -> DPLCF:
        """`epsilon` is of one item, a person's is M times that; None sends the rows as they are."""
        if neighbours < 1:
            raise SettingsError(f"neighbours must be at least 1, got {neighbours}")
        flip_below = 0 if epsilon is None else coin.compute_flip_threshold(epsilon)
        columns = packed_columns(train)
        if flip_below:
            randomise(columns, train.n_users, flip_below, seed)
        with use_threads(check_threads(threads)):
            debias = Debias(train.n_users, flip_below / coin.WORD_RANGE)
            similarity = similarities(columns, debias, neighbours)
        return cls(similarity, train, threads)

    def scores(self, users: NDArray[np.int64]) -> Float32:
        everything = np.arange(self.histories.n_items, dtype=np.int32)
        return self.scores_of(users, np.tile(everything, (len(users), 1)))

    def scores_of(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> Float32:
        """Of some items for each user: similarities to their own items, summed; -1 is no item."""
        out, own = np.empty(items.shape, np.float32), self.histories
        weights = np.ones(own.n_interactions) if self.weights is None else self.weights
        with use_threads(check_threads(self.threads)):
            sum_similarities(
                own.indptr,
                own.indices,
                weights.astype(np.float32),
                users,
                items,
                self.similarity,
                out,
            )
        return out


def similarities(columns: NDArray[np.uint64], debias: Debias, neighbours: int) -> Float32:
    """Cosines of the estimated counts, M x M, a block of items at a time."""
    n = len(columns)
    single = np.bitwise_count(columns).sum(axis=1, dtype=np.int64)
    length = np.sqrt(np.maximum(debias.singles(single), debias.floor))
    out = np.empty((n, n), np.float32)
    counts = out.view(np.int32)  # each row of them gives way to its similarities
    both_set(columns, counts)
    for first in range(0, n, ITEMS_PER_BLOCK):
        some = slice(first, min(first + ITEMS_PER_BLOCK, n))
        cosine = debias.pairs(counts[some], single[some], single) / (length[some, None] * length)
        cosine[np.arange(len(cosine)), np.arange(first, some.stop)] = 0  # not its own neighbour
        out[some] = _nearest(cosine, neighbours)
    return out


def _nearest(cosine: Float64, neighbours: int) -> Float64:
    """The largest of each row, as far as they are positive; 0 elsewhere."""
    if neighbours < cosine.shape[1]:
        least = np.partition(cosine, -neighbours, axis=1)[:, -neighbours, None]
        cosine = np.where(cosine >= least, cosine, 0)
    return np.maximum(cosine, 0)


def packed_columns(train: Histories) -> Words:
    """M x ceil(N / 64): bit `u % 64` of word `u // 64` says whether user u touched the item."""
    columns = np.zeros((train.n_items, -(-train.n_users // LANES)), np.uint64)
    for first in range(0, train.n_users, _USERS_PER_BLOCK):
        users = np.arange(first, min(first + _USERS_PER_BLOCK, train.n_users))
        some = train.take(users)
        touched = np.zeros((_USERS_PER_BLOCK, train.n_items), np.bool_)
        touched[some.users_of_entries(), some.indices] = True
        octets = np.packbits(touched, axis=0, bitorder="little").T
        words = np.ascontiguousarray(octets).view("<u8")
        place = first // LANES
        columns[:, place : place + words.shape[1]] = words[:, : columns.shape[1] - place]
    return columns


def randomise(columns: Words, n_users: int, flip_below: int, seed: int) -> None:
    """Flip every bit of the first `n_users` in place, each with probability `flip_below / 2^64`.

    An item has a random stream of its own, keyed by the seed: the order of work changes nothing.
    """
    beyond = -n_users % LANES
    for item, column in enumerate(columns):
        flips = bernoulli_words(stream(seed, "dplcf", item), len(column), flip_below)
        if beyond:
            flips[-1] &= _ALL >> np.uint64(beyond)
        column ^= flips


def bernoulli_words(rng: np.random.Generator, n_words: int, below: int) -> Words:
    """Words of independent bits, each 1 with probability exactly `below / 2^64`.

    What 64 comparisons of random words with `below` would give, one binary digit of all of them at
    a time: a lane is settled at the first digit in which its word differs from the threshold's, so
    about 20 digits settle a whole column where one by one there would be 64 to draw for each bit.
    """
    ones = np.zeros(n_words, np.uint64)
    open_ = np.full(n_words, _ALL)
    for digit in range(63, -1, -1):
        if not open_.any():
            break
        drawn = rng.bit_generator.random_raw(n_words)
        if below >> digit & 1:
            ones |= open_ & ~drawn
            open_ &= drawn
        else:
            open_ &= ~drawn
    return ones
