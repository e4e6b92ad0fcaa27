"""The local view: somebody can tell whose reports these are, all of them.

Pure composition says T k eps. With a delta one can say less, exactly: the privacy loss of a report
is +eps on a loud direction of the true history, -eps on one of the other history, 0 elsewhere, and
a training's loss is a sum of such steps. Where these are too many to be counted out, a bound by
Renyi divergence takes the place of the sum.
"""

from functools import lru_cache
from math import exp, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.bound import moments, renyi_epsilon
from sottovoce.privacy.events import SIGN, Reporting, checked_delta

Float64 = NDArray[np.float64]

MOST_SIGNS, MOST_COUNTED = 10**7, 10**6
"""So many reports are counted out, of signs and of others: seconds, and under a gigabyte."""
SPREAD = 60.0
"""Ends of a binomial of at most 2 e^-60 are not looked at, and count as the largest loss."""
ORDERS = 1 + np.geomspace(1e-9, 1e9, 1_000)


def is_counted(event: Reporting) -> bool:
    """Whether so few reports are counted out; else the figure is a bound."""
    return event.total <= (MOST_SIGNS if event.loud_fraction == SIGN else MOST_COUNTED)


@lru_cache(maxsize=256)
def local_epsilon(event: Reporting, delta: float) -> float:
    """The least total epsilon that holds with this delta, for reports that are linked.

    Beyond `is_counted` not the least, but one that holds.

    Args:
        event: What each person does in a training.
        delta: What probabilities may differ by, beyond the factor e^epsilon.
    """
    from scipy import optimize  # slow to import: only accounting should wait for it

    checked_delta(delta)
    if not is_counted(event):
        return _bound(event, delta)
    loss, chances = _losses(event)
    if _delta(loss, chances, 0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return _delta(loss, chances, epsilon) - delta

    error = 1e-12 * event.pure
    found = float(optimize.brentq(excess, 0.0, event.pure, xtol=error))
    return min(found + 2 * error, event.pure)  # to the side of caution


def surely_lost(event: Reporting, delta: float) -> float:
    """Quickly, an epsilon that `local_epsilon` is not below: the mean loss, and well short of it.

    By Cantelli's inequality a loss is at least three deviations below its mean with a chance of at
    most 1/10, and of the others, one less uncovers more than half.
    """
    if delta > 1 / 2:
        return 0.0
    up, down = _chances(event)
    mean, square = up - down, up + down
    deviation = sqrt(event.total * (square - mean**2))
    return max(0.0, event.epsilon * (event.total * mean - 3 * deviation) - 1)


def _bound(event: Reporting, delta: float) -> float:
    """Steps 5 and 6 of `bound.py`, where the loss of a round is eps or nothing."""
    weight = np.array([sum(_chances(event))])
    logs = float(event.total) * np.log1p(moments(np.array([event.epsilon]), ORDERS) @ weight)
    return min(renyi_epsilon(logs, delta, ORDERS), event.pure)


def _chances(event: Reporting) -> tuple[float, float]:
    """Of a loss of eps, and of -eps, under the true history."""
    down = event.blanket * event.loud_fraction
    return down * exp(event.epsilon), down


def _delta(loss: Float64, chances: Float64, epsilon: float) -> float:
    """`sum P (1 - e^(epsilon - loss))` over larger losses: what e^epsilon does not cover."""
    larger = loss > epsilon
    return float((chances[larger] * -np.expm1(epsilon - loss[larger])).sum())


def _losses(event: Reporting) -> tuple[Float64, Float64]:
    """Every total loss (-n eps..n eps), and its chance under the true history."""
    from scipy import stats  # half a second to import: only whoever accounts should wait for it

    n, rho = event.total, event.loud_fraction
    up, down = _chances(event)
    chances = np.zeros(2 * n + 1)
    # Two disjoint loud sets, the worst case, leave 1 - 2 rho of the directions without any loss.
    if rho == SIGN:
        steps = np.array([n])
        weights = np.array([1.0])
    else:
        steps = np.arange(n + 1)
        weights = stats.binom.pmf(steps, n, up + down)
    for moved, weight in zip(steps.tolist(), weights.tolist(), strict=True):
        if weight > _NEGLIGIBLE:
            ups = np.arange(moved + 1) if rho == SIGN else _likely(moved, up / (up + down))
            chances[n + 2 * ups - moved] += weight * stats.binom.pmf(ups, moved, up / (up + down))
    # What was left out is counted as if it were the largest loss. It is added up by itself: one
    # less the sum of all others would be lost in their rounding.
    chances[-1] += weights[weights <= _NEGLIGIBLE].sum() + (2 * exp(-SPREAD) if rho < SIGN else 0)
    return np.arange(-n, n + 1, dtype=np.float64) * event.epsilon, chances


def _likely(n: int, p: float) -> NDArray[np.int64]:
    """The counts of Bin(n, p), but for the ends (Bernstein)."""
    width = SPREAD / 3 + sqrt(SPREAD**2 / 9 + 2 * SPREAD * n * p * (1 - p))
    return np.arange(max(0, floor(n * p - width)), min(n, floor(n * p + width) + 1) + 1)


_NEGLIGIBLE = 1e-18
