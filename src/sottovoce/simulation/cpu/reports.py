"""One user's reports, compiled: `sottovoce.mechanism` in the same order of operations.

Each function fills `out` with the user's k reports and says whether all values were finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.evaluation.kernels import score
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from sottovoce.simulation.cpu.select import (
    GROUP,
    count_groups,
    find_loud,
    list_loud,
    nth_loud,
    settle_tie,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.simulation.cpu.prepared import Prepared

_ONE = np.float32(1)
_ZERO = np.float32(0)
_MINUS_TWO = np.float32(-2)
CACHED_ROWS = 4096


@njit(cache=True, error_model="numpy")
def coordinate_reports(
    user: int,
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    m: Prepared,
    touched: NDArray[np.uint8],
    out: NDArray[np.uint32],
) -> bool:
    """Algorithm 1, k times. `touched` is all zero before and after."""
    for i in items:
        touched[i] = 1
    alpha = np.float32(m.alpha)
    factors = np.uint64(x.shape[0])
    finite = True
    for j in range(out.shape[0]):
        direction, choice, coin, _ = report_words(m.seed, m.epoch, user, j)
        index = multiply_high(direction, m.n_directions)
        item = index // factors
        p = _ONE if touched[item] else _ZERO
        e = (_ONE + alpha * p) * (p - score(x, m.V[item]))
        g = (_MINUS_TWO * e) * x[index - item * factors]
        finite &= np.isfinite(g)
        value = np.float64(min(max(g, -_ONE), _ONE))
        plus = np.float64(choice >> np.uint64(11)) * 2.0**-53 < (1.0 + value) / 2.0
        flip = coin < m.threshold
        out[j] = np.uint32(index << np.uint64(1)) | np.uint32(plus != flip)
    for i in items:
        touched[i] = 0
    return finite


@njit(cache=True, error_model="numpy")
def history_weights(
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    V: NDArray[np.float32],
    item_signs: NDArray[np.float32],
    alpha: np.float32,
    weights: NDArray[np.float32],
) -> None:
    """What touching each item adds to the rotated residual, before H."""
    for t in range(items.shape[0]):
        i = items[t]
        weights[t] = item_signs[i] * ((_ONE + alpha) - alpha * score(x, V[i]))


@njit(cache=True, error_model="numpy")
def user_columns(x: NDArray[np.float32], m: Prepared, b: NDArray[np.float32]) -> bool:
    """`b = H' (t * x)`; false if it is not finite."""
    b[:] = _ZERO
    for f in range(x.shape[0]):
        b[f] = m.factor_signs[f] * x[f]
    half = 1
    while half < m.columns:
        for start in range(0, m.columns, 2 * half):
            for q in range(start, start + half):
                low, high = b[q], b[q + half]
                b[q], b[q + half] = low + high, low - high
        half *= 2
    finite = True
    for q in range(m.columns):
        finite &= np.isfinite(b[q])
    return finite


@njit(cache=True, error_model="numpy")
def sign_table(
    rows: NDArray[np.uint32], first_bit: int, n_bits: int, table: NDArray[np.float32]
) -> None:
    """`table[c, j] = H[rows[j], c << first_bit]`: a row of signs for each part of an item number.

    Two such rows multiplied give the signs of all k directions for an item: no popcount anywhere.
    """
    table[0, :] = _ONE
    for bit in range(n_bits):
        size = 1 << bit
        for j in range(rows.shape[0]):
            odd = (rows[j] >> np.uint32(first_bit + bit)) & np.uint32(1)
            table[size, j] = _ONE - np.float32(2) * np.float32(odd)
        for c in range(1, size):
            for j in range(rows.shape[0]):
                table[size + c, j] = table[c, j] * table[size, j]


@njit(cache=True, error_model="numpy")
def add_rows(
    items: NDArray[np.int32],
    weights: NDArray[np.float32],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    low_bits: int,
    a: NDArray[np.float32],
) -> None:
    """Add every item's weight, with its k signs, to the k sums in `a`."""
    mask = (1 << low_bits) - 1
    for t in range(items.shape[0]):
        i, weight = items[t], weights[t]
        first, second = low[i & mask], high[i >> low_bits]
        for j in range(a.shape[0]):
            a[j] += weight * (first[j] * second[j])


