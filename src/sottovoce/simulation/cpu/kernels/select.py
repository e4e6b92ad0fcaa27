"""The loud directions of one person, exactly, without sorting: `sottovoce.mechanism.loud`.

Rows are put into bins by the upper bits of their magnitude, the largest first. How many directions
agree by at least some value is then a look into one bin for each factor, which finds the least
agreement that is loud up to a few bins; only the rows in those are compared exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]
    Int32 = NDArray[np.int32]
    Int64 = NDArray[np.int64]

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_SHIFT = np.uint32(15)
"""A float32 without its 15 lowest bits: 256 bins for every power of two."""
BINS = 1 << 14
"""64 powers of two below the largest row; everything smaller is in bin 0."""
_BELOW = 1 - 2.0**-7
"""Times this a value lies at least one bin lower, roundings included."""
_NORMAL = 2.0**-120
_FINE = 1 << 42
"""In the bits of a float64: a share of 2^-10, finer than a bin."""
_OCTAVES = 128 << 52
"""How far below the largest agreement the least loud one is looked for, before it may be any."""


class Sorted(NamedTuple):
    """A person's rows by falling bin, and how many of them are loud with each factor."""

    keys: NDArray[np.uint16]
    """R: the bin of each row."""
    reach: Int32
    """BINS + 1: how many rows lie in this bin or above it."""
    rows: Int32
    """R: by falling bin; of one bin by row, until `settle` puts them into their exact order."""
    following: Int32
    """BINS: where the next row of a bin goes."""
    steps: Int32
    """F: how many rows of each factor lie above the least agreement."""


@njit
def new_sorted(n_rows: int, factors: int) -> Sorted:
    """Memory for one person at a time."""
    return Sorted(
        np.empty(n_rows, np.uint16),
        np.empty(BINS + 1, np.int32),
        np.empty(n_rows, np.int32),
        np.empty(BINS, np.int32),
        np.empty(factors, np.int32),
    )


@njit
def largest(bits: NDArray[np.uint32]) -> np.uint32:
    """The largest magnitude, as bits (bits order like magnitudes)."""
    most = np.uint32(0)
    for r in range(bits.shape[0]):
        most = max(most, np.uint32(bits[r] & _MAGNITUDE))
    return most


@njit(error_model="numpy")
def sort_rows(a: Float32, s: Sorted) -> np.float32:
    """Put all rows into their bins; the largest magnitude."""
    bits, n_rows = a.view(np.uint32), a.shape[0]
    most = largest(bits)
    lowest, first = np.int32(most >> _SHIFT) - np.int32(BINS - 1), np.int32(BINS - 1)
    for r in range(n_rows):
        key = max(np.int32((bits[r] & _MAGNITUDE) >> _SHIFT) - lowest, np.int32(0))
        s.keys[r] = np.uint16(key)
        first = min(first, key)
    reach, following = s.reach, s.following
    reach[:first] = n_rows
    reach[first:] = 0
    for r in range(n_rows):
        reach[s.keys[r]] += 1
    total = np.int32(0)
    for key in range(BINS - 1, first - 1, -1):
        following[key] = total
        total += reach[key]
        reach[key] = total
    for r in range(n_rows):
        key = s.keys[r]
        s.rows[following[key]] = r
        following[key] += 1
    return np.uint32(most).view(np.float32)


@njit(error_model="numpy")
def bin_of(value: float, most: np.float32) -> int:
    """Of a magnitude; BINS if it is beyond the largest row."""
    if not value <= most:  # beyond, or 0 / 0: a factor with which nothing agrees
        return BINS
    lowest = np.int64(np.float32(most).view(np.uint32) >> _SHIFT) - (BINS - 1)
    return max(np.int64(np.float32(value).view(np.uint32) >> _SHIFT) - lowest, 0)


@njit(error_model="numpy")
def bracket(x: Float32, loud: int, most: np.float32, reach: Int32) -> tuple[float, float]:
    """The least loud agreement is at least the first value, which may be 0, and below the second.

    Bins count too many at most; one bin lower, too few at most.
    """
    sizes = np.abs(x).astype(np.float64)
    top = 2 * np.float64(most) * sizes.max()
    high = np.float64(top).view(np.int64)
    low = lowest = max(high - _OCTAVES, 0)
    while high - low > _FINE:
        middle = low + (high - low) // 2
        value, total = np.int64(middle).view(np.float64), 0
        for f in range(x.shape[0]):
            total += reach[bin_of(value / sizes[f], most)]
        if total < loud:
            high = middle
        else:
            low = middle
    least = _BELOW * np.int64(low).view(np.float64)
    bounded = low > lowest
    for f in range(x.shape[0]):
        # The lowest bin has no end, and those of subnormal numbers are wide.
        row = least / sizes[f]
        bounded &= row >= _NORMAL and bin_of(row, most) > 0
    if not bounded:
        least = 0.0
    return least, np.int64(high).view(np.float64) * (1 + 2.0**-20)


