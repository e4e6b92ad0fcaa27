"""Randomised response on every bit of everybody's row, packed by items: 64 people to a word.

Each bit of a person's 0/1 row is flipped with the probability of `mechanism.coin`, so it is eps-LDP
for that bit; a whole row of M bits is M eps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data.streams import stream

Words = NDArray[np.uint64]

LANES = 64
_USERS_PER_BLOCK = 8 * LANES
_ALL = np.uint64((1 << 64) - 1)


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
