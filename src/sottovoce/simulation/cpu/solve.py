"""User vectors, compiled: `sottovoce.model.user_vectors` in the same order of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

from sottovoce.model.bounds import MOST_USER_ENTRY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float64 = NDArray[np.float64]


USERS_PER_BLOCK = 64
"""What one thread takes at a time: small enough to share out evenly, large enough to amortise."""


@njit(error_model="numpy")
def add_items(items: NDArray[np.int32], wide: Float64, sums: Float64, right: Float64) -> None:
    """`sum v v^T` (the lower triangle, and some more) and `sum v`, item after item.

    Four items in one pass over `sums`, added one by one. The product of two float32 is exact in
    float64, so nothing is gained by keeping them in a table, which would not fit a cache.
    """
    size, n = right.shape[0], items.shape[0]
    sums[:] = 0.0
    right[:] = 0.0
    t = 0
    while t + 4 <= n:
        v0, v1, v2, v3 = (
            wide[items[t]],
            wide[items[t + 1]],
            wide[items[t + 2]],
            wide[items[t + 3]],
        )
        for i in range(size):
            row = sums[i, : min(i // 4 * 4 + 4, size)]
            a0, a1, a2, a3 = v0[i], v1[i], v2[i], v3[i]
            for j in range(row.shape[0]):
                row[j] = (((row[j] + a0 * v0[j]) + a1 * v1[j]) + a2 * v2[j]) + a3 * v3[j]
            right[i] = (((right[i] + a0) + a1) + a2) + a3
        t += 4
    while t < n:
        v = wide[items[t]]
        for i in range(size):
            for j in range(i + 1):
                sums[i, j] += v[i] * v[j]
            right[i] += v[i]
        t += 1


@njit(error_model="numpy")
def solve_user(
    items: NDArray[np.int32],
    G: Float64,
    wide: Float64,
    alpha: float,
    regularization: float,
    lower: Float64,
    column: Float64,
    solution: Float64,
    x: NDArray[np.float32],
) -> None:
    """Equation (4) for one user, into `x`; `lower`, `column` and `solution` are scratch.

    A vector that is not usable becomes zero, as in `sottovoce.model.bounds.usable`.
    """
    size = x.shape[0]
    add_items(items, wide, lower, solution)
    for i in range(size):
        solution[i] = (1.0 + alpha) * solution[i]
        for j in range(i + 1):
            lower[i, j] = G[i, j] + alpha * lower[i, j]
        lower[i, i] += regularization
    # Column after column, each taken off all that follow: every entry sees the same differences in
    # the same order as in the reference, but neighbours at once.
    for k in range(size):
        lower[k, k] = np.sqrt(lower[k, k])
        for i in range(k + 1, size):
            lower[i, k] /= lower[k, k]
            column[i] = lower[i, k]
        for i in range(k + 1, size):
            factor, row = column[i], lower[i]
            for j in range(k + 1, i + 1):
                row[j] -= factor * column[j]
    for i in range(size):
        for k in range(i):
            solution[i] -= lower[i, k] * solution[k]
        solution[i] /= lower[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            solution[i] -= lower[k, i] * solution[k]
        solution[i] /= lower[i, i]
        x[i] = np.float32(solution[i])
    for i in range(size):
        if not np.abs(x[i]) <= MOST_USER_ENTRY:
            x[:] = np.float32(0)
            break


@njit(parallel=True, cache=True, error_model="numpy")
def solve_users(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    G: Float64,
    wide: Float64,
    alpha: float,
    regularization: float,
    X: NDArray[np.float32],
) -> None:
    """Everybody's vector, into `X`."""
    n, size = X.shape
    for block in prange((n + USERS_PER_BLOCK - 1) // USERS_PER_BLOCK):
        lower = np.empty((size, size), np.float64)
        column, solution = np.empty(size, np.float64), np.empty(size, np.float64)
        for u in range(block * USERS_PER_BLOCK, min(n, (block + 1) * USERS_PER_BLOCK)):
            items = indices[indptr[u] : indptr[u + 1]]
            solve_user(items, G, wide, alpha, regularization, lower, column, solution, X[u])
