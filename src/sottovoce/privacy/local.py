"""The local view: all reports of a person can be traced to that person.

Pure composition gives T k eps. At a delta above 0 the exact epsilon is smaller. The privacy loss of
a report is +eps on a loud direction of the true history, -eps on one of the other history, and 0
elsewhere; the loss of a training is the sum over its reports. If there are too many of them to
enumerate, a bound by Renyi divergence replaces the sum.
"""

from functools import lru_cache
from math import exp, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.bound import moments, renyi_epsilon
from sottovoce.privacy.events import COIN_RHO, Reporting, check_delta

Float64 = NDArray[np.float64]

# With more reports than this the figure is a bound. At the limit the exact one takes seconds and
# less than a gigabyte. Reports that are one sign have only two losses, so their limit is higher.
MAX_SIGN_REPORTS = 10**7
MAX_OTHER_REPORTS = 10**6
# Both tails of a binomial, at most 2 e^-TAIL_SPREAD together, are counted as the largest loss.
TAIL_SPREAD = 60.0
# Numbers of loud reports that are less likely than this count as the largest loss too.
NEGLIGIBLE_PROBABILITY = 1e-18
# The orders of the Renyi divergence, over which the bound is minimised.
RENYI_ORDERS = 1 + np.geomspace(1e-9, 1e9, 1_000)


def is_enumerated(event: Reporting) -> bool:
    """Return whether the local epsilon is exact; otherwise it is an upper bound."""
    is_sign = event.loud_fraction == COIN_RHO
    return event.total <= (MAX_SIGN_REPORTS if is_sign else MAX_OTHER_REPORTS)


@lru_cache(maxsize=256)
def local_epsilon(event: Reporting, delta: float) -> float:
    """Compute the smallest epsilon that holds for all reports of a person, linked to each other.

    Args:
        event: What each person does in a training.
        delta: Amount by which probabilities may differ beyond the factor e^epsilon.

    Returns:
        The exact epsilon; an upper bound unless `is_enumerated(event)`.
    """
    # Imported here because it is slow, and few callers of the package compute anything.
    from scipy import optimize

    check_delta(delta)
    if not is_enumerated(event):
        return _bound(event, delta)
    loss, chances = _losses(event)
    if _delta(loss, chances, 0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return _delta(loss, chances, epsilon) - delta

    error = 1e-12 * event.pure
    root = float(optimize.brentq(excess, 0.0, event.pure, xtol=error))
    # Rounded up by more than the solver's error.
    return min(root + 2 * error, event.pure)


def lower_bound_epsilon(event: Reporting, delta: float) -> float:
    """Compute a lower bound of `local_epsilon` quickly, by Cantelli's inequality."""
    # A loss is at least three deviations below its mean with a probability of at most 1/10. For
    # all other losses, an epsilon smaller by 1 leaves more than half of their probability.
    if delta > 1 / 2:
        return 0.0
    up, down = _loss_probabilities(event)
    mean, square = up - down, up + down
    deviation = sqrt(event.total * (square - mean**2))
    return max(0.0, event.epsilon * (event.total * mean - 3 * deviation) - 1)


def _bound(event: Reporting, delta: float) -> float:
    """Bound the epsilon by steps 5 and 6 of `bound.py`; the loss of a round is eps or 0."""
    weight = np.array([sum(_loss_probabilities(event))])
    terms = moments(np.array([event.epsilon]), RENYI_ORDERS) @ weight
    logs = float(event.total) * np.log1p(terms)
    return min(renyi_epsilon(logs, delta, RENYI_ORDERS), event.pure)


def _loss_probabilities(event: Reporting) -> tuple[float, float]:
    """Return the probabilities of a loss of eps and of -eps under the true history."""
    down = event.blanket * event.loud_fraction
    return down * exp(event.epsilon), down


def _delta(loss: Float64, chances: Float64, epsilon: float) -> float:
    """Return the delta at epsilon: the sum of P (1 - e^(epsilon - loss)) over larger losses."""
    larger = loss > epsilon
    return float((chances[larger] * -np.expm1(epsilon - loss[larger])).sum())


def _losses(event: Reporting) -> tuple[Float64, Float64]:
    """Return all total losses (-n eps to n eps) and their probabilities under the true history."""
    # Imported here because it takes half a second.
    from scipy import stats

    n, rho = event.total, event.loud_fraction
    up, down = _loss_probabilities(event)
    chances = np.zeros(2 * n + 1)
    # The worst case are two disjoint loud sets: 1 - 2 rho of the directions have no loss.
    if rho == COIN_RHO:
        steps = np.array([n])
        weights = np.array([1.0])
    else:
        steps = np.arange(n + 1)
        weights = stats.binom.pmf(steps, n, up + down)
    for moved, weight in zip(steps.tolist(), weights.tolist(), strict=True):
        if weight > NEGLIGIBLE_PROBABILITY:
            share = up / (up + down)
            ups = np.arange(moved + 1) if rho == COIN_RHO else _likely_counts(moved, share)
            chances[n + 2 * ups - moved] += weight * stats.binom.pmf(ups, moved, share)
    # What was left out counts as the largest loss. It is summed by itself: 1 minus the sum of all
    # others would be smaller than their rounding errors.
    chances[-1] += weights[weights <= NEGLIGIBLE_PROBABILITY].sum() + (
        2 * exp(-TAIL_SPREAD) if rho < COIN_RHO else 0
    )
    return np.arange(-n, n + 1, dtype=np.float64) * event.epsilon, chances


def _likely_counts(n: int, p: float) -> NDArray[np.int64]:
    """Return the counts of Bin(n, p) without the tails, by Bernstein's inequality."""
    width = TAIL_SPREAD / 3 + sqrt(TAIL_SPREAD**2 / 9 + 2 * TAIL_SPREAD * n * p * (1 - p))
    return np.arange(max(0, floor(n * p - width)), min(n, floor(n * p + width) + 1) + 1)
