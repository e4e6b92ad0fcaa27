"""Exact privacy of Gaussian noise: conversions between epsilon, delta and mu.

A value that one person moves by at most s, released with normal noise of standard deviation sigma,
is as private as telling N(0, 1) from N(mu, 1) is hard, with mu = s / sigma. Releases compose
exactly, also when each depends on those before it: the squares of mu add up (Dong, Roth and Su
2022). The curve of one mu is

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Normal noise in floating point is an approximation that this does not account for.
"""

from collections.abc import Callable
from math import exp, isfinite, sqrt

from sottovoce.errors import SettingsError
from sottovoce.privacy.events import check_delta

# Enough for any float64: after 100 bisections an interval cannot be halved any more.
BISECTION_STEPS = 100


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Compute the exact delta of a Gaussian mechanism at this epsilon.

    >>> f"{gaussian_delta(mu=0.2367, epsilon=1.0):.2g}"
    '1e-06'
    """
    # Imported here because it is slow, and few callers of the package compute anything.
    from scipy.special import log_ndtr, ndtr

    if mu == 0:
        return 0.0
    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    # In logarithms: e^epsilon may overflow where the product does not.
    return max(float(ndtr(near)) - exp(epsilon + float(log_ndtr(far))), 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Compute the smallest epsilon that holds with this delta, rounded up."""
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
    """Return adjacent floats above 0 between which `is_beyond` becomes true."""
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
