"""One federated epoch of everybody, on all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import get_thread_id, njit, prange

from sottovoce.mechanism.rotation import BLOCK_BITS
from sottovoce.simulation.cpu.prepared import COORDINATE, HADAMARD, LOUDEST
from sottovoce.simulation.cpu.reports import (
    coordinate_reports,
    hadamard_reports,
    log2,
    loudest_reports,
)
from sottovoce.simulation.cpu.solve import USERS_PER_BLOCK, solve_user

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.simulation.cpu.prepared import Prepared


@njit(parallel=True, cache=True, error_model="numpy")
def run_epoch(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    first_user: int,
    m: Prepared,
    sums: NDArray[np.int32],
    kept: NDArray[np.uint32],
) -> int:
    """Solve and report for every user; returns how many had values that are not finite.

    Signs are added to `sums[thread]`; integers, so the order of users changes nothing. Reports are
    written to `kept` (N x k) too, unless it is empty.
    """
    n, k, size = indptr.shape[0] - 1, m.reports, m.V.shape[1]
    row_bits = log2(m.rows)
    low_bits = min(BLOCK_BITS, row_bits)
    longest = np.max(np.diff(indptr)) if n else 0
    broken = 0
    for block in prange((n + USERS_PER_BLOCK - 1) // USERS_PER_BLOCK):
        own_sums = sums[get_thread_id()]
        equations = np.empty(m.table.shape[1], np.float64)
        lower = np.empty((size, size), np.float64)
        solution = np.empty(size, np.float64)
        x = np.empty(size, np.float32)
        out = np.empty(k, np.uint32)
        weights = np.empty(longest, np.float32)
        b = np.empty(m.columns, np.float32)
        touched = np.zeros(m.V.shape[0] if m.kind == COORDINATE else 0, np.uint8)
        is_hadamard, is_loudest = int(m.kind == HADAMARD), int(m.kind == LOUDEST)
        low = np.empty((is_hadamard << low_bits, k), np.float32)
        high = np.empty((is_hadamard << (row_bits - low_bits), k), np.float32)
        rows = np.empty(is_hadamard * k, np.uint32)
        a = np.empty(is_hadamard * k + is_loudest * m.rows, np.float32)
        scratch = np.empty(is_loudest * min(m.rows, 1024), np.float32)
        starts = np.empty(is_loudest * max(m.rows // 64, 1), np.int32)
        loud = np.empty(is_loudest * (m.rows + 1), np.int32)
        for u in range(block * USERS_PER_BLOCK, min(n, (block + 1) * USERS_PER_BLOCK)):
            items = indices[indptr[u] : indptr[u + 1]]
            user = first_user + u
            solve_user(
                items, m.G, m.table, m.alpha, m.regularization, equations, lower, solution, x
            )
            if m.kind == COORDINATE:
                finite = coordinate_reports(user, items, x, m, touched, out)
            elif m.kind == HADAMARD:
                finite = hadamard_reports(
                    user,
                    items,
                    x,
                    m,
                    low,
                    high,
                    low_bits,
                    row_bits - low_bits,
                    b,
                    a,
                    rows,
                    weights,
                    out,
                )
            else:
                finite = loudest_reports(
                    user, items, x, m, b, a, scratch, loud, starts, weights, out
                )
            for f in range(size):
                finite &= np.isfinite(x[f])
            broken += int(not finite)
            for j in range(k):
                own_sums[out[j] >> np.uint32(1)] += np.int32(2) * np.int32(out[j] & 1) - np.int32(1)
            if kept.shape[0]:
                kept[u] = out
    return broken
