"""The compiled kernel of `sottovoce.core.loudest`, with the same order of operations.

A person's gradient in all directions is proportional to `-a x^T`. Here `a` has one number for each
row of `item_rows_by_factor` (called the person's rows), and x is the user vector.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.loudest import LoudestConstants
from sottovoce.simulation.cpu.epoch import USERS_PER_FILL, plug_in
from sottovoce.simulation.cpu.kernels.select import (
    Selection,
    find_loud,
    get_nth_loud,
    list_tied,
    make_selection,
)
from sottovoce.simulation.cpu.philox import draw_report_words, multiply_high
from sottovoce.simulation.evaluation.kernels import compile_inner, score
from sottovoce.simulation.interface import EpochConstants

Float32 = NDArray[np.float32]
Scratch = tuple[Float32, Float32, NDArray[np.int64], Selection]
Scores = tuple[np.float32, np.float32, np.float32, np.float32]

# Python numbers would turn float32 arithmetic into float64.
_ZERO_FLOAT = np.float32(0)
_ONE_FLOAT = np.float32(1)
# Number of rows whose predictions are computed in one pass. Their part of `item_rows_by_factor`
# fits the first cache.
ROWS_PER_PASS = 512


@compile_inner
def make_scratch(c: EpochConstants, m: LoudestConstants, longest: int) -> Scratch:  # noqa: ARG001
    """Allocate memory: the rows of some users, the predictions of one pass, and a selection.

    The third array lists the users whose rows are computed.
    """
    factors, rows = m.item_rows_by_factor.shape
    return (
        np.empty((USERS_PER_FILL, rows), np.float32),
        np.empty(ROWS_PER_PASS, np.float32),
        np.empty(USERS_PER_FILL, np.int64),
        make_selection(rows, factors),
    )


@compile_inner
def has_loud_report(user: int, c: EpochConstants, m: LoudestConstants, k: int) -> bool:
    """Return whether any of a user's reports names a loud direction."""
    for j in range(k):
        _, _, coin, _ = draw_report_words(c.seed, c.epoch, user, j)
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
    """Write k reports for each user, each drawn from all directions or from the loud ones."""
    A, part, users, selection = scratch
    n = 0
    for u in range(X.shape[0]):
        # At a small epsilon, most people have only uniform reports. No gradient is computed for
        # them.
        if has_loud_report(numbers[u], c, m, out.shape[1]):
            items = indices[indptr[u] : indptr[u + 1]]
            fill_history_rows(items, X[u], c.V, np.float32(c.alpha), m, A[u])
            users[n] = u
            n += 1
    # This is done for all users at once, so that the table of all items is read only once.
    subtract_predictions(users[:n], X, m.item_rows_by_factor, part, A)
    for u in range(X.shape[0]):
        fill_user_reports(numbers[u], X[u], c, m, A[u], selection, out[u])


@compile_inner
def fill_user_reports(
    user: int,
    x: Float32,
    c: EpochConstants,
    m: LoudestConstants,
    a: Float32,
    selection: Selection,
    out: NDArray[np.uint32],
) -> None:
    """Write one user's reports, given the rows `a` of the user's gradient."""
    above = np.int64(-1)
    # The draw after the last report orders tied directions, once for all reports of an epoch.
    word, _, _, _ = draw_report_words(c.seed, c.epoch, user, out.shape[0])
    offset = np.int64(multiply_high(word, m.n_signed))
    tied, is_silent, threshold = np.empty(0, np.int64), False, 0.0
    for j in range(out.shape[0]):
        choice, _, coin, _ = draw_report_words(c.seed, c.epoch, user, j)
        if coin < m.threshold:
            out[j] = np.uint32(multiply_high(choice, m.n_signed))
            continue
        # One word serves both to choose among all directions, as above, and among the loud ones:
        # each report needs only one of the two.
        rank = np.int64(multiply_high(choice, np.uint64(m.loud)))
        if above < 0:  # the first report that needs the selection
            above, is_silent = np.int64(0), not (a.any() and x.any())
            if not is_silent:
                threshold = find_loud(a, x, m.loud, selection)
                tied = list_tied(a, x, threshold, offset, selection)
                above = np.int64(selection.group_ends[-1])
        if is_silent:
            # All agreements are 0, so all directions are tied; only the offset orders them.
            out[j] = np.uint32((rank - offset) % np.int64(m.n_signed))
        elif rank >= above:
            out[j] = np.uint32(tied[rank - above])
        else:
            out[j] = np.uint32(get_nth_loud(a, x, threshold, rank, selection))


