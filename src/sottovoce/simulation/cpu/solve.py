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
def solve_user(
    items: NDArray[np.int32],
    G: Float64,
    table: Float64,
    alpha: float,
    regularization: float,
    sums: Float64,
    lower: Float64,
    solution: Float64,
    x: NDArray[np.float32],
) -> None:
    """Equation (4) for one user, into `x`; `sums`, `lower` and `solution` are scratch.

    A vector that is not usable becomes zero, as in `sottovoce.model.bounds.usable`.
    """
    size = x.shape[0]
    pairs = size * (size + 1) // 2
    sums[:] = 0.0
    for entry in range(items.shape[0]):
        row = table[items[entry]]
        for c in range(sums.shape[0]):
            sums[c] += row[c]
    at = 0
    for i in range(size):
        solution[i] = (1.0 + alpha) * sums[pairs + i]
        for j in range(i + 1):
            lower[i, j] = G[i, j] + alpha * sums[at]
            at += 1
        lower[i, i] += regularization
    for j in range(size):
        for i in range(j, size):
            for k in range(j):
                lower[i, j] -= lower[i, k] * lower[j, k]
            if i == j:
                lower[j, j] = np.sqrt(lower[j, j])
            else:
                lower[i, j] /= lower[j, j]
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
    table: Float64,
    alpha: float,
    regularization: float,
    X: NDArray[np.float32],
) -> None:
    """Everybody's vector, into `X`."""
    n, size = X.shape
    for block in prange((n + USERS_PER_BLOCK - 1) // USERS_PER_BLOCK):
        sums = np.empty(table.shape[1], np.float64)
        lower = np.empty((size, size), np.float64)
        solution = np.empty(size, np.float64)
        for u in range(block * USERS_PER_BLOCK, min(n, (block + 1) * USERS_PER_BLOCK)):
            items = indices[indptr[u] : indptr[u + 1]]
            solve_user(items, G, table, alpha, regularization, sums, lower, solution, X[u])
