"""DPLCF (Gao et al. 2020) as the paper describes it in section 5.2; without noise, plain item-kNN.

Every person sends a bit for each of the M items after randomised response: each bit is flipped with
the probability of `sottovoce.core.coin`. So a bit is eps-LDP for its item, and all bits together
are M eps-LDP for the person. For each pair of items the server estimates, without the bias of the
randomisation, how many people touched both, and then the cosine similarity of the items. The device
scores an item by its similarity to the items that the person really touched.
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
from sottovoce_lab.baselines.kernels import count_common_bits, sum_similarities

Words = NDArray[np.uint64]
Counts = NDArray[np.integer]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# Number of people in a word of a packed column, which has one bit for each.
USERS_PER_WORD = 64
USERS_PER_BLOCK = 8 * USERS_PER_WORD
ALL_BITS = np.uint64((1 << 64) - 1)
# Number of rows of similarities that are computed at a time.
ITEMS_PER_BLOCK = 64
# Number of similar items that each item keeps. This number and the next one were chosen on the
# Netflix subset (random splits of seeds 1001 and 1002), both for epsilon 2.5 for an item and for
# epsilon 5,000 for a person.
DEFAULT_NEIGHBOURS = 50
# Smaller counts are replaced by this where similarities are divided by counts. The unit is the
# standard deviation of a pair's count.
MIN_COUNT_DEVIATIONS = 15.0


@dataclass(frozen=True)
class Debias:
    """Estimates of counts, without the bias of the randomisation."""

    n_users: int
    flip: float
    """Probability that a bit was flipped; 0 without noise."""

    def estimate_singles(self, counts: Counts) -> Float64:
        """Estimate how many people touched each item from the number of noisy rows that have it."""
        return np.asarray((counts - self.flip * self.n_users) / (1 - 2 * self.flip))

    def estimate_pairs(self, counts: Counts, first: Counts, second: Counts) -> Float64:
        """Estimate how many people touched both of two items.

        Args:
            counts: Noisy rows that have both items.
            first: Noisy rows that have the first item.
            second: Noisy rows that have the second item.
        """
        q = self.flip
        by_chance = q * (first[:, None] + second[None, :]) - q * q * self.n_users
        return np.asarray((counts - by_chance) / (1 - 2 * q) ** 2)

    @property
    def pair_deviation(self) -> float:
        """Standard deviation that `estimate_pairs` has for two items that nobody touched."""
        q = self.flip
        return sqrt(self.n_users) * q * (1 - q) / (1 - 2 * q) ** 2

    @property
    def min_count(self) -> float:
        """The minimum that replaces smaller counts where similarities are divided by counts."""
        # Noise can make the count of an item small or negative. Then every similarity to the item
        # would be huge. With this minimum, the standard deviation of a similarity that is only
        # noise is at most 1 / MIN_COUNT_DEVIATIONS.
        return max(1.0, MIN_COUNT_DEVIATIONS * self.pair_deviation)


@dataclass(frozen=True, eq=False)
class DPLCF:
    """A model of item similarities, which everybody receives, and of histories on the devices."""

    similarity: Float32
    """M x M; row i is 0 except for the neighbours of item i."""
    histories: Histories
    threads: int | None = None
    weights: Float64 | None = None
    """Weights of the entries of the histories, which only the device knows; None: all are equal."""

    @classmethod
    def fit(
        cls,
        train: Histories,
        *,
        epsilon: float | None,
        neighbours: int = DEFAULT_NEIGHBOURS,
        seed: int = 0,
        threads: int | None = None,
    ) -> DPLCF:
        """Randomise everybody's row and compute similarities from the noisy rows.

        Args:
            train: Everybody's history.
            epsilon: Epsilon of one item's bit; all M bits of a person cost M times as much. None:
                no noise.
            neighbours: How many of the most similar items each item keeps.
            seed: Seed of the noise.
            threads: Number of threads; None: one for each core.
        """
        if neighbours < 1:
            raise SettingsError(f"neighbours must be at least 1, got {neighbours}")
        flip_threshold = 0 if epsilon is None else coin.compute_flip_threshold(epsilon)
        columns = pack_columns(train)
        if flip_threshold:
            randomize_columns(columns, train.n_users, flip_threshold, seed)
        with use_threads(check_threads(threads)):
            debias = Debias(train.n_users, flip_threshold / coin.WORD_RANGE)
            similarity = compute_similarities(columns, debias, neighbours)
        return cls(similarity, train, threads)

    def score(self, users: NDArray[np.int64]) -> Float32:
        all_items = np.arange(self.histories.n_items, dtype=np.int32)
        return self.score_items(users, np.tile(all_items, (len(users), 1)))

    def score_items(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> Float32:
        """Score each user's row of `items` by similarity to the user's own items.

        An entry of -1 is no item.
        """
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


def compute_similarities(columns: Words, debias: Debias, neighbours: int) -> Float32:
    """Compute the cosines of the estimated counts, M x M, a block of items at a time."""
    n = len(columns)
    single = np.bitwise_count(columns).sum(axis=1, dtype=np.int64)
    length = np.sqrt(np.maximum(debias.estimate_singles(single), debias.min_count))
    out = np.empty((n, n), np.float32)
    counts = out.view(np.int32)  # similarities replace their counts row by row
    count_common_bits(columns, counts)
    for first in range(0, n, ITEMS_PER_BLOCK):
        rows = slice(first, min(first + ITEMS_PER_BLOCK, n))
        cosine = debias.estimate_pairs(counts[rows], single[rows], single) / (
            length[rows, None] * length
        )
        cosine[np.arange(len(cosine)), np.arange(first, rows.stop)] = 0  # not its own neighbour
        out[rows] = _keep_nearest(cosine, neighbours)
    return out


def _keep_nearest(cosine: Float64, neighbours: int) -> Float64:
    """Keep the largest entries of each row if they are positive, and replace all others by 0."""
    if neighbours < cosine.shape[1]:
        smallest = np.partition(cosine, -neighbours, axis=1)[:, -neighbours, None]
        cosine = np.where(cosine >= smallest, cosine, 0)
    return np.maximum(cosine, 0)


def pack_columns(train: Histories) -> Words:
    """Pack the histories as bits, M x ceil(N / 64).

    Bit `u % 64` of word `u // 64` says whether user u touched the item.
    """
    columns = np.zeros((train.n_items, -(-train.n_users // USERS_PER_WORD)), np.uint64)
    for first in range(0, train.n_users, USERS_PER_BLOCK):
        users = np.arange(first, min(first + USERS_PER_BLOCK, train.n_users))
        people = train.take(users)
        touched = np.zeros((USERS_PER_BLOCK, train.n_items), np.bool_)
        touched[people.users_of_entries(), people.indices] = True
        octets = np.packbits(touched, axis=0, bitorder="little").T
        words = np.ascontiguousarray(octets).view("<u8")
        place = first // USERS_PER_WORD
        columns[:, place : place + words.shape[1]] = words[:, : columns.shape[1] - place]
    return columns


def randomize_columns(columns: Words, n_users: int, threshold: int, seed: int) -> None:
    """Flip every bit of the first `n_users` in place, each with probability `threshold / 2^64`."""
    unused_bits = -n_users % USERS_PER_WORD
    for item, column in enumerate(columns):
        # Every item has its own random stream, so the order of work changes nothing.
        flips = draw_bernoulli_words(stream(seed, "dplcf", item), len(column), threshold)
        if unused_bits:
            flips[-1] &= ALL_BITS >> np.uint64(unused_bits)
        column ^= flips


def draw_bernoulli_words(rng: np.random.Generator, n_words: int, threshold: int) -> Words:
    """Draw words of independent bits, each 1 with probability exactly `threshold / 2^64`."""
    # Each bit is 1 if its own random number of 64 binary digits is below the threshold. One digit
    # of all these numbers is drawn at a time. A bit is decided at the first digit in which its
    # number differs from the threshold. So about 20 digits decide a whole column, instead of 64.
    ones = np.zeros(n_words, np.uint64)
    undecided = np.full(n_words, ALL_BITS)
    for digit in range(63, -1, -1):
        if not undecided.any():
            break
        digits = rng.bit_generator.random_raw(n_words)
        if threshold >> digit & 1:
            ones |= undecided & ~digits
            undecided &= digits
        else:
            undecided &= ~digits
    return ones
