"""The best of many scores, in a time that does not depend on which they are.

A sort that compares is many times faster where scores are in order already or all alike: how long a
list takes would say something about the taste behind it, to whoever sees when a device comes back
from making one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIGN, _ALL = np.uint64(1 << 63), np.uint64(2**64 - 1)


def best_rows(scores: NDArray[np.float64], own: list[int], n: int) -> NDArray[np.intp]:
    """The rows of the n best scores, best first, without `own`; of equals the first comes first.

    A NaN is as low as can be.
    """
    keys = _descending_keys(scores)
    keys[own] = _ALL
    return _sorted_rows(keys)[: min(n, len(keys) - len(own))]


def _descending_keys(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The better a score, the smaller its key: its bits, in an order that integers have."""
    known = np.where(np.isnan(scores), -np.inf, scores) + 0.0  # -0.0 is 0.0
    bits = known.view(np.uint64)
    return ~(bits ^ np.where(bits & _SIGN, _ALL, _SIGN))


def _sorted_rows(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """By four passes over 16 bits each, the lowest first: numpy counts these instead of comparing.

    Two digits that are never in order come first, or it would leave out what is sorted already.
    """
    order = np.arange(len(keys))
    digits = np.empty(len(keys) + 2, np.uint16)
    digits[:2] = 2**16 - 1, 0
    for shift in range(0, 64, 16):
        digits[2:] = (keys[order] >> np.uint64(shift)) & np.uint64(2**16 - 1)
        places = np.argsort(digits, kind="stable")
        order = order[places[places >= 2] - 2]
    return order