@njit
def settle(a: Float32, s: Sorted, start: int, stop: int) -> None:
    """Rows at these places by falling magnitude, of equal ones the lower first; nearly so before."""
    for at in range(start + 1, stop):
        row = s.rows[at]
        size, to = abs(a[row]), at
        while to > start and (
            abs(a[s.rows[to - 1]]) < size
            or (abs(a[s.rows[to - 1]]) == size and s.rows[to - 1] > row)
        ):
            s.rows[to] = s.rows[to - 1]
            to -= 1
        s.rows[to] = row


@njit
def row_at(a: Float32, s: Sorted, place: int) -> int:
    """The row with this place among all by falling magnitude."""
    key = s.keys[s.rows[place]]
    settle(a, s, s.reach[key + 1], s.reach[key])
    return np.int64(s.rows[place])


@njit
def nth_largest(values: Float64, n: int) -> float:
    """The value that n - 1 others are not below; disorders `values`."""
    low, high = 0, values.shape[0] - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if n - 1 <= j:
            high = j
        elif n - 1 >= i:
            low = i
        else:
            break
    return values[n - 1]


@njit(error_model="numpy")
def find_loud(a: Float32, x: Float32, loud: int, s: Sorted) -> float:
    """Fill `steps`; the least agreement that is loud."""
    most = sort_rows(a, s)
    s.steps[:] = 0
    if most == 0 or not x.any():
        return 0.0
    low, high = bracket(x, loud, most, s.reach)
    sizes = np.abs(x).astype(np.float64)
    between, missing = 0, loud
    for f in range(x.shape[0]):
        surely = s.reach[min(bin_of(high / sizes[f], most) + 1, BINS)]
        perhaps = s.reach[bin_of(low / sizes[f], most)]
        s.steps[f] = surely
        missing -= surely
        between += perhaps - surely
    # With fewer than are missing, all the rest is silent: some factor or row must be 0.
    values, n = np.zeros(max(between, missing), np.float64), 0
    for f in range(x.shape[0]):
        for place in range(s.steps[f], s.reach[bin_of(low / sizes[f], most)]):
            values[n] = sizes[f] * abs(np.float64(a[s.rows[place]]))
            n += 1
    least = nth_largest(values, missing)
    for f in range(x.shape[0]):
        stop = s.reach[bin_of(low / sizes[f], most)]
        settle(a, s, s.steps[f], stop)
        place = s.steps[f]
        while place < stop and sizes[f] * abs(np.float64(a[s.rows[place]])) > least:
            place += 1
        s.steps[f] = place
    return least


@njit
def signed(a: Float32, x: Float32, row: int, f: int) -> int:
    """The direction with the sign of `-a_r x_f`."""
    return (row * x.shape[0] + f) << 1 | np.int64((a[row] > 0) != (x[f] > 0))


@njit
def list_tied(a: Float32, x: Float32, least: float, offset: int, s: Sorted) -> Int64:
    """Directions of exactly the least agreement, in the order of `(signed + offset) mod 2n`."""
    n_signed, n = 2 * a.shape[0] * x.shape[0], 0
    for f in range(x.shape[0]):
        n += ties_of(a, x, least, f, s)
    tied, n = np.empty(2 * n if least == 0 else n, np.int64), 0
    for f in range(x.shape[0]):
        for place in range(s.steps[f], s.steps[f] + ties_of(a, x, least, f, s)):
            tied[n] = signed(a, x, np.int64(s.rows[place]), f)
            n += 1
            if least == 0:
                tied[n] = tied[n - 1] ^ 1
                n += 1
    for t in range(n):
        tied[t] = (tied[t] + offset) % n_signed
    tied.sort()
    for t in range(n):
        tied[t] = (tied[t] - offset) % n_signed
    return tied


@njit(error_model="numpy")
def ties_of(a: Float32, x: Float32, least: float, f: int, s: Sorted) -> int:
    """How many rows of a factor agree by exactly `least`: they follow the louder ones."""
    size, n = abs(np.float64(x[f])), 0
    for place in range(s.steps[f], a.shape[0]):
        if size * abs(np.float64(a[s.rows[place]])) != least:
            break
        n += 1
    return n
