"""No report counts more often than honest people send it.

Counts are by report (`sottovoce.mechanism.count_reports`), two for each direction: what may be
capped is a direction *and* its sign.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.privacy import Reporting

    Counts = NDArray[np.int64]

TAIL = 1e-9
"""By so small a chance an honest crowd is capped at a report: that of six standard deviations."""


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
    low, high = -1, n_reports  # the chance of more than `high` is at most the tail
    while high - low > 1:
        middle = (low + high) // 2
        # The chance of more than `middle`: bdtrc says the same, of fewer than 2^31 reports.
        if special.betainc(middle + 1, n_reports - middle, likely) <= TAIL:
            high = middle
        else:
            low = middle
    return high
