"""The local view: somebody can tell whose reports these are, all of them.

Pure composition says T k eps. With a delta one can say less, exactly: the privacy loss of a report is
+eps on a loud direction of the true history, -eps on one of the other history, 0 elsewhere, and a
training's loss is a sum of such steps.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, stats

from sottovoce.privacy.events import SIGN, checked_delta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.privacy.events import Reporting


def local_delta(event: Reporting, epsilon: float) -> float:
    """The exact delta at this total epsilon: sum of `P (1 - e^(epsilon - loss))` over larger losses."""
    units, chances = _losses(event)
    loss = units * event.epsilon
    larger = loss > epsilon
    return float((chances[larger] * -np.expm1(epsilon - loss[larger])).sum())


def local_epsilon(event: Reporting, delta: float) -> float:
    """The least total epsilon that holds with this delta, for reports that are linked."""
    checked_delta(delta)
    if local_delta(event, 0.0) <= delta:
        return 0.0
    units, chances = _losses(event)
    loss = units * event.epsilon

    def excess(epsilon: float) -> float:
        larger = loss > epsilon
        return float((chances[larger] * -np.expm1(epsilon - loss[larger])).sum()) - delta

    return float(optimize.brentq(excess, 0.0, event.pure, xtol=1e-9 * event.pure))


def _losses(event: Reporting) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The total loss in units of epsilon (-n..n), and the chance of each under the true history."""
    n, rho = event.total, event.loud_fraction
    up = event.blanket * rho * exp(event.epsilon)
    down = event.blanket * rho
    units = np.arange(-n, n + 1)
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
    # What was left out is counted as if it were the largest loss.
    chances[-1] += max(0.0, 1.0 - chances.sum())
    return units, chances


_NEGLIGIBLE = 1e-18
