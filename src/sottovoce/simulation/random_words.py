"""Random words of simulated people: Philox 4x64-10, a function of (seed, epoch, user, draw).

So the reports are the same with any number of threads, in any order of people, on a graphics card
and on a cluster. Live clients never use these words: they ask the operating system.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import WORDS_PER_DRAW

RandomWords = NDArray[np.uint64]

# Philox 4x64-10 of Salmon et al. 2011: its number of rounds, its two multipliers, and the numbers
# that each round adds to the two halves of the key.
PHILOX_ROUNDS = 10
PHILOX_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
PHILOX_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)

# The second half of the key is the purpose of the words. Each purpose needs a number of its own;
# the laboratory (`lab/`) uses 4.
REPORTS_PURPOSE = 1
TURNS_PURPOSE = 2
RESAMPLING_PURPOSE = 3

_MAX_WORD = (1 << 64) - 1
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)


def draw_report_words(
    seed: int, epoch: int, users: NDArray[np.integer], reports: int
) -> RandomWords:
    """Return the random words that `Mechanism.reports` takes for N users, N x (k + 1) x 4.

    k is the number of each user's reports. See `Mechanism.reports` for the use of each draw.
    """
    draws = np.arange(reports + 1, dtype=np.uint64)
    return philox((seed, REPORTS_PURPOSE), draws[None, :], users[:, None], epoch, 0)


def draw_participants(
    seed: int, epoch: int, users: NDArray[np.integer], turns: int, epochs: int
) -> NDArray[np.bool_]:
    """Return a mask of the users who take part in an epoch.

    Every user takes part in `turns` of the `epochs`. In each epoch, the chance is the number of
    turns left divided by the number of epochs left. So all epochs are equally likely, and a device
    needs to remember only how many turns are left (`sottovoce.client.timing`). This function
    remembers nothing: it repeats the draws of all earlier epochs.
    """
    turns_left = np.full(len(users), turns, np.uint64)
    takes_part = np.ones(len(users), bool)
    for earlier in range(epoch + 1 if turns < epochs else 0):
        draw, word = divmod(earlier, WORDS_PER_DRAW)
        random_words = philox((seed, TURNS_PURPOSE), np.array(draw), users, 0, 0)
        takes_part = multiply_high(random_words[..., word], epochs - earlier) < turns_left
        turns_left -= takes_part
    return takes_part


def philox(
    key: tuple[int, int], c0: NDArray[np.integer], c1: NDArray[np.integer], c2: int, c3: int
) -> RandomWords:
    """Return four words for each counter (c0, c1, c2, c3), along a new last axis.

    The arrays `c0` and `c1` are broadcast.
    """
    shape = np.broadcast_shapes(np.shape(c0), np.shape(c1))
    x0, x1 = (np.broadcast_to(np.asarray(c, np.uint64), shape) for c in (c0, c1))
    x2, x3 = (np.full(shape, c, np.uint64) for c in (c2, c3))
    k0, k1 = key
    for _ in range(PHILOX_ROUNDS):
        high0, low0 = _multiply(x0, PHILOX_MULTIPLIERS[0])
        high1, low1 = _multiply(x2, PHILOX_MULTIPLIERS[1])
        x0, x1 = high1 ^ x1 ^ np.uint64(k0), low1
        x2, x3 = high0 ^ x3 ^ np.uint64(k1), low0
        k0, k1 = (k0 + PHILOX_KEY_STEPS[0]) & _MAX_WORD, (k1 + PHILOX_KEY_STEPS[1]) & _MAX_WORD
    return np.stack((x0, x1, x2, x3), axis=-1)


def multiply_high(random_words: RandomWords, below: int) -> RandomWords:
    """Scale uniform words to whole numbers below `below`.

    Their probabilities differ from those of a uniform number by at most 2^-64.
    """
    return _multiply(random_words, below)[0]


def _multiply(a: RandomWords, b: int) -> tuple[RandomWords, RandomWords]:
    """Return the upper and the lower 64 bits of a 128-bit product."""
    a_low, a_high = a & _LOW_HALF, a >> _HALF_BITS
    b_low, b_high = np.uint64(b & 0xFFFFFFFF), np.uint64(b >> 32)
    low, middle = a_low * b_low, a_high * b_low
    cross = a_low * b_high + (low >> _HALF_BITS)
    # No sum overflows: a product of two 32-bit halves plus two more halves is at most 2^64 - 1.
    middle = middle + (cross & _LOW_HALF)
    high = a_high * b_high + (cross >> _HALF_BITS) + (middle >> _HALF_BITS)
    return high, (middle << _HALF_BITS) | (low & _LOW_HALF)
