"""The local epsilon, which holds even if every report can be traced to its sender.

Pure composition (delta 0) gives eps times the number of reports. At a delta above 0 the exact
epsilon is smaller. The exact epsilon compares the true history with any other. A report has a
privacy loss of +eps if it names a direction that is loud for the true history. The loss is -eps if
the direction is loud for the other history, and 0 otherwise. The loss of a training is the sum over
its reports. All values of this sum are enumerated; if there are too many, a bound by Renyi
divergence is used.
"""

from functools import lru_cache
from math import exp, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.bound import moments, renyi_epsilon
from sottovoce.privacy.events import COIN_RHO, Reporting, check_delta

Float64 = NDArray[np.float64]

# The largest numbers of reports for which the exact epsilon is computed. It then takes seconds and
# less than a gigabyte. The limit is higher if each report is a sign (rho = 1/2): its loss is eps or
# -eps and never 0, so there are fewer cases to enumerate.
MAX_SIGN_REPORTS = 10**7
MAX_OTHER_REPORTS = 10**6
# Both tails of a binomial are counted as the largest loss. Their probability is at most
# 2 e^-TAIL_SPREAD together.
TAIL_SPREAD = 60.0
# The number of reports whose loss is not 0 is random. Values that are less likely than this are not
# enumerated; they also count as the largest loss.
NEGLIGIBLE_PROBABILITY = 1e-18
# The orders of the Renyi divergence, over which the bound is minimised.
RENYI_ORDERS = 1 + np.geomspace(1e-9, 1e9, 1_000)


def is_enumerated(event: Reporting) -> bool:
    """Return whether the local epsilon is exact; otherwise it is an upper bound."""
    is_sign = event.loud_fraction == COIN_RHO
    return event.total <= (MAX_SIGN_REPORTS if is_sign else MAX_OTHER_REPORTS)


@lru_cache(maxsize=256)
def local_epsilon(event: Reporting, delta: float) -> float:
    """Compute the smallest epsilon that holds if all reports of a person can be linked.

    Args:
        event: What each person does in a training.
        delta: Amount by which probabilities may differ beyond the factor e^epsilon.

    Returns:
        The exact epsilon, or an upper bound if `is_enumerated(event)` is false.
    """
    # Imported here because the import is slow and few users of this package compute an epsilon.
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
    # Round up by more than the error of the solver.
    return min(root + 2 * error, event.pure)


def lower_bound_epsilon(event: Reporting, delta: float) -> float:
    """Compute a lower bound of `local_epsilon` quickly, by Cantelli's inequality."""
    # With a probability of at least 9/10, the loss exceeds L, which is its mean minus three
    # standard deviations. At epsilon = L - 1, a loss above L adds more than 1 - 1/e of its
    # probability to delta. So delta is above 1/2 at this epsilon.
    if delta > 1 / 2:
        return 0.0
    up, down = _loss_probabilities(event)
    mean, square = up - down, up + down
    deviation = sqrt(event.total * (square - mean**2))
    return max(0.0, event.epsilon * (event.total * mean - 3 * deviation) - 1)


def _bound(event: Reporting, delta: float) -> float:
    """Bound the epsilon by steps 5 and 6 of `bound.py`."""
    # That bound uses the absolute value of a loss, here eps or 0. A loss of 0 adds nothing to the
    # moments.
    weight = np.array([sum(_loss_probabilities(event))])
    terms = moments(np.array([event.epsilon]), RENYI_ORDERS) @ weight
    logs = float(event.total) * np.log1p(terms)
    return min(renyi_epsilon(logs, delta, RENYI_ORDERS), event.pure)


def _loss_probabilities(event: Reporting) -> tuple[float, float]:
    """Return the probabilities that a report's loss is eps or -eps under the true history."""
    down = event.blanket * event.loud_fraction
    return down * exp(event.epsilon), down


def _delta(loss: Float64, chances: Float64, epsilon: float) -> float:
    """Return delta: the sum of P (1 - e^(epsilon - loss)) over all losses above epsilon."""
    larger = loss > epsilon
    return float((chances[larger] * -np.expm1(epsilon - loss[larger])).sum())


def _losses(event: Reporting) -> tuple[Float64, Float64]:
    """Return all losses of a training (-n eps to n eps) and their probabilities.

    The probabilities are those under the true history.
    """
    # Imported here because the import takes half a second.
    from scipy import stats

    n, rho = event.total, event.loud_fraction
    up, down = _loss_probabilities(event)
    chances = np.zeros(2 * n + 1)
    # In the worst case no direction is loud for both histories. Then reports that name one of the
    # other directions, a share of 1 - 2 rho of all, have no loss.
    if rho == COIN_RHO:
        counts = np.array([n])
        weights = np.array([1.0])
    else:
        counts = np.arange(n + 1)
        weights = stats.binom.pmf(counts, n, up + down)
    # `count` reports have a loss: `ups` of them eps, the others -eps.
    for count, weight in zip(counts.tolist(), weights.tolist(), strict=True):
        if weight > NEGLIGIBLE_PROBABILITY:
            share = up / (up + down)
            ups = np.arange(count + 1) if rho == COIN_RHO else _likely_counts(count, share)
            chances[n + 2 * ups - count] += weight * stats.binom.pmf(ups, count, share)
    # Outcomes that were left out count as the largest loss. Their probability is computed directly:
    # 1 minus the sum of all other probabilities would be smaller than its rounding error.
    chances[-1] += weights[weights <= NEGLIGIBLE_PROBABILITY].sum() + (
        2 * exp(-TAIL_SPREAD) if rho < COIN_RHO else 0
    )
    return np.arange(-n, n + 1, dtype=np.float64) * event.epsilon, chances


def _likely_counts(n: int, p: float) -> NDArray[np.int64]:
    """Return the values of Bin(n, p) without its tails, which Bernstein's inequality bounds."""
    width = TAIL_SPREAD / 3 + sqrt(TAIL_SPREAD**2 / 9 + 2 * TAIL_SPREAD * n * p * (1 - p))
    return np.arange(max(0, floor(n * p - width)), min(n, floor(n * p + width) + 1) + 1)
