"""Gaussian noise, exactly: how epsilon, delta and mu belong together.

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
from sottovoce.privacy.events import checked_delta

HALVINGS = 100
"""More than a double can be halved to any purpose."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta of a Gaussian mechanism at this epsilon.

    >>> f"{gaussian_delta(mu=0.2367, epsilon=1.0):.2g}"
    '1e-06'
    """
    from scipy.special import log_ndtr, ndtr  # slow to import: whoever accounts should wait for it

    if mu == 0:
        return 0.0
    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    # The logarithm: e^epsilon alone would overflow where the product does not.
    return max(float(ndtr(near)) - exp(epsilon + float(log_ndtr(far))), 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon that holds with this delta, rounded up."""
    checked_delta(delta)
    if not (isfinite(mu) and mu >= 0):
        raise SettingsError(f"mu must be finite and not negative, got {mu}")
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _border(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, mu)[1]


def mu_within(epsilon: float, delta: float) -> float:
    """The largest mu that is (epsilon, delta)-private, rounded down."""
    checked_delta(delta)
    if not (isfinite(epsilon) and epsilon > 0):
        raise SettingsError(f"epsilon must be positive and finite, got {epsilon}")
    return _border(lambda mu: gaussian_delta(mu, epsilon) > delta, sqrt(epsilon))[0]


def _border(beyond: Callable[[float], bool], guess: float) -> tuple[float, float]:
    """Two neighbouring numbers above 0, the first of them not beyond and the second beyond."""
    low, high = 0.0, guess
    while not beyond(high):
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if beyond(middle):
            high = middle
        else:
            low = middle
    return low, high
