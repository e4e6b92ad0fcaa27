"""The L loudest of 2R signed rows, exactly, without sorting.

`Loudest.loud_rows` sorts; this counts. How many |a| reach a threshold is one vectorised pass, and
a few of those, started where a normal distribution would have it, find the threshold that exactly
L reach. Ties, which have no such threshold, are settled as the reference does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_GUESSES = 12


@njit(cache=True)
def count_reaching(bits: NDArray[np.uint32], threshold: np.uint32) -> np.int32:
    """How many floats, seen as bits, have at least this magnitude (bits order like magnitudes)."""
    total = np.int32(0)
    for r in range(bits.shape[0]):
        total += np.int32((bits[r] & _MAGNITUDE) >= threshold)
    return total


@njit(cache=True, fastmath=True)
def spread(a: NDArray[np.float32]) -> float:
    """The standard deviation, in whatever order: it only says where to start."""
    total = np.float32(0)
    for r in range(a.shape[0]):
        total += a[r] * a[r]
    return np.sqrt(np.float64(total) / a.shape[0])


@njit(cache=True, error_model="numpy")
def separate(
    a: NDArray[np.float32], loud: int, guess: float, density: float
) -> tuple[np.uint32, bool]:
    """A threshold that exactly `loud` magnitudes reach, and true; or the tied value, and false."""
    bits = a.view(np.uint32)
    below, above = np.uint32(0), _INFINITY  # reached by at least `loud`, and by fewer
    scale = spread(a)
    value = guess * scale
    for attempt in range(64):
        if above - below <= 1:
            break
        middle = below + (above - below) // np.uint32(2)
        if attempt < _GUESSES and value > 0.0:
            wanted = np.array([value], np.float32).view(np.uint32)[0]
            if below < wanted < above:
                middle = wanted
        count = count_reaching(bits, middle)
        if count == loud:
            return middle, True
        if count > loud:
            below = middle
        else:
            above = middle
        value += scale * (count - loud) / (density * a.shape[0])
    return below, False


@njit(cache=True, error_model="numpy")
def loud_rows(
    a: NDArray[np.float32],
    loud: int,
    mask: int,
    guess: float,
    density: float,
    out: NDArray[np.int32],
) -> bool:
    """Fill `out[:loud]` with the loud signed rows, ascending; false if `a` is not finite."""
    bits = a.view(np.uint32)
    if count_reaching(bits, _INFINITY) > 0:
        return False
    threshold, found = separate(a, loud, guess, density)
    if not found:
        settle_tie(a, loud, mask, threshold, out)
        return True
    n = 0
    for r in range(a.shape[0]):
        out[n] = np.int32(r << 1) | np.int32(a[r] > 0)
        n += (bits[r] & _MAGNITUDE) >= threshold
    return True


@njit(cache=True)
def settle_tie(
    a: NDArray[np.float32], loud: int, mask: int, tie: np.uint32, out: NDArray[np.int32]
) -> None:
    """The rows above the tie, and of the tied ones those with the lowest `signed_row ^ mask`."""
    bits = a.view(np.uint32)
    chosen = np.empty(2 * a.shape[0], np.int64)
    tied = np.empty(2 * a.shape[0], np.int64)
    n_chosen, n_tied = 0, 0
    for r in range(a.shape[0]):
        magnitude = bits[r] & _MAGNITUDE
        if magnitude > tie:
            chosen[n_chosen] = r << 1 | np.int64(a[r] > 0)
            n_chosen += 1
        elif magnitude == tie:
            for bit in range(2):
                if tie == 0 or bit == np.int64(a[r] > 0):
                    tied[n_tied] = (r << 1 | bit) ^ mask
                    n_tied += 1
    order = np.sort(tied[:n_tied])
    missing = loud - n_chosen
    for t in range(missing):
        chosen[n_chosen + t] = order[t] ^ mask
    out[:loud] = np.sort(chosen[:loud])
