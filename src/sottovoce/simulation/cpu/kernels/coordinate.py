"""`coordinate`, compiled: `sottovoce.mechanism.coordinate` in the same order of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.evaluation.kernels import score
from sottovoce.mechanism.coordinate import CoordinateConstants
from sottovoce.simulation.cpu.epoch import plug_in
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from sottovoce.simulation.cpu.work import Work, drawing_work, scored_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.preparation import EpochConstants

_ONE = np.float32(1)
_ZERO = np.float32(0)
_MINUS_TWO = np.float32(-2)


@njit
def new_scratch(
    c: EpochConstants,
    m: CoordinateConstants,  # noqa: ARG001 - the signature of all kernels
    longest: int,  # noqa: ARG001
) -> NDArray[np.uint8]:
    """One mark for each item, all zero."""
    return np.zeros(c.V.shape[0], np.uint8)


@njit(error_model="numpy")
def fill_reports(
    user: int,
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    c: EpochConstants,
    m: CoordinateConstants,
    touched: NDArray[np.uint8],
    out: NDArray[np.uint32],
) -> None:
    """Algorithm 1, k times. `touched` is all zero before and after."""
    for i in items:
        touched[i] = 1
    alpha = np.float32(c.alpha)
    factors = np.uint64(x.shape[0])
    for j in range(out.shape[0]):
        direction, choice, coin, _ = report_words(c.seed, c.epoch, user, j)
        index = multiply_high(direction, c.n_directions)
        item = index // factors
        p = _ONE if touched[item] else _ZERO
        e = (_ONE + alpha * p) * (p - score(x, c.V[item]))
        g = (_MINUS_TWO * e) * x[index - item * factors]
        value = np.float64(min(max(g, -_ONE), _ONE))
        plus = np.float64(choice >> np.uint64(11)) * 2.0**-53 < (1.0 + value) / 2.0
        flip = coin < m.threshold
        out[j] = np.uint32(index << np.uint64(1)) | np.uint32(plus != flip)
    for i in items:
        touched[i] = 0


STEPS, FLOATS = 4, 10
"""Of one report beside the prediction: item and factor of the direction, two comparisons; from the
prediction to the probability of a plus."""


def work(histories: Histories, mechanism: Mechanism, reports: int) -> Work:
    said = histories.n_users * reports
    drawn = drawing_work(histories, mechanism, reports)
    scored = scored_work(said, histories.n_items, mechanism.shape.factors)
    own = Work(additions=said * FLOATS, steps=2 * histories.n_interactions + said * STEPS)
    return drawn + scored + own


plug_in(CoordinateConstants, new_scratch, fill_reports)
