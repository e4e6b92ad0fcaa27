"""`whisper`, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.evaluation.kernels import score
from sottovoce.simulation.cpu.epoch import plug_in
from sottovoce.simulation.cpu.philox import multiply_high, report_words
from tests.plugins.whisper import WhisperConstants

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.simulation.preparation import EpochConstants

_ONE, _ZERO = np.float32(1), np.float32(0)


@njit
def new_scratch(c: EpochConstants, m: WhisperConstants, longest: int) -> NDArray[np.uint8]:
    return np.zeros(c.V.shape[0], np.uint8)


@njit(error_model="numpy")
def fill_reports(
    user: int,
    items: NDArray[np.int32],
    x: NDArray[np.float32],
    c: EpochConstants,
    m: WhisperConstants,
    touched: NDArray[np.uint8],
    out: NDArray[np.uint32],
) -> None:
    for i in items:
        touched[i] = 1
    factors = np.uint64(x.shape[0])
    for j in range(out.shape[0]):
        direction, choice, coin, _ = report_words(c.seed, c.epoch, user, j)
        index = multiply_high(direction, c.n_directions)
        item = index // factors
        p = _ONE if touched[item] else _ZERO
        e = (_ONE + np.float32(c.alpha) * p) * (p - score(x, c.V[item]))
        g = (np.float32(-2) * e) * x[index - item * factors]
        plus = g > _ZERO if g != _ZERO else choice >> np.uint64(63) == np.uint64(1)
        out[j] = np.uint32(index << np.uint64(1)) | np.uint32(plus != (coin < m.threshold))
    for i in items:
        touched[i] = 0


plug_in(WhisperConstants, new_scratch, fill_reports)
