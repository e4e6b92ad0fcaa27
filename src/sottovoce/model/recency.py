"""What somebody did last says most about what they do next: a weight for each own item.

By order and not by age: who comes back after a year still has a latest item. So a device needs to
remember no time at all, only what came after what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model.histories import Histories

HALF = 12.0
"""After so many later items a weight has halved."""
LEAST = 0.03
"""What is left of an item's weight, however many came later."""


def recency(moments: NDArray[np.integer]) -> NDArray[np.float64]:
    """The weights of one history, whose items were touched at these moments (later is larger).

    What was touched at the same moment has the same weight.

    >>> recency(np.array([7, 3, 7])).round(2).tolist()
    [1.0, 0.89, 1.0]
    """
    ascending = np.sort(moments)
    return _weights(len(moments) - np.searchsorted(ascending, moments, side="right"))


def recency_of(histories: Histories, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for many histories at once, in the order of their entries."""
    users = histories.users_of_entries()
    order = np.lexsort((times, users))
    # A run is what one person touched at one moment; later than it is what follows its last entry.
    last = np.ones(len(order), bool)
    last[:-1] = (np.diff(times[order]) != 0) | (np.diff(users[order]) != 0)
    ends = np.flatnonzero(last)
    run = np.cumsum(last) - last
    later = np.empty(len(order), np.int64)
    later[order] = histories.indptr[users[order] + 1] - 1 - ends[run]
    return _weights(later)


def _weights(later: NDArray[np.integer]) -> NDArray[np.float64]:
    """By how many own items came later."""
    return np.asarray(LEAST + (1 - LEAST) * np.exp2(-later / HALF))