@compile_inner
def fill_history_rows(
    items: NDArray[np.int32],
    x: Float32,
    V: Float32,
    alpha: np.float32,
    m: LoudestConstants,
    a: Float32,
) -> None:
    """Write the contribution of the touched items to the rows `a`, item after item."""
    n_rows, inner = a.shape[0], m.inner_signs.shape[0]
    a[:] = _ZERO_FLOAT
    t = 0
    while t < items.shape[0]:
        if t + 4 <= items.shape[0]:
            predicted = compute_four_scores(x, V, items[t : t + 4])
            for q in range(4):
                add_item(items[t + q], predicted[q], alpha, m, a)
            t += 4
        else:
            add_item(items[t], score(x, V[items[t]]), alpha, m, a)
            t += 1
    # Each item was added only to the `inner` rows of its own part of a block. The remaining levels
    # of the Walsh transform combine the parts of a block.
    if inner < m.size:
        for start in range(0, n_rows, m.size):
            transform_levels(inner, a[start : start + m.size])


@compile_inner
def add_item(
    item: int, predicted: np.float32, alpha: np.float32, m: LoudestConstants, a: Float32
) -> None:
    """Add one touched item to the rows of its block, or of a part of the block."""
    inner = m.inner_signs.shape[0]
    weight = m.signs[item] * ((_ONE_FLOAT + alpha) - alpha * predicted)
    place = m.places[item]
    # `column` is the place within the part. No division is needed: `inner` is a power of two.
    column = place & (inner - 1)
    signs = m.inner_signs[column]
    part = a[place - column : place - column + inner]
    for r in range(inner):
        part[r] += weight * signs[r]


@compile_inner
def compute_four_scores(x: Float32, V: Float32, items: NDArray[np.int32]) -> Scores:
    """Compute `score` for four items at once, with the same order of sums as `score`."""
    # The four sums do not depend on each other, so the processor computes them at the same time.
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
    users: NDArray[np.int64], X: Float32, item_rows: Float32, predicted_part: Float32, A: Float32
) -> None:
    """Subtract the predictions of all items from the rows of these users."""
    # Each part of the table is read once for all users.
    n_rows = item_rows.shape[1]
    for start in range(0, n_rows, predicted_part.shape[0]):
        predicted = predicted_part[: min(n_rows - start, predicted_part.shape[0])]
        for u in users:
            predict_rows(X[u], item_rows, start, predicted)
            part = A[u, start : start + predicted.shape[0]]
            for r in range(part.shape[0]):
                part[r] -= predicted[r]


@compile_inner
def transform_levels(half: int, a: Float32) -> None:
    """Apply the levels of the Walsh transform from `half` up, two in each pass over memory."""
    n_rows = a.shape[0]
    while 2 * half < n_rows:
        for start in range(0, n_rows, 4 * half):
            four = a[start : start + 4 * half]
            apply_two_levels(
                four[:half], four[half : 2 * half], four[2 * half : 3 * half], four[3 * half :]
            )
        half *= 4
    if half < n_rows:
        apply_level(a[:half], a[half:])


@compile_inner
def predict_rows(x: Float32, item_rows: Float32, start: int, out: Float32) -> None:
    """Write the predictions from row `start` on into `out`, with four factors in each pass."""
    # Rows are sliced only here. numba does not know that a slice of a slice is contiguous, and LLVM
    # would not vectorise the loop.
    stop = start + out.shape[0]
    out[:] = _ZERO_FLOAT
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
    """Add `c[0] row0`, then `c[1] row1` and so on to `out`, with a rounding after each sum."""
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for r in range(out.shape[0]):
        out[r] = (((out[r] + c0 * row0[r]) + c1 * row1[r]) + c2 * row2[r]) + c3 * row3[r]


@compile_inner
def apply_two_levels(first: Float32, second: Float32, third: Float32, fourth: Float32) -> None:
    """Apply two levels of the Walsh transform to four adjacent parts."""
    for r in range(first.shape[0]):
        # Intermediate results stay in registers, so memory is read and written once for two levels.
        s, d = first[r] + second[r], first[r] - second[r]
        t, e = third[r] + fourth[r], third[r] - fourth[r]
        first[r], second[r], third[r], fourth[r] = s + t, d + e, s - t, d - e


@compile_inner
def apply_level(first: Float32, second: Float32) -> None:
    """Apply one level of the Walsh transform: replace (u, v) by (u + v, u - v)."""
    for r in range(first.shape[0]):
        low, high = first[r], second[r]
        first[r], second[r] = low + high, low - high


@compile_inner
def add_scaled_row(c: np.float32, row: Float32, out: Float32) -> None:
    """Add `c row` to `out`."""
    for r in range(row.shape[0]):
        out[r] += c * row[r]


plug_in(LoudestConstants, make_scratch, fill_reports, has_loud_report)
