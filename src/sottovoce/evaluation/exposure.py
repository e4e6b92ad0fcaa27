"""What is recommended to everybody together: which part of the catalogue anybody ever sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import DataError
from sottovoce.evaluation import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories


def exposure(
    X: NDArray[np.float32], V: NDArray[np.float32], histories: Histories, length: int
) -> NDArray[np.int64]:
    """In how many people's first `length` each item is, of all that they did not touch.

    Items with equal scores come in the order of their numbers.
    """
    lists = np.full((histories.n_users, length), -1, np.int32)
    kernels.best_untouched(histories.indptr, histories.indices, X, V, lists)
    return np.bincount(lists[lists >= 0], minlength=histories.n_items)


def coverage(exposed: NDArray[np.int64]) -> float:
    """The share of items that are recommended to anybody.

    >>> coverage(np.array([3, 0, 1, 0]))
    0.5
    """
    return float(np.count_nonzero(exposed)) / _some(exposed)


def gini(exposed: NDArray[np.int64]) -> float:
    """0 where all items are recommended equally often, near 1 where a few are to everybody.

    >>> gini(np.array([2, 2, 2])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    n, total = _some(exposed), float(exposed.sum())
    places = 2 * np.arange(1, n + 1) - n - 1
    return float(places @ np.sort(exposed)) / (n * total) if total else 0.0


def _some(exposed: NDArray[np.int64]) -> int:
    if not len(exposed):
        raise DataError("an empty catalogue recommends nothing")
    return len(exposed)
