"""Statistical bounds on an honest crowd: the largest count of a report, the fewest participants.

The server limits the count of each report to what an honest crowd would send. There is a count for
each kind of report, a direction with a sign (`sottovoce.core.count_reports`).
"""

from math import exp

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy import Reporting

Counts = NDArray[np.int64]

# Events with a smaller probability are ignored. A normal draw is more than six standard deviations
# above its mean with this probability.
TAIL_PROBABILITY = 1e-9


def cap_counts(counts: Counts, event: Reporting, dummies: int = 0) -> Counts:
    """Limit each count to the largest value that chance gives it in an honest crowd of this size.

    Args:
        counts: Number of reports of each kind, dummies included.
        event: The facts about the reports. Only their epsilon and loud fraction are used.
        dummies: Number of dummies among the counted reports; they are uniformly random.
    """
    by_people = compute_max_count(int(counts.sum()) - dummies, event, len(counts))
    return np.minimum(counts, by_people + _quantile(dummies, 1 / len(counts)))


def compute_max_count(n_reports: int, event: Reporting, n_kinds: int) -> int:
    """Return the largest count that a kind of report reaches among honest reports.

    The probability of a larger count is at most `TAIL_PROBABILITY`.

    Args:
        n_reports: Number of honest reports.
        event: The facts about the reports. Only their epsilon and loud fraction are used.
        n_kinds: Number of kinds of reports.

    >>> from sottovoce.privacy import Reporting
    >>> compute_max_count(1000, Reporting(epsilon=1.0, reports=10, epochs=1), 2000)
    10
    """
    # Whatever the history, each kind of report is at most `event.blanket * e^eps` times as likely
    # as in a uniform draw (`sottovoce.privacy.events`), and draws are independent. So a binomial
    # draw bounds its count, even if all histories are the same.
    likely = min(event.blanket * exp(event.epsilon) / n_kinds, 1.0)
    return _quantile(n_reports, likely)


def compute_min_participants(people: int, share: float) -> int:
    """Return the smallest number of people who take part in an epoch.

    The probability of a smaller number is at most `TAIL_PROBABILITY`.

    Args:
        people: Number of people who may take part.
        share: Probability with which each of them takes part.

    >>> [compute_min_participants(100, share) for share in (1.0, 0.999, 0.001)]
    [100, 94, 0]
    """
    return people - _quantile(people, 1.0 - share)


def _quantile(n: int, chance: float) -> int:
    """Return the smallest k that a binomial draw exceeds with at most `TAIL_PROBABILITY`."""
    from scipy import special  # slow to import, and no device needs it

    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        # `betainc` returns the probability of a draw above `middle`. `bdtrc` is meant to return the
        # same, but its results are wrong from about ten million draws on.
        if special.betainc(float(middle + 1), float(n - middle), chance) <= TAIL_PROBABILITY:
            high = middle
        else:
            low = middle
    return high
