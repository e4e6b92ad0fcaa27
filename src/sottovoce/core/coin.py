"""Coins: the only place where epsilon becomes a probability.

A coin compares a 64-bit random word with an integer threshold. So every probability is an exact
multiple of 2^-64, the same on every machine, and rounded so that epsilon is never exceeded. The
comparison uses integers only, so attacks on floating-point noise do not apply.
"""

from decimal import Decimal, localcontext
from math import ceil, pi, sqrt, tanh

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import SettingsError

RandomWords = NDArray[np.uint64]

# Number of values of a 64-bit random word.
WORD_RANGE = 1 << 64
_HALF_BITS = np.uint64(32)
_LOW_MASK = np.uint64(0xFFFFFFFF)
# Smallest supported epsilon. For a much smaller one, a threshold would be rounded up to 2^64, which
# does not fit in a word.
MIN_EPSILON = 1e-6
# Largest supported epsilon, at which 79 of the 2^64 words flip a sign. For much larger ones, all
# thresholds would be rounded up to 1, and epsilon would make no difference.
MAX_EPSILON = 40.0


def check_epsilon(epsilon: float) -> float:
    """Return epsilon as a float, or raise SettingsError if no coin supports it."""
    if not 0 < epsilon <= MAX_EPSILON:
        raise SettingsError(f"epsilon must be above 0 and at most {MAX_EPSILON:g}, got {epsilon}")
    return float(epsilon)


def exp_epsilon(epsilon: float) -> Decimal:
    """Return `e^epsilon` with 60 significant digits."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(check_epsilon(epsilon)).exp()


def compute_flip_threshold(epsilon: float) -> int:
    """Return the threshold below which a word flips the sign: `ceil(2^64 / (1 + e^epsilon))`.

    It is rounded up, so that the sign is kept at most `e^epsilon` times as often as it is flipped.

    >>> [compute_flip_threshold(epsilon) for epsilon in (2.5, 0.5, 6)]
    [1399336432749266787, 6964396094736529935, 45611846561169528]
    """
    with localcontext() as context:
        context.prec = 60
        exact = WORD_RANGE / (1 + exp_epsilon(epsilon))
        return int(exact.to_integral_value(rounding="ROUND_CEILING"))


def compute_blanket_threshold(epsilon: float, loud: int, n_signed: int) -> int:
    """Return gamma * 2^64, the threshold below which a word makes a report uniform.

    Any other word makes the report one of the `loud` directions. The threshold is rounded up, so
    that the ratio of two probabilities of a report never exceeds `e^epsilon`.

    Args:
        epsilon: Epsilon of the report.
        loud: L, the number of loud directions.
        n_signed: 2n, the number of all directions, signs counted.

    >>> compute_blanket_threshold(10.0, 1, 10_760) / WORD_RANGE  # K / (K + e^10 - 1), K = 2n / L
    0.3281942085966766
    """
    # 2^64 words cannot be divided evenly among L or 2n directions: some get one word more. So gamma
    # is computed for the likeliest loud direction and the least likely uniform direction, and
    # rounded up. Then no ratio of probabilities exceeds e^eps.
    max_words, min_words = -(-WORD_RANGE // loud), WORD_RANGE // n_signed
    with localcontext() as context:
        context.prec = 80
        odds = (exp_epsilon(epsilon) - 1) * min_words
        return ceil(WORD_RANGE * max_words / (odds + max_words))


def compute_sign_gain(epsilon: float) -> float:
    """Return the expected product of a standard normal value and its sign after the coin."""
    # sqrt(2 / pi) is E|z| of a standard normal z. tanh(epsilon / 2) is P[keep] - P[flip].
    return sqrt(2 / pi) * tanh(epsilon / 2)


def multiply_high(random_words: RandomWords, factor: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `floor(word * factor / 2^64)`: a uniform integer below `factor`.

    `factor` must be below 2^32. It may be an array with a factor for each word. The probabilities
    of two values differ by at most 2^-64.
    """
    # The two 32-bit halves are multiplied separately, because the product has up to 96 bits.
    scale = np.asarray(factor).astype(np.uint64)
    low = (random_words & _LOW_MASK) * scale
    high = (random_words >> _HALF_BITS) * scale + (low >> _HALF_BITS)
    return (high >> _HALF_BITS).astype(np.int64)


def to_unit_floats(random_words: RandomWords) -> NDArray[np.float64]:
    """Convert random words to floats in [0, 1), for draws on which no epsilon depends."""
    # The upper 53 bits fit a float64 exactly.
    return (random_words >> np.uint64(11)).astype(np.float64) * 2.0**-53
