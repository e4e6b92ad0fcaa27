"""What the kernels of rotated mechanisms share: `sottovoce.mechanism.rotation`, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from sottovoce.evaluation.kernels import score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism.hadamard import HadamardConstants
    from sottovoce.mechanism.loudest import LoudestConstants

    Float32 = NDArray[np.float32]

_ONE = np.float32(1)
_ZERO = np.float32(0)


@njit(error_model="numpy")
def history_weights(
    items: NDArray[np.int32],
    x: Float32,
    V: Float32,
    item_signs: Float32,
    alpha: np.float32,
    weights: Float32,
) -> None:
    """What touching each item adds to the rotated residual, before H."""
    for t in range(items.shape[0]):
        i = items[t]
        weights[t] = item_signs[i] * ((_ONE + alpha) - alpha * score(x, V[i]))


@njit(error_model="numpy")
def user_columns(x: Float32, m: HadamardConstants | LoudestConstants, b: Float32) -> None:
    """`b = H' (t * x)`."""
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


@njit
def log2(n: int) -> int:
    """Of a power of two."""
    bits = 0
    while 1 << bits < n:
        bits += 1
    return bits
