"""User vectors, compiled: `sottovoce.model.user_vectors` in the same order of operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from sottovoce.model.bounds import MOST_USER_ENTRY
from sottovoce.simulation.cpu.tiles import SIDE, add_tile, padded

Float64 = NDArray[np.float64]


USERS_PER_BLOCK = 64
"""What one thread takes at a time: small enough to share out evenly, large enough to amortise."""


ITEMS_PER_BLOCK = 64
"""Rows of V that are read, widened and added up before the next: they stay in the nearest cache."""


class Room(NamedTuple):
    """Memory for one user's equations, used again for the next."""

    rows: Float64
    lower: Float64
    column: Float64
    solution: Float64


@njit
def new_room(size: int) -> Room:
    """For vectors of so many factors."""
    width = padded(size)
    rows = np.zeros((ITEMS_PER_BLOCK, width), np.float64)
    rows[:, size : size + 1] = 1.0  # times which a row is itself
    return Room(
        rows,
        np.empty((width, width), np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
    )


@njit(error_model="numpy")
def add_items(
    items: NDArray[np.int32], V: NDArray[np.float32], rows: Float64, sums: Float64, right: Float64
) -> None:
    """`sum v v^T` (the lower triangle, and some more) and `sum v`, item after item.

    The product of two float32 is exact in float64, so nothing is gained by keeping products in a
    table, which would not fit a cache. Where rows are padded, the first of the padding is 1, and
    its products are `v` itself.
    """
    size, width = right.shape[0], rows.shape[1]
    used = min(size + 1, width)
    sums[:] = 0.0
    right[:] = 0.0
    for start in range(0, items.shape[0], ITEMS_PER_BLOCK):
        n = min(ITEMS_PER_BLOCK, items.shape[0] - start)
        for t in range(n):
            v, row = V[items[start + t]], rows[t]
            for i in range(size):
                row[i] = v[i]
        if used == size:
            for t in range(n):
                for i in range(size):
                    right[i] += rows[t, i]
        for i in range(0, width, SIDE):
            for j in range(0, i + SIDE, SIDE):
                add_tile(rows, n, i, j, min(SIDE, used - i), sums)
    if used > size:
        right[:] = sums[size, :size]


@njit(error_model="numpy")
def solve_user(
    items: NDArray[np.int32],
    V: NDArray[np.float32],
    G: Float64,
    alpha: float,
    regularization: float,
    room: Room,
    x: NDArray[np.float32],
) -> None:
    """Equation (4) for one user, into `x`.

    A vector that is not usable becomes zero, as in `sottovoce.model.bounds.usable`.
    """
    rows, lower, column, solution = room
    size = x.shape[0]
    add_items(items, V, rows, lower, solution)
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
    V: NDArray[np.float32],
    G: Float64,
    alpha: float,
    regularization: float,
    X: NDArray[np.float32],
) -> None:
    """Everybody's vector, into `X`."""
    n, size = X.shape
    for block in prange((n + USERS_PER_BLOCK - 1) // USERS_PER_BLOCK):
        room = new_room(size)
        for u in range(block * USERS_PER_BLOCK, min(n, (block + 1) * USERS_PER_BLOCK)):
            items = indices[indptr[u] : indptr[u + 1]]
            solve_user(items, V, G, alpha, regularization, room, X[u])
