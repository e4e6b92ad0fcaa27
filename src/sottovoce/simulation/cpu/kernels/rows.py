"""Every row of one user's residual: `Blocks.all_rows`, in the same order of sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.evaluation.kernels import score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism.loudest import LoudestConstants

    Float32 = NDArray[np.float32]
    Scores = tuple[np.float32, np.float32, np.float32, np.float32]

_ZERO = np.float32(0)
_ONE = np.float32(1)


@njit(error_model="numpy")
def history_rows(
    items: NDArray[np.int32],
    x: Float32,
    V: Float32,
    alpha: np.float32,
    m: LoudestConstants,
    a: Float32,
) -> None:
    """What touched items add, item after item, into `a`."""
    n_rows, inner = a.shape[0], m.inner_signs.shape[0]
    a[:] = _ZERO
    t = 0
    while t < items.shape[0]:
        if t + 4 <= items.shape[0]:
            predicted = four_scores(x, V, items[t : t + 4])
            for q in range(4):
                add_item(items[t + q], predicted[q], alpha, m, a)
            t += 4
        else:
            add_item(items[t], score(x, V[items[t]]), alpha, m, a)
            t += 1
    if inner < m.size:
        for start in range(0, n_rows, m.size):
            transform_levels(inner, a[start : start + m.size])


@njit(error_model="numpy")
def add_item(
    item: int, predicted: np.float32, alpha: np.float32, m: LoudestConstants, a: Float32
) -> None:
    """What one touched item adds to the rows of its block, or of a part of it."""
    inner = m.inner_signs.shape[0]
    weight = m.signs[item] * ((_ONE + alpha) - alpha * predicted)
    place = m.places[item]
    column = place & (inner - 1)
    signs = m.inner_signs[column]
    part = a[place - column : place - column + inner]
    for r in range(inner):
        part[r] += weight * signs[r]


@njit(error_model="numpy")
def four_scores(x: Float32, V: Float32, items: NDArray[np.int32]) -> Scores:
    """`score` of four items, each in its own order of sums: a processor adds four at a time."""
    row0, row1, row2, row3 = V[items[0]], V[items[1]], V[items[2]], V[items[3]]
    s0, s1, s2, s3 = x[0] * row0[0], x[0] * row1[0], x[0] * row2[0], x[0] * row3[0]
    for f in range(1, x.shape[0]):
        s0 += x[f] * row0[f]
        s1 += x[f] * row1[f]
        s2 += x[f] * row2[f]
        s3 += x[f] * row3[f]
    return s0, s1, s2, s3


@njit(error_model="numpy")
def subtract_predictions(
    users: NDArray[np.int64], X: Float32, item_rows: Float32, some: Float32, A: Float32
) -> None:
    """Take everybody's part off the rows of these users: a piece of the table for all of them."""
    n_rows = item_rows.shape[1]
    for start in range(0, n_rows, some.shape[0]):
        predicted = some[: min(n_rows - start, some.shape[0])]
        for u in users:
            predict_rows(X[u], item_rows, start, predicted)
            part = A[u, start : start + predicted.shape[0]]
            for r in range(part.shape[0]):
                part[r] -= predicted[r]


@njit(error_model="numpy")
def transform_levels(half: int, a: Float32) -> None:
    """Every level from `half` up, two in one pass over memory where there are two."""
    n_rows = a.shape[0]
    while 2 * half < n_rows:
        for start in range(0, n_rows, 4 * half):
            four = a[start : start + 4 * half]
            butterflies(
                four[:half], four[half : 2 * half], four[2 * half : 3 * half], four[3 * half :]
            )
        half *= 4
    if half < n_rows:
        butterfly(a[:half], a[half:])


@njit(error_model="numpy")
def predict_rows(x: Float32, item_rows: Float32, start: int, out: Float32) -> None:
    """`out = x . rows` from `start` on, factor after factor, four of them in one pass."""
    # Sliced here: numba takes slices of a slice for strided, and then LLVM does not vectorise.
    stop = start + out.shape[0]
    out[:] = _ZERO
    f = 0
    while f + 4 <= x.shape[0]:
        add_four_rows(
            x[f : f + 4],
            item_rows[f, start:stop],
            item_rows[f + 1, start:stop],
            item_rows[f + 2, start:stop],
            item_rows[f + 3, start:stop],
            out,
        )
        f += 4
    while f < x.shape[0]:
        add_scaled_row(x[f], item_rows[f, start:stop], out)
        f += 1


@njit
def add_four_rows(
    c: Float32, row0: Float32, row1: Float32, row2: Float32, row3: Float32, out: Float32
) -> None:
    """`out += c[0] row0`, then `c[1] row1`, and so on: rounded after each."""
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for r in range(out.shape[0]):
        out[r] = (((out[r] + c0 * row0[r]) + c1 * row1[r]) + c2 * row2[r]) + c3 * row3[r]


@njit
def butterflies(first: Float32, second: Float32, third: Float32, fourth: Float32) -> None:
    """Two levels of `butterfly`: of neighbours, then of pairs."""
    for r in range(first.shape[0]):
        s, d = first[r] + second[r], first[r] - second[r]
        t, e = third[r] + fourth[r], third[r] - fourth[r]
        first[r], second[r], third[r], fourth[r] = s + t, d + e, s - t, d - e


@njit
def butterfly(first: Float32, second: Float32) -> None:
    """(u, v) -> (u + v, u - v)."""
    for r in range(first.shape[0]):
        low, high = first[r], second[r]
        first[r], second[r] = low + high, low - high


@njit
def add_scaled_row(c: np.float32, row: Float32, out: Float32) -> None:
    """`out += c row`."""
    for r in range(row.shape[0]):
        out[r] += c * row[r]
