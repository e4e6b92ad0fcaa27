"""`loudest`, compiled: `sottovoce.mechanism.loudest` in the same order of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.mechanism.loudest import LoudestConstants
from sottovoce.mechanism.rotation import BLOCK_BITS
from sottovoce.mechanism.walsh import next_power_of_two
from sottovoce.simulation.cpu.epoch import plug_in
from sottovoce.simulation.cpu.kernels.rotated import history_weights, user_columns
from sottovoce.simulation.cpu.kernels.rows import all_rows
from sottovoce.simulation.cpu.kernels.select import (
    GROUP,
    count_groups,
    find_loud,
    list_loud,
    nth_loud,
    settle_tie,
)
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from sottovoce.simulation.cpu.work import Work, common_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.preparation import EpochConstants

    Float32 = NDArray[np.float32]
    Int32 = NDArray[np.int32]
    Scratch = tuple[Float32, Float32, Int32, Int32, Float32, Float32]


_ZERO = np.float32(0)
PART = 1024
"""Rows whose predictions are computed at once."""


@njit
def new_scratch(c: EpochConstants, m: LoudestConstants, longest: int) -> Scratch:  # noqa: ARG001
    """All rows and a part of them, the loud ones, the groups, the columns, a history's weights."""
    return (
        np.empty(m.rows, np.float32),
        np.empty(min(m.rows, PART), np.float32),
        np.empty(m.rows + 1, np.int32),
        np.empty(max(m.rows // GROUP, 1), np.int32),
        np.empty(m.columns, np.float32),
        np.empty(longest, np.float32),
    )


@njit(error_model="numpy")
def any_loud(user: int, c: EpochConstants, m: LoudestConstants, k: int) -> bool:
    """Whether any of a user's reports looks at the data at all."""
    for j in range(k):
        _, _, coin, _ = report_words(c.seed, c.epoch, user, j)
        if coin >= m.threshold:
            return True
    return False


@njit(error_model="numpy")
def fill_reports(
    user: int,
    items: Int32,
    x: Float32,
    c: EpochConstants,
    m: LoudestConstants,
    scratch: Scratch,
    out: NDArray[np.uint32],
) -> None:
    """Name k rows, each uniform or uniform among the loud ones."""
    a, part, loud, starts, b, weights = scratch
    k = out.shape[0]
    user_columns(x, m, b)
    signed_rows = np.uint64(2 * m.rows)
    word, _, _, _ = report_words(c.seed, c.epoch, user, k)
    mask = np.int64(multiply_high(word, signed_rows))
    listed, threshold, bits = True, np.uint32(0), a.view(np.uint32)
    # A device does this every time; here, people whose reports are all uniform are skipped.
    if any_loud(user, c, m, k):
        history_weights(items, x, c.V, m.item_signs, np.float32(c.alpha), weights)
        all_rows(items, x, weights, m.block_signs, m.item_rows_by_factor, part, a)
        threshold, found = find_loud(a, m.loud, m.guess, m.density)
        # One by one while reports are few; a list once they are many.
        listed = not found or k * GROUP > m.rows
        if not found:
            settle_tie(a, m.loud, mask, threshold, loud)
        elif listed:
            list_loud(a, threshold, loud)
        else:
            count_groups(a, threshold, starts)
    for j in range(k):
        direction, choice, coin, _ = report_words(c.seed, c.epoch, user, j)
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


def work(histories: Histories, mechanism: Mechanism, reports: int) -> Work:
    entries, users = histories.n_interactions, histories.n_users
    rows = next_power_of_two(histories.n_items)
    block = min(1 << BLOCK_BITS, rows)
    levels = (rows // block - 1).bit_length()
    return common_work(histories, mechanism, reports, draws=reports + 1).plus(
        table_rows=entries - users * reports,
        additions=entries * block,
        butterflies=users * levels * rows // 2,
        dense=users * rows * mechanism.shape.factors,
    )


plug_in(LoudestConstants, new_scratch, fill_reports)
