"""`loudest`, compiled: `sottovoce.core.loudest` in the same order of operations."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.loudest import LoudestConstants
from sottovoce.simulation.cpu.epoch import TOGETHER, plug_in
from sottovoce.simulation.cpu.kernels.select import Ranks, find_loud, list_tied, new_ranks, nth_loud
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from sottovoce.simulation.evaluation.kernels import compile_inner, score
from sottovoce.simulation.interface import EpochConstants

Float32 = NDArray[np.float32]
Scratch = tuple[Float32, Float32, NDArray[np.int64], Ranks]
Scores = tuple[np.float32, np.float32, np.float32, np.float32]

_ZERO = np.float32(0)
_ONE = np.float32(1)
PART = 512
"""Rows whose predictions are computed at once: a piece of the table that fits the first cache."""


@compile_inner
def new_scratch(c: EpochConstants, m: LoudestConstants, longest: int) -> Scratch:  # noqa: ARG001
    """All rows of some users; a part of them; who needs them; what says which are loud."""
    factors, rows = m.item_rows_by_factor.shape
    return (
        np.empty((TOGETHER, rows), np.float32),
        np.empty(PART, np.float32),
        np.empty(TOGETHER, np.int64),
        new_ranks(rows, factors),
    )


@compile_inner
def any_loud(user: int, c: EpochConstants, m: LoudestConstants, k: int) -> bool:
    """Whether any of a user's reports looks at the data at all."""
    for j in range(k):
        _, _, coin, _ = report_words(c.seed, c.epoch, user, j)
        if coin >= m.threshold:
            return True
    return False


@compile_inner
def fill_reports(
    numbers: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    X: Float32,
    c: EpochConstants,
    m: LoudestConstants,
    scratch: Scratch,
    out: NDArray[np.uint32],
) -> None:
    """Name k directions for each, every one uniform or uniform among the loud ones."""
    A, part, users, ranks = scratch
    n = 0
    for u in range(X.shape[0]):
        if any_loud(numbers[u], c, m, out.shape[1]):
            items = indices[indptr[u] : indptr[u + 1]]
            history_rows(items, X[u], c.V, np.float32(c.alpha), m, A[u])
            users[n] = u
            n += 1
    subtract_predictions(users[:n], X, m.item_rows_by_factor, part, A)
    for u in range(X.shape[0]):
        name_directions(numbers[u], X[u], c, m, A[u], ranks, out[u])


@compile_inner
def name_directions(
    user: int,
    x: Float32,
    c: EpochConstants,
    m: LoudestConstants,
    a: Float32,
    ranks: Ranks,
    out: NDArray[np.uint32],
) -> None:
    """One user's reports, from their rows."""
    above = np.int64(-1)
    word, _, _, _ = report_words(c.seed, c.epoch, user, out.shape[0])
    offset = np.int64(multiply_high(word, m.n_signed))
    tied, silent, least = np.empty(0, np.int64), False, 0.0
    for j in range(out.shape[0]):
        choice, _, coin, _ = report_words(c.seed, c.epoch, user, j)
        if coin < m.threshold:
            out[j] = np.uint32(multiply_high(choice, m.n_signed))
            continue
        rank = np.int64(multiply_high(choice, np.uint64(m.loud)))
        if above < 0:  # the first one that is asked for
            above, silent = np.int64(0), not (a.any() and x.any())
            if not silent:
                least = find_loud(a, x, m.loud, ranks)
                tied = list_tied(a, x, least, offset, ranks)
                above = np.int64(ranks.ends[-1])
        if silent:
            out[j] = np.uint32((rank - offset) % np.int64(m.n_signed))
        elif rank >= above:
            out[j] = np.uint32(tied[rank - above])
        else:
            out[j] = np.uint32(nth_loud(a, x, least, rank, ranks))


@compile_inner
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


@compile_inner
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


@compile_inner
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


@compile_inner
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


@compile_inner
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


@compile_inner
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


@compile_inner
def add_four_rows(
    c: Float32, row0: Float32, row1: Float32, row2: Float32, row3: Float32, out: Float32
) -> None:
    """`out += c[0] row0`, then `c[1] row1`, and so on: rounded after each."""
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for r in range(out.shape[0]):
        out[r] = (((out[r] + c0 * row0[r]) + c1 * row1[r]) + c2 * row2[r]) + c3 * row3[r]


@compile_inner
def butterflies(first: Float32, second: Float32, third: Float32, fourth: Float32) -> None:
    """Two levels of `butterfly`: of neighbours, then of pairs."""
    for r in range(first.shape[0]):
        s, d = first[r] + second[r], first[r] - second[r]
        t, e = third[r] + fourth[r], third[r] - fourth[r]
        first[r], second[r], third[r], fourth[r] = s + t, d + e, s - t, d - e


@compile_inner
def butterfly(first: Float32, second: Float32) -> None:
    """(u, v) -> (u + v, u - v)."""
    for r in range(first.shape[0]):
        low, high = first[r], second[r]
        first[r], second[r] = low + high, low - high


@compile_inner
def add_scaled_row(c: np.float32, row: Float32, out: Float32) -> None:
    """`out += c row`."""
    for r in range(row.shape[0]):
        out[r] += c * row[r]


plug_in(LoudestConstants, new_scratch, fill_reports, any_loud)