@njit(cache=True, error_model="numpy")
def hadamard_reports(
    user: int,
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    m: Prepared,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    low_bits: int,
    high_bits: int,
    b: NDArray[np.float32],
    a: NDArray[np.float32],
    rows: NDArray[np.uint32],
    weights: NDArray[np.float32],
    out: NDArray[np.uint32],
) -> bool:
    """The sign of k rotated directions, each through the coin."""
    finite = user_columns(x, m, b)
    k = out.shape[0]
    columns = np.uint64(m.columns)
    for j in range(k):
        direction, _, _, _ = report_words(m.seed, m.epoch, user, j)
        rows[j] = np.uint32(multiply_high(direction, m.n_directions) // columns)
    sign_table(rows, 0, low_bits, low)
    sign_table(rows, low_bits, high_bits, high)
    a[:] = _ZERO
    history_weights(items, x, m.V, m.item_signs, np.float32(m.alpha), weights)
    add_rows(items, weights, low, high, low_bits, a)
    for j in range(k):
        direction, choice, coin, _ = report_words(m.seed, m.epoch, user, j)
        index = multiply_high(direction, m.n_directions)
        share = a[j] - score(x, m.item_rows[rows[j]])
        column = b[index - (index // columns) * columns]
        finite &= np.isfinite(share)
        plus = (share > _ZERO) != (column > _ZERO)
        if share == _ZERO or column == _ZERO:
            plus = choice >> np.uint64(63) == np.uint64(1)
        flip = coin < m.threshold
        out[j] = np.uint32(index << np.uint64(1)) | np.uint32(plus != flip)
    return finite


@njit(cache=True, error_model="numpy")
def all_rows(
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    weights: NDArray[np.float32],
    block_signs: NDArray[np.float32],
    item_rows: NDArray[np.float32],
    scratch: NDArray[np.float32],
    a: NDArray[np.float32],
) -> None:
    """`a`, every rotated row of the residual: `Rotation.all_rows` for one user."""
    n_rows, block = a.shape[0], block_signs.shape[0]
    a[:] = _ZERO
    for t in range(items.shape[0]):
        i, weight = items[t], weights[t]
        column = i & (block - 1)
        signs = block_signs[column]
        part = a[i - column : i - column + block]
        for r in range(block):
            part[r] += weight * signs[r]
    transform_blocks(block, a)
    for start in range(0, n_rows, scratch.shape[0]):
        stop = start + scratch.shape[0]
        predict_rows(x, item_rows, start, scratch)
        part = a[start:stop]
        for r in range(part.shape[0]):
            part[r] -= scratch[r]


@njit(cache=True, error_model="numpy")
def transform_blocks(block: int, a: NDArray[np.float32]) -> None:
    """Butterflies between whole blocks; first within parts that fit the first-level cache."""
    part = min(a.shape[0], CACHED_ROWS)
    for start in range(0, a.shape[0], part):
        transform_levels(block, a[start : start + part])
    transform_levels(part, a)


@njit(cache=True, error_model="numpy")
def transform_levels(half: int, a: NDArray[np.float32]) -> None:
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


@njit(cache=True, error_model="numpy")
def predict_rows(
    x: NDArray[np.float32], item_rows: NDArray[np.float32], start: int, out: NDArray[np.float32]
) -> None:
    """`out = x . rows` from `start` on, factor after factor, four of them in one pass."""
    # Sliced here: numba takes slices of a slice for strided, and then LLVM does not vectorise.
    stop = start + out.shape[0]
    scale_row(x[0], item_rows[0, start:stop], out)
    f = 1
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


@njit(cache=True)
def add_four_rows(
    c: NDArray[np.float32],
    row0: NDArray[np.float32],
    row1: NDArray[np.float32],
    row2: NDArray[np.float32],
    row3: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """`out += c[0] row0`, then `c[1] row1`, and so on: rounded after each."""
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for r in range(out.shape[0]):
        out[r] = (((out[r] + c0 * row0[r]) + c1 * row1[r]) + c2 * row2[r]) + c3 * row3[r]


@njit(cache=True)
def butterflies(
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    third: NDArray[np.float32],
    fourth: NDArray[np.float32],
) -> None:
    """Two levels of `butterfly`: of neighbours, then of pairs."""
    for r in range(first.shape[0]):
        s, d = first[r] + second[r], first[r] - second[r]
        t, e = third[r] + fourth[r], third[r] - fourth[r]
        first[r], second[r], third[r], fourth[r] = s + t, d + e, s - t, d - e


@njit(cache=True)
def butterfly(first: NDArray[np.float32], second: NDArray[np.float32]) -> None:
    """(u, v) -> (u + v, u - v)."""
    for r in range(first.shape[0]):
        low, high = first[r], second[r]
        first[r], second[r] = low + high, low - high


@njit(cache=True)
def scale_row(c: np.float32, row: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """`out = c row`."""
    for r in range(row.shape[0]):
        out[r] = c * row[r]


@njit(cache=True)
def add_scaled_row(c: np.float32, row: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """`out += c row`."""
    for r in range(row.shape[0]):
        out[r] += c * row[r]


@njit(cache=True)
def log2(n: int) -> int:
    """Of a power of two."""
    bits = 0
    while 1 << bits < n:
        bits += 1
    return bits


@njit(cache=True, error_model="numpy")
def any_loud(user: int, m: Prepared, k: int) -> bool:
    """Whether any of a user's reports looks at the data at all."""
    for j in range(k):
        _, _, coin, _ = report_words(m.seed, m.epoch, user, j)
        if coin >= m.threshold:
            return True
    return False


@njit(cache=True, error_model="numpy")
def loudest_reports(
    user: int,
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    m: Prepared,
    b: NDArray[np.float32],
    a: NDArray[np.float32],
    scratch: NDArray[np.float32],
    loud: NDArray[np.int32],
    starts: NDArray[np.int32],
    weights: NDArray[np.float32],
    out: NDArray[np.uint32],
) -> bool:
    """Name k rows, each uniform or uniform among the loud ones."""
    k = out.shape[0]
    finite = user_columns(x, m, b)
    signed_rows = np.uint64(2 * m.rows)
    word, _, _, _ = report_words(m.seed, m.epoch, user, k)
    mask = np.int64(multiply_high(word, signed_rows))
    listed, threshold, bits = True, np.uint32(0), a.view(np.uint32)
    # A device does this every time; here, people whose reports are all uniform are skipped.
    if any_loud(user, m, k):
        history_weights(items, x, m.V, m.item_signs, np.float32(m.alpha), weights)
        all_rows(items, x, weights, m.block_signs, m.item_rows_by_factor, scratch, a)
        threshold, found, all_finite = find_loud(a, m.loud, m.guess, m.density)
        if not all_finite:
            out[:] = 0
            return False
        # One by one while reports are few; a list once they are many.
        listed = not found or k * GROUP > m.rows
        if not found:
            settle_tie(a, m.loud, mask, threshold, loud)
        elif listed:
            list_loud(a, threshold, loud)
        else:
            count_groups(a, threshold, starts)
    for j in range(k):
        direction, choice, coin, _ = report_words(m.seed, m.epoch, user, j)
        column = np.int64(multiply_high(direction, np.uint64(m.columns)))
        if coin < m.threshold:
            named = np.int64(multiply_high(choice, signed_rows))
        else:
            rank = np.int64(multiply_high(choice, np.uint64(m.loud)))
            if b[column] == _ZERO:
                named = rank ^ mask
            else:
                row = np.int64(loud[rank]) if listed else nth_loud(bits, threshold, starts, rank)
                named = row ^ np.int64(b[column] > _ZERO)
        index = (named >> 1) * m.columns + column
        out[j] = np.uint32(index << 1 | (named & 1))
    return finite
