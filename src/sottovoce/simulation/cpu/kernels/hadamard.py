"""`hadamard`, compiled: `sottovoce.mechanism.hadamard` in the same order of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.evaluation.kernels import score
from sottovoce.mechanism.hadamard import HadamardConstants
from sottovoce.mechanism.rotation import BLOCK_BITS
from sottovoce.simulation.cpu.epoch import plug_in
from sottovoce.simulation.cpu.kernels.rotated import history_weights, log2, user_columns
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from sottovoce.simulation.cpu.work import Work, common_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.preparation import EpochConstants

    Float32 = NDArray[np.float32]
    Scratch = tuple[Float32, Float32, NDArray[np.uint32], Float32, Float32, Float32]
    UInt32 = NDArray[np.uint32]

_ONE = np.float32(1)
_ZERO = np.float32(0)


@njit
def new_scratch(c: EpochConstants, m: HadamardConstants, longest: int) -> Scratch:
    """Two tables of signs, the k rows and their sums, the columns, the weights of a history."""
    k, low = c.reports, min(m.rows, 1 << BLOCK_BITS)
    return (
        np.empty((low, k), np.float32),
        np.empty((m.rows // low, k), np.float32),
        np.empty(k, np.uint32),
        np.empty(k, np.float32),
        np.empty(m.columns, np.float32),
        np.empty(longest, np.float32),
    )


@njit(error_model="numpy")
def sign_table(rows: UInt32, first_bit: int, n_bits: int, table: Float32) -> None:
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


@njit(error_model="numpy")
def add_rows(
    items: NDArray[np.int32],
    weights: Float32,
    low: Float32,
    high: Float32,
    low_bits: int,
    a: Float32,
) -> None:
    """Add every item's weight, with its k signs, to the k sums in `a`."""
    mask = (1 << low_bits) - 1
    for t in range(items.shape[0]):
        i, weight = items[t], weights[t]
        first, second = low[i & mask], high[i >> low_bits]
        for j in range(a.shape[0]):
            a[j] += weight * (first[j] * second[j])


@njit(error_model="numpy")
def fill_reports(
    user: int,
    items: NDArray[np.int32],
    x: Float32,
    c: EpochConstants,
    m: HadamardConstants,
    scratch: Scratch,
    out: UInt32,
) -> None:
    """The sign of k rotated directions, each through the coin."""
    low, high, rows, a, b, weights = scratch
    low_bits, high_bits = log2(low.shape[0]), log2(high.shape[0])
    user_columns(x, m, b)
    k = out.shape[0]
    columns = np.uint64(m.columns)
    for j in range(k):
        direction, _, _, _ = report_words(c.seed, c.epoch, user, j)
        rows[j] = np.uint32(multiply_high(direction, c.n_directions) // columns)
    sign_table(rows, 0, low_bits, low)
    sign_table(rows, low_bits, high_bits, high)
    a[:] = _ZERO
    history_weights(items, x, c.V, m.item_signs, np.float32(c.alpha), weights)
    add_rows(items, weights, low, high, low_bits, a)
    for j in range(k):
        direction, choice, coin, _ = report_words(c.seed, c.epoch, user, j)
        index = multiply_high(direction, c.n_directions)
        share = a[j] - score(x, m.item_rows[rows[j]])
        column = b[index - (index // columns) * columns]
        plus = (share > _ZERO) != (column > _ZERO)
        if share == _ZERO or column == _ZERO:
            plus = choice >> np.uint64(63) == np.uint64(1)
        flip = coin < m.threshold
        out[j] = np.uint32(index << np.uint64(1)) | np.uint32(plus != flip)


def work(histories: Histories, mechanism: Mechanism, reports: int) -> Work:
    entries = histories.n_interactions
    return common_work(histories, mechanism, reports).plus(
        table_rows=entries, additions=entries * reports
    )


plug_in(HadamardConstants, new_scratch, fill_reports)
