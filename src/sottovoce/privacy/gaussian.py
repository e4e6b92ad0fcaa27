"""Exact privacy of Gaussian noise: conversions between epsilon, delta and mu.

Suppose that one person can change a value by at most s, and that the value is released with normal
noise of standard deviation sigma. Then the release distinguishes two histories of the person at
most as well as one sample distinguishes N(0, 1) from N(mu, 1), where mu = s / sigma. For several
releases, the squares of mu add up exactly, even if each release depends on the earlier ones (Dong,
Roth and Su 2022). The delta of one mu at a given epsilon is

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

This holds for real numbers. It does not account for the rounding of noise to floating point.
"""

from collections.abc import Callable
from math import exp, isfinite, sqrt

from sottovoce.errors import SettingsError
from sottovoce.privacy.events import check_delta

# After this number of halvings, an interval has no further float64 between its two ends.
BISECTION_STEPS = 100


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Compute the exact delta of a Gaussian mechanism at this epsilon.

    >>> f"{gaussian_delta(mu=0.2367, epsilon=1.0):.2g}"
    '1e-06'
    """
    # Imported here because the import is slow and few users of this package compute a delta.
    from scipy.special import log_ndtr, ndtr

    if mu == 0:
        return 0.0
    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    # Logarithms are added, because e^epsilon may overflow even if the product is small.
    return max(float(ndtr(near)) - exp(epsilon + float(log_ndtr(far))), 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Compute the smallest epsilon for which this mu is (epsilon, delta)-private, rounded up."""
    check_delta(delta)
    if not (isfinite(mu) and mu >= 0):
        raise SettingsError(f"mu must be finite and not negative, got {mu}")
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _bisect(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, mu)[1]


def max_gaussian_mu(epsilon: float, delta: float) -> float:
    """Compute the largest mu that is (epsilon, delta)-private, rounded down."""
    check_delta(delta)
    if not (isfinite(epsilon) and epsilon > 0):
        raise SettingsError(f"epsilon must be positive and finite, got {epsilon}")
    return _bisect(lambda mu: gaussian_delta(mu, epsilon) > delta, sqrt(epsilon))[0]


def _bisect(is_beyond: Callable[[float], bool], guess: float) -> tuple[float, float]:
    """Return two adjacent floats: `is_beyond` is false for the first and true for the second."""
    low, high = 0.0, guess
    while not is_beyond(high):
        low, high = high, 2 * high
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if is_beyond(middle):
            high = middle
        else:
            low = middle
    return low, high
