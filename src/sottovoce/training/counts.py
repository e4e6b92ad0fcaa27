"""Statistical bounds on an honest crowd: the most frequent report, and the fewest participants.

The server counts a report at most as often as an honest crowd would send it. Counts are by report
(`sottovoce.core.count_reports`): a direction with its sign.
"""

from math import exp

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy import Reporting

Counts = NDArray[np.int64]

# Events that are less likely than this are ignored: six standard deviations of a normal draw.
TAIL_PROBABILITY = 1e-9


def cap_counts(counts: Counts, event: Reporting, dummies: int = 0) -> Counts:
    """Limit each count to the largest value that chance gives it in an honest crowd of this size.

    Args:
        counts: Number of reports of each kind, dummies included.
        event: How people report.
        dummies: How many of these reports are uniform random ones.
    """
    by_people = compute_max_count(int(counts.sum()) - dummies, event, len(counts))
    return np.minimum(counts, by_people + _quantile(dummies, 1 / len(counts)))


def compute_max_count(n_reports: int, event: Reporting, n_kinds: int) -> int:
    """Return the largest count that one of `n_kinds` values reaches in `n_reports` honest reports.

    A larger count has a probability of at most `TAIL_PROBABILITY`.

    >>> from sottovoce.privacy import Reporting
    >>> compute_max_count(1000, Reporting(epsilon=1.0, reports=10, epochs=1), 2000)
    10
    """
    # Whatever the history, a value is at most `gamma e^eps` times as likely as in a uniform draw
    # (`sottovoce.privacy.events`), and draws are independent. So its count is at most binomial,
    # even if all histories are the same.
    likely = min(event.blanket * exp(event.epsilon) / n_kinds, 1.0)
    return _quantile(n_reports, likely)


def compute_min_participants(people: int, share: float) -> int:
    """Return the smallest number of people who take part, if each does so with chance `share`.

    A smaller number has a probability of at most `TAIL_PROBABILITY`.

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
        # `betainc` is the chance of more than `middle`. `bdtrc` gives the same, but only below
        # 2^31. The arguments are floats because `betainc` rejects integers beyond that, too.
        if special.betainc(float(middle + 1), float(n - middle), chance) <= TAIL_PROBABILITY:
            high = middle
        else:
            low = middle
    return high
