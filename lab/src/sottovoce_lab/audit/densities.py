"""`Loudest.densities` of many people, compiled."""

from math import exp

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sottovoce.core import Histories, Loudest
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.kernels.select import (
    find_loud,
    get_nth_loud,
    list_tied,
    make_selection,
)

Float32 = NDArray[np.float32]


def loudest_densities(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float32:
    found = np.full((histories.n_users, mechanism.n_signed), mechanism.gamma, np.float32)
    rows = np.ascontiguousarray(mechanism.blocks.compute_rows(V, X, histories))
    _fill_loud(rows, X, mechanism.loud, np.float32(mechanism.gamma * exp(mechanism.epsilon)), found)
    return found


@njit(error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _fill_loud(rows: Float32, X: Float32, loud: int, value: np.float32, out: Float32) -> None:
    selection = make_selection(rows.shape[1], X.shape[1])
    for u in range(X.shape[0]):
        a, x = rows[u], X[u]
        if not (a.any() and x.any()):
            out[u] = 1
            continue
        threshold = find_loud(a, x, loud, selection)
        tied, above = list_tied(a, x, threshold, 0, selection), selection.group_ends[-1]
        for rank in range(loud):
            if rank < above:
                out[u, get_nth_loud(a, x, threshold, rank, selection)] = value
            else:
                out[u, tied[rank - above]] = value


drop_stale(_fill_loud)
