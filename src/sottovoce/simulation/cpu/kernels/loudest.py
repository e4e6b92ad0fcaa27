"""`loudest`, compiled: `sottovoce.mechanism.loudest` in the same order of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numba import njit

from sottovoce.mechanism.blocks import ONE_BY_ONE
from sottovoce.mechanism.loudest import LoudestConstants
from sottovoce.simulation.cpu.epoch import plug_in
from sottovoce.simulation.cpu.kernels.rows import all_rows
from sottovoce.simulation.cpu.kernels.select import (
    Sorted,
    find_loud,
    list_tied,
    new_sorted,
    row_at,
    signed,
)
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from sottovoce.simulation.cpu.work import Work, common_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Loudest, Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.preparation import EpochConstants

    Float32 = NDArray[np.float32]
    Scratch = tuple[Float32, Float32, Sorted]


PART = 1024
"""Rows whose predictions are computed at once."""


@njit
def new_scratch(c: EpochConstants, m: LoudestConstants, longest: int) -> Scratch:  # noqa: ARG001
    """All rows, a part of them, and their order."""
    factors, rows = m.item_rows_by_factor.shape
    return np.empty(rows, np.float32), np.empty(PART, np.float32), new_sorted(rows, factors)


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
    items: NDArray[np.int32],
    x: Float32,
    c: EpochConstants,
    m: LoudestConstants,
    scratch: Scratch,
    out: NDArray[np.uint32],
) -> None:
    """Name k directions, each uniform or uniform among the loud ones."""
    a, part, rows = scratch
    k, above = out.shape[0], 0
    word, _, _, _ = report_words(c.seed, c.epoch, user, k)
    offset = np.int64(multiply_high(word, m.n_signed))
    tied = np.empty(0, np.int64)
    # A device does this every time; here, people whose reports are all uniform are skipped.
    if any_loud(user, c, m, k):
        all_rows(items, x, c.V, np.float32(c.alpha), m, part, a)
        least = find_loud(a, x, m.loud, rows)
        tied = list_tied(a, x, least, offset, rows)
        above = np.int64(rows.steps.sum())
    for j in range(k):
        choice, _, coin, _ = report_words(c.seed, c.epoch, user, j)
        if coin < m.threshold:
            out[j] = np.uint32(multiply_high(choice, m.n_signed))
            continue
        rank = np.int64(multiply_high(choice, np.uint64(m.loud)))
        if rank >= above:
            out[j] = np.uint32(tied[rank - above])
            continue
        f = 0
        while rank >= rows.steps[f]:
            rank -= rows.steps[f]
            f += 1
        out[j] = np.uint32(signed(a, x, row_at(a, rows, rank), f))


def work(histories: Histories, mechanism: Mechanism, reports: int) -> Work:
    blocks = cast("Loudest", mechanism).blocks
    entries, users = histories.n_interactions, histories.n_users
    rows, inner = blocks.rows, min(blocks.size, ONE_BY_ONE)
    levels = (blocks.size // inner - 1).bit_length()
    return common_work(histories, mechanism, reports, draws=reports + 1).plus(
        table_rows=entries - users * reports,
        additions=entries * inner,
        butterflies=users * levels * rows // 2,
        dense=users * rows * mechanism.shape.factors,
    )


plug_in(LoudestConstants, new_scratch, fill_reports)
