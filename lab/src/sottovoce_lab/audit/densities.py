"""`Loudest.densities` of many people, compiled."""

from math import exp

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sottovoce.core import Histories, Loudest
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.kernels.select import find_loud, list_tied, new_ranks, nth_loud

Float32 = NDArray[np.float32]


def loudest_densities(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float32:
    found = np.full((histories.n_users, mechanism.n_signed), mechanism.gamma, np.float32)
    rows = np.ascontiguousarray(mechanism.blocks.compute_rows(V, X, histories))
    _fill_loud(rows, X, mechanism.loud, np.float32(mechanism.gamma * exp(mechanism.epsilon)), found)
    return found


@njit(error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _fill_loud(rows: Float32, X: Float32, loud: int, value: np.float32, out: Float32) -> None:
    ranks = new_ranks(rows.shape[1], X.shape[1])
    for u in range(X.shape[0]):
        a, x = rows[u], X[u]
        if not (a.any() and x.any()):
            out[u] = 1
            continue
        least = find_loud(a, x, loud, ranks)
        tied, above = list_tied(a, x, least, 0, ranks), ranks.ends[-1]
        for rank in range(loud):
            if rank < above:
                out[u, nth_loud(a, x, least, rank, ranks)] = value
            else:
                out[u, tied[rank - above]] = value


drop_stale(_fill_loud)
