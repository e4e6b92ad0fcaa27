"""The simulator's random words: Philox 4x64-10, a function of (seed, epoch, user, draw).

Counter based, so nobody's words depend on who was simulated before: any number of threads, any
batching, a GPU or a cluster give the same reports. It is the generator behind
`numpy.random.Philox`, which the tests hold it against. Never for live clients: those ask the
operating system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import WORDS_PER_DRAW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
REPORTS, TURNS, RESAMPLED, CHANCES = 1, 2, 3, 4
"""What the words are for, as the second half of the key: another use would have another number."""

_MASK = (1 << 64) - 1
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def report_words(seed: int, epoch: int, users: NDArray[np.integer], reports: int) -> Words:
    """What `Mechanism.reports` takes for these users: N x (k + 1) x 4."""
    draws = np.arange(reports + 1, dtype=np.uint64)
    return philox((seed, REPORTS), draws[None, :], users[:, None], epoch, 0)


def take_part(
    seed: int, epoch: int, users: NDArray[np.integer], turns: int, epochs: int
) -> NDArray[np.bool_]:
    """Who takes part in an epoch, of people who do so in `turns` of `epochs`, each by own coins.

    With a chance of turns left over epochs left: everybody takes all of their turns, every epoch is
    as likely as any other, and nobody has to remember anything but how many are left. That is the
    rule of a device (`sottovoce.client.timing`); here earlier coins are tossed again.
    """
    left = np.full(len(users), turns, np.uint64)
    takes = np.ones(len(users), bool)
    for each in range(epoch + 1 if turns < epochs else 0):
        words = philox((seed, TURNS), np.array(each // WORDS_PER_DRAW), users, 0, 0)
        takes = multiply_high(words[..., each % WORDS_PER_DRAW], epochs - each) < left
        left -= takes
    return takes


def chances(seed: int, epoch: int, users: NDArray[np.integer]) -> NDArray[np.float64]:
    """In [0, 1), as a device makes one of a word: who is below the share of the terms takes part.

    The rule of a training without end. That nobody takes part beyond a lifetime is counted by
    whoever asks, for people join at different times.
    """
    words = philox((seed, CHANCES), np.array(epoch // WORDS_PER_DRAW), users, 0, 0)
    return np.asarray((words[..., epoch % WORDS_PER_DRAW] >> np.uint64(11)) * 2.0**-53, np.float64)


def philox(
    key: tuple[int, int], c0: NDArray[np.integer], c1: NDArray[np.integer], c2: int, c3: int
) -> Words:
    """Four words for each counter (c0, c1, c2, c3), broadcast; last axis 4."""
    shape = np.broadcast_shapes(np.shape(c0), np.shape(c1))
    x0, x1 = (np.broadcast_to(np.asarray(c, np.uint64), shape) for c in (c0, c1))
    x2, x3 = (np.full(shape, c, np.uint64) for c in (c2, c3))
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _multiply(x0, MULTIPLIERS[0])
        high1, low1 = _multiply(x2, MULTIPLIERS[1])
        x0, x1 = high1 ^ x1 ^ np.uint64(k0), low1
        x2, x3 = high0 ^ x3 ^ np.uint64(k1), low0
        k0, k1 = (k0 + WEYL[0]) & _MASK, (k1 + WEYL[1]) & _MASK
    out = np.empty((*shape, WORDS_PER_DRAW), np.uint64)
    out[..., 0], out[..., 1], out[..., 2], out[..., 3] = x0, x1, x2, x3
    return out


def multiply_high(words: Words, below: int) -> Words:
    """From uniform words uniform numbers below this, to within `below / 2^64`."""
    return _multiply(words, below)[0]


def _multiply(a: Words, b: int) -> tuple[Words, Words]:
    """The upper and lower 64 bits of a 128-bit product."""
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = np.uint64(b & 0xFFFFFFFF), np.uint64(b >> 32)
    low, middle = a_low * b_low, a_high * b_low
    cross = a_low * b_high + (low >> _HALF)
    middle = middle + (cross & _LOW)
    high = a_high * b_high + (cross >> _HALF) + (middle >> _HALF)
    return high, (middle << _HALF) | (low & _LOW)
