"""The coins: the only place where epsilon becomes a probability.

A 64-bit random word is compared with an integer threshold, so every probability is an exact
multiple of 2^-64, the same on every machine, and rounded so that epsilon is never exceeded. No
float touches the word: there is nothing for a floating-point attack to hold on to.
"""

from decimal import Decimal, localcontext
from math import pi, sqrt, tanh

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import SettingsError

RandomWords = NDArray[np.uint64]

WORD = 1 << 64
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
LEAST_EPSILON = 1e-6
"""Far below it a threshold would be 2^64, which is no 64-bit word."""
MAX_EPSILON = 40.0
"""Beyond this a 64-bit word cannot flip even once: the guarantee would be rounded away."""


def checked_epsilon(epsilon: float) -> float:
    """Epsilon itself, if a coin can be made for it."""
    if not 0 < epsilon <= MAX_EPSILON:
        raise SettingsError(f"epsilon must be above 0 and at most {MAX_EPSILON:g}, got {epsilon}")
    return float(epsilon)


def exp_epsilon(epsilon: float) -> Decimal:
    """`e^epsilon` to 60 digits, for the float that was given."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(checked_epsilon(epsilon)).exp()


def flip_threshold(epsilon: float) -> int:
    """A word below this flips the sign: `ceil(2^64 / (1 + e^epsilon))`.

    Rounded up, so that keep : flip never exceeds `e^epsilon`.

    >>> flip_threshold(2.5), flip_threshold(0.5), flip_threshold(6)
    (1399336432749266787, 6964396094736529935, 45611846561169528)
    """
    with localcontext() as context:
        context.prec = 60
        return int((WORD / (1 + exp_epsilon(epsilon))).to_integral_value(rounding="ROUND_CEILING"))


def sign_gain(epsilon: float) -> float:
    """How much of a unit gradient a sign carries: E|z| of a normal, less what the coin takes."""
    return sqrt(2 / pi) * tanh(epsilon / 2)


def multiply_high(random_words: RandomWords, factor: int) -> NDArray[np.int64]:
    """`floor(word * factor / 2^64)`: a uniform integer below `factor` (which is below 2^32).

    Uniform to within one word in 2^64 for each value.
    """
    scale = np.uint64(factor)
    low = (random_words & _LOW) * scale
    high = (random_words >> _HALF) * scale + (low >> _HALF)
    return (high >> _HALF).astype(np.int64)


def unit(random_words: RandomWords) -> NDArray[np.float64]:
    """A float64 in [0, 1) from the word's upper 53 bits; for rounding, which carries no epsilon."""
    return (random_words >> np.uint64(11)).astype(np.float64) * 2.0**-53
