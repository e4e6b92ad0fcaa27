"""The local view: somebody can tell whose reports these are, all of them.

Pure composition says T k eps. With a delta one can say less, exactly: the privacy loss of a report
is +eps on a loud direction of the true history, -eps on one of the other history, 0 elsewhere, and
a training's loss is a sum of such steps.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.privacy.events import SIGN, checked_delta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.privacy.events import Reporting

    Float64 = NDArray[np.float64]


def local_delta(event: Reporting, epsilon: float) -> float:
    """The exact delta at this total epsilon, for reports that are linked."""
    return _delta(*_losses(event), epsilon)


def local_epsilon(event: Reporting, delta: float) -> float:
    """The least total epsilon that holds with this delta, for reports that are linked."""
    from scipy import optimize  # slow to import: only whoever accounts should wait for it

    checked_delta(delta)
    loss, chances = _losses(event)
    if _delta(loss, chances, 0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return _delta(loss, chances, epsilon) - delta

    error = 1e-12 * event.pure
    found = float(optimize.brentq(excess, 0.0, event.pure, xtol=error))
    return min(found + 2 * error, event.pure)  # to the side of caution


def _delta(loss: Float64, chances: Float64, epsilon: float) -> float:
    """`sum P (1 - e^(epsilon - loss))` over larger losses: what e^epsilon does not cover."""
    larger = loss > epsilon
    return float((chances[larger] * -np.expm1(epsilon - loss[larger])).sum())


def _losses(event: Reporting) -> tuple[Float64, Float64]:
    """Every total loss (-n eps..n eps), and its chance under the true history."""
    from scipy import stats  # half a second to import: only whoever accounts should wait for it

    n, rho = event.total, event.loud_fraction
    up = event.blanket * rho * exp(event.epsilon)
    down = event.blanket * rho
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
            ups = np.arange(moved + 1)
            chances[n + 2 * ups - moved] += weight * stats.binom.pmf(ups, moved, up / (up + down))
    # What was left out is counted as if it were the largest loss. It is added up by itself: one
    # less the sum of all others would be lost in their rounding.
    chances[-1] += weights[weights <= _NEGLIGIBLE].sum()
    return np.arange(-n, n + 1, dtype=np.float64) * event.epsilon, chances


_NEGLIGIBLE = 1e-18
