"""What somebody did last says most about what they do next: a weight for each own item.

By order and not by age: who comes back after a year still has a latest item, and who chooses fifty
films in an hour has one too. So a device needs to remember no time, only what came after what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model.histories import Histories

LATEST = 10.0
"""What the latest item weighs, where the order is known; an item of no known order weighs 1."""
HALVING = 2.0
"""So many later items halve a weight; it falls on as one over their number.

Form and both numbers were chosen on validation splits of two data sets, among some fifty rules.
"""


def recency(moments: NDArray[np.integer]) -> NDArray[np.float64]:
    """The weights of one history, whose items were touched at these moments (later is larger).

    What was touched at the same moment has the same weight. If all was, there is no order, and all
    weighs 1.

    >>> recency(np.array([7, 3, 5])).round(2).tolist()
    [10.0, 5.0, 6.67]
    >>> recency(np.array([4, 4])).tolist()
    [1.0, 1.0]
    """
    return _weights(np.array([0, len(moments)]), np.asarray(moments, np.int64))


def recency_of(histories: Histories, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for many histories at once, in the order of their entries."""
    return _weights(histories.indptr, times)


def _weights(indptr: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float64]:
    users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((times, users))
    # A run is what one person touched at one moment.
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(times[order]) != 0) | (np.diff(users[order]) != 0)
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(order))
    whose = users[order][first]
    # How many came later; of its own run, on average half of the others did.
    later = indptr[whose + 1] - (first + size) + (size - 1) / 2
    weights_of_runs = LATEST / (1 + later / HALVING)
    weights_of_runs[size == np.diff(indptr)[whose]] = 1.0
    weights = np.empty(len(order))
    weights[order] = np.repeat(weights_of_runs, size)
    return weights
