"""What an honest crowd can do by chance: how often it sends one report, how many take part.

A report that comes more often than that is counted only as often. Counts are by report
(`sottovoce.core.count_reports`): a direction with its sign.
"""

from math import exp

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy import Reporting

Counts = NDArray[np.int64]

TAIL = 1e-9
"""Events less likely than this are ignored: six standard deviations of a normal draw."""


def capped(counts: Counts, event: Reporting, dummies: int = 0) -> Counts:
    """Each count, at most as large as chance makes it in an honest crowd of this size.

    So many of these reports are uniform.
    """
    by_people = most_of_one(int(counts.sum()) - dummies, event, len(counts))
    return np.minimum(counts, by_people + _quantile(dummies, 1 / len(counts)))


def most_of_one(n_reports: int, event: Reporting, n_kinds: int) -> int:
    """The largest count that one of the `n_kinds` values reaches in n honest reports.

    More has a chance of at most `TAIL`. Whatever the history, a value is at most `gamma e^eps`
    times as likely as in a uniform draw (`sottovoce.privacy.events`), and draws are independent. So
    its count is at most binomial, even if all histories are the same.

    >>> from sottovoce.privacy import Reporting
    >>> most_of_one(1000, Reporting(epsilon=1.0, reports=10, epochs=1), 2000)
    10
    """
    likely = min(event.blanket * exp(event.epsilon) / n_kinds, 1.0)
    return _quantile(n_reports, likely)


def least_of(people: int, share: float) -> int:
    """The smallest number of n people who take part, each with this chance.

    Fewer has a chance of at most `TAIL`.

    >>> least_of(100, 1.0), least_of(100, 0.999), least_of(100, 0.001)
    (100, 94, 0)
    """
    return people - _quantile(people, 1.0 - share)


def _quantile(n: int, chance: float) -> int:
    """The least number that a binomial draw exceeds with a chance of at most `TAIL`."""
    from scipy import special  # slow to import, and no device needs it

    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        # The chance of more than `middle`. `bdtrc` gives the same, but only below 2^31; floats,
        # since whole numbers beyond that are not taken here either.
        if special.betainc(float(middle + 1), float(n - middle), chance) <= TAIL:
            high = middle
        else:
            low = middle
    return high
