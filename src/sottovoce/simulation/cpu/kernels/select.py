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

    Float32 = NDArray[np.float32]
    Int32 = NDArray[np.int32]

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_GUESSES = 12
_OVERSHOOT = 1.15
GROUP = 64
"""Rows that are counted together, and looked through one by one for one report."""


@njit
def count_reaching(bits: NDArray[np.uint32], threshold: np.uint32) -> np.int32:
    """How many floats, seen as bits, have at least this magnitude (bits order like magnitudes)."""
    total = np.int32(0)
    for r in range(bits.shape[0]):
        # Narrowed each time: numba widens a sum to 64 bits, and that halves the SIMD lanes.
        total = np.int32(total + np.int32((bits[r] & _MAGNITUDE) >= threshold))
    return total


@njit(fastmath={"reassoc"})
def sum_of_squares(a: Float32) -> np.float32:
    """In whatever order; not finite if any of `a` is not (or if it is huge)."""
    total = np.float32(0)
    for r in range(a.shape[0]):
        total += a[r] * a[r]
    return total


@njit
def as_bits(value: float) -> np.uint32:
    """A float32 seen as bits."""
    return np.float32(value).view(np.uint32)


@njit
def as_float(bits: int) -> np.float32:
    """Bits seen as a float32."""
    return np.uint32(bits).view(np.float32)


@njit(error_model="numpy")
def separate(
    a: Float32, loud: int, scale: float, guess: float, density: float
) -> tuple[np.uint32, bool]:
    """A threshold that exactly `loud` magnitudes reach, and true; or the tied value, and false."""
    bits = a.view(np.uint32)
    below, above = np.uint32(0), _INFINITY  # reached by at least `loud`, and by fewer
    low_value, n_low = 0.0, 0
    high_value, n_high = 0.0, 0
    value = guess * scale
    for attempt in range(64):
        if above - below <= 1:
            break
        middle = np.uint32(below + (above - below) // np.uint32(2))
        if attempt < _GUESSES and value > 0.0:
            wanted = as_bits(value)
            if below < wanted < above:
                middle = wanted
        count = count_reaching(bits, middle)
        if count == loud:
            return middle, True
        at = np.float64(as_float(middle))
        if count > loud:
            below, low_value, n_low = middle, at, count
        else:
            above, high_value, n_high = middle, at, count
        if low_value > 0.0 and high_value > 0.0:
            share = (n_low - loud) / (n_low - n_high)
            value = low_value + (high_value - low_value) * share
        else:
            # A little too far, so that the next one comes to lie on the other side.
            value = at + _OVERSHOOT * scale * (count - loud) / (density * a.shape[0])
    return below, False


@njit(error_model="numpy")
def find_loud(a: Float32, loud: int, guess: float, density: float) -> tuple[np.uint32, bool]:
    """`separate`, from where normal values would be separated."""
    squares = np.float64(sum_of_squares(a))
    return separate(a, loud, np.sqrt(squares / a.shape[0]), guess, density)


@njit
def list_loud(a: Float32, threshold: np.uint32, out: Int32) -> None:
    """All loud signed rows, ascending. `out` has one place more than there are rows."""
    bits = a.view(np.uint32)
    n = 0
    for r in range(a.shape[0]):
        out[n] = np.int32(r << 1) | np.int32(a[r] > 0)
        n += (bits[r] & _MAGNITUDE) >= threshold


@njit
def count_groups(a: Float32, threshold: np.uint32, starts: Int32) -> None:
    """`starts[g]`: how many loud rows lie before group g."""
    groups = a.view(np.uint32).reshape(-1, GROUP)
    total = np.int32(0)
    for g in range(groups.shape[0]):
        starts[g] = total
        n = np.int32(0)
        for r in range(GROUP):
            n = np.int32(n + np.int32((groups[g, r] & _MAGNITUDE) >= threshold))
        total = np.int32(total + n)


@njit
def nth_loud(bits: NDArray[np.uint32], threshold: np.uint32, starts: Int32, rank: int) -> np.int64:
    """`list_loud`'s entry at `rank`: k of these are cheaper than the list."""
    group, step = 0, starts.shape[0] >> 1  # a power of two
    while step > 0:
        group += step if starts[group + step] <= rank else 0
        step >>= 1
    left, row = rank - starts[group], group * GROUP - 1
    while left >= 0:
        row += 1
        left -= np.int64((bits[row] & _MAGNITUDE) >= threshold)
    return row << 1 | np.int64(bits[row] <= _MAGNITUDE)


@njit
def settle_tie(a: Float32, loud: int, mask: int, tie: np.uint32, out: Int32) -> None:
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
