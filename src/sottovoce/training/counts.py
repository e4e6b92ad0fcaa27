"""What chance can make of honest people: how often they send one report, how many come.

No report counts more often than honest people send it. Counts are by report
(`sottovoce.core.count_reports`), two for each direction: what may be capped is a direction
*and* its sign.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy import Reporting

Counts = NDArray[np.int64]

TAIL = 1e-9
"""So small a chance is left out of account: that of six standard deviations of a normal draw."""


def capped(counts: Counts, event: Reporting) -> Counts:
    """No report more often than an honest crowd of this size sends it; what is over is gone."""
    return np.minimum(counts, most_of_one(int(counts.sum()), event, len(counts)))


def most_of_one(n_reports: int, event: Reporting, n_kinds: int) -> int:
    """How often n honest reports have one value, but for a chance of `TAIL`.

    Whatever the history, one of the `n_kinds` values is at most `gamma e^eps` times as likely as
    under a uniform draw (`sottovoce.privacy.events`), and draws are independent. So the number of
    reports with this value is at most binomial, also if everybody has the same history.

    >>> from sottovoce.privacy import Reporting
    >>> most_of_one(1000, Reporting(epsilon=1.0, reports=10, epochs=1), 2000)
    10
    """
    likely = min(event.blanket * exp(event.epsilon) / n_kinds, 1.0)
    return _quantile(n_reports, likely)


def least_of(people: int, share: float) -> int:
    """How many of n people take part at least, each with this chance, but for a chance of `TAIL`.

    >>> least_of(100, 1.0), least_of(100, 0.999), least_of(100, 0.001)
    (100, 94, 0)
    """
    return people - _quantile(people, 1.0 - share)


def _quantile(n: int, chance: float) -> int:
    """The least number than which a binomial draw is larger by a chance of at most `TAIL`."""
    from scipy import special  # slow to import, and no device needs it

    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        # The chance of more than `middle`: bdtrc says the same, of fewer than 2^31.
        # Floats: it takes no whole number that is larger than that.
        if special.betainc(float(middle + 1), float(n - middle), chance) <= TAIL:
            high = middle
        else:
            low = middle
    return high
