"""`loudest`, compiled: `sottovoce.mechanism.loudest` in the same order of operations."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, cast

import numpy as np
from numba import njit

from sottovoce.mechanism.loudest import LoudestConstants
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.epoch import TOGETHER, plug_in_groups
from sottovoce.simulation.cpu.kernels.rows import history_rows, subtract_predictions
from sottovoce.simulation.cpu.kernels.select import (
    Ranks,
    find_loud,
    list_tied,
    new_ranks,
    nth_loud,
)
from sottovoce.simulation.cpu.philox import multiply_high, report_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Loudest, Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.preparation import EpochConstants

    Float32 = NDArray[np.float32]
    Scratch = tuple[Float32, Float32, NDArray[np.int64], Ranks]


PART = 512
"""Rows whose predictions are computed at once: a piece of the table that fits the first cache."""


@njit
def new_scratch(c: EpochConstants, m: LoudestConstants, longest: int) -> Scratch:  # noqa: ARG001
    """All rows of some users; a part of them; who needs them; what says which are loud."""
    factors, rows = m.item_rows_by_factor.shape
    return (
        np.empty((TOGETHER, rows), np.float32),
        np.empty(PART, np.float32),
        np.empty(TOGETHER, np.int64),
        new_ranks(rows, factors),
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


@njit(error_model="numpy")
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


def densities(mechanism: Mechanism, V: Float32, X: Float32, histories: Histories) -> Float32:
    """`Loudest.densities`, for who needs them of many people."""
    loudest = cast("Loudest", mechanism)
    found = np.full((histories.n_users, loudest.n_signed), loudest.gamma, np.float32)
    rows = np.ascontiguousarray(loudest.blocks.all_rows(V, X, histories))
    _fill_loud(rows, X, loudest.loud, np.float32(loudest.gamma * exp(loudest.epsilon)), found)
    return found


@njit(error_model="numpy", cache=True)
def _fill_loud(rows: Float32, X: Float32, loud: int, value: np.float32, out: Float32) -> None:
    ranks = new_ranks(rows.shape[1], X.shape[1])
    for u in range(X.shape[0]):
        a, x = rows[u], X[u]
        if not (a.any() and x.any()):
            out[u] = 1
            continue
        least = find_loud(a, x, loud, ranks)
        tied, above = list_tied(a, x, least, 0, ranks), ranks.ends[-1]
        for rank in range(loud):
            if rank < above:
                out[u, nth_loud(a, x, least, rank, ranks)] = value
            else:
                out[u, tied[rank - above]] = value


plug_in_groups(LoudestConstants, new_scratch, fill_reports, any_loud)
drop_stale(_fill_loud)
