"""The loud directions of one person, exactly, without sorting: `sottovoce.core.loudest`.

Rows are counted in bins by the upper bits of their magnitude. How many directions agree by at least
some value is then a look into one bin for each factor, which finds the least agreement that is loud
up to a few bins; only the rows in those are compared exactly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.simulation.evaluation.kernels import compile_inner

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_SHIFT = np.uint32(15)
"""A float32 without its 15 lowest bits: 256 bins for every power of two."""
BINS = 1 << 14
"""64 powers of two below the largest row; everything smaller is in bin 0."""
_BELOW = 1 - 2.0**-7
"""Times this a value lies at least one bin lower, roundings included."""
_NORMAL = 2.0**-120
"""Above all subnormal magnitudes, with room."""
_FINE = 1 << 42
"""In the bits of a float64: a share of 2^-10, finer than a bin."""
_OCTAVE = 1 << 52
"""There: a factor of two."""
_OCTAVES = 128 * _OCTAVE
"""How far below the largest agreement the least loud one is looked for, before it may be any."""
_NEAR = np.uint16(1 << 15)
"""Marks a bin whose rows must be compared exactly."""
_ANY_NEAR = np.uint64(0x8000_8000_8000_8000)
"""The same in one of four rows."""
GROUP = 32
"""Rows that are counted together, and looked through one by one for one report."""


class Ranks(NamedTuple):
    """Memory for one person at a time, and what `nth_loud` needs of them."""

    keys: NDArray[np.uint16]
    """R: the bin of each row."""
    reach: Int32
    """BINS + 1: how many rows lie in this bin or above it, as far down as was asked for."""
    first: Int32
    """F: the lowest bin of each factor in which the least loud agreement may lie."""
    last: Int32
    """F: the highest one."""
    factors_of: NDArray[np.uint16]
    """BINS + 1: with how many factors a row in this bin is loud for certain; _NEAR if with more."""
    which: NDArray[np.uint16]
    """BINS: 1 + the factor with which it may be as well, or 1 + F where there are several."""
    near: Int32
    """R + 1: rows in such a bin."""
    near_row: Int32
    """Of every direction that lies in such a bin of its factor: its row."""
    near_factor: Int32
    """Its factor."""
    agreement: Float64
    """By how much it agrees."""
    n_near: Int64
    """1: how many there are."""
    loud: NDArray[np.uint16]
    """R: with how many factors each row is loud, ties aside."""
    ends: Int32
    """R / GROUP: how many such directions there are up to each group's end."""


@compile_inner
def new_ranks(n_rows: int, factors: int) -> Ranks:
    """For so many rows; `loud` has zeros up to whole groups."""
    groups = -(-n_rows // GROUP)
    return Ranks(
        np.empty(n_rows, np.uint16),
        np.empty(BINS + 1, np.int32),
        np.empty(factors, np.int32),
        np.empty(factors, np.int32),
        np.empty(BINS + 1, np.uint16),
        np.empty(BINS, np.uint16),
        np.empty(n_rows + 1, np.int32),
        np.empty(n_rows * factors, np.int32),
        np.empty(n_rows * factors, np.int32),
        np.empty(n_rows * factors, np.float64),
        np.zeros(1, np.int64),
        np.zeros(groups * GROUP, np.uint16),
        np.empty(groups, np.int32),
    )


@compile_inner
def largest(bits: UInt32) -> np.uint32:
    """The largest magnitude, as bits (bits order like magnitudes)."""
    most = np.uint32(0)
    for r in range(bits.shape[0]):
        most = max(most, np.uint32(bits[r] & _MAGNITUDE))
    return most


@compile_inner
def fill_keys(bits: UInt32, lowest: int, keys: NDArray[np.uint16]) -> np.int32:
    """The bin of every row; the lowest of them."""
    base, first = np.int32(lowest), np.int32(BINS)
    for r in range(bits.shape[0]):
        key = max(np.int32(np.int32((bits[r] & _MAGNITUDE) >> _SHIFT) - base), np.int32(0))
        keys[r] = np.uint16(key)
        first = min(first, key)
    return first


@compile_inner
def count_bins(a: Float32, s: Ranks) -> tuple[np.float32, np.int32]:
    """Fill `keys`, and `reach` with how many rows each bin has; the largest row, the lowest bin."""
    bits, reach = a.view(np.uint32), s.reach
    most = largest(bits)
    first = fill_keys(bits, np.int64(most >> _SHIFT) - (BINS - 1), s.keys)
    reach[first:] = 0
    for r in range(a.shape[0]):
        reach[s.keys[r]] += 1
    return np.uint32(most).view(np.float32), first


@compile_inner
def add_up(start: int, stop: int, reach: Int32) -> None:
    """Make `reach` count what lies above as well, from `start` down to `stop`."""
    total = reach[start + 1]
    for key in range(start, stop - 1, -1):
        total += reach[key]
        reach[key] = total


@compile_inner
def bin_of(value: float, most: np.float32) -> np.int64:
    """Of a magnitude; BINS if it is beyond the largest row."""
    if not value <= most:  # beyond, or 0 / 0: a factor with which nothing agrees
        return np.int64(BINS)
    lowest = np.int64(np.float32(most).view(np.uint32) >> _SHIFT) - (BINS - 1)
    key = np.int64(np.float32(value).view(np.uint32) >> _SHIFT) - lowest
    return max(key, np.int64(0))


@compile_inner
def bracket(x: Float32, loud: int, most: np.float32, lowest_bin: int, s: Ranks) -> int:
    """Fill `first` and `last`: the least loud agreement lies in one of these bins of each factor.

    Bins count too many at most; one bin lower, too few at most. Returns how many directions are
    louder for certain.
    """
    sizes = np.abs(x).astype(np.float64)
    largest_size = sizes.max()
    high = np.float64(2 * np.float64(most) * largest_size).view(np.int64)
    low = high
    lowest = max(high - np.int64(_OCTAVES), np.int64(0))
    # Down by octaves at first: few of the bins are ever added up.
    added = np.int64(BINS)
    while low > lowest:
        low = max(low - np.int64(_OCTAVE), lowest)
        value = np.int64(low).view(np.float64)
        down = max(bin_of(value / largest_size, most), np.int64(lowest_bin))
        add_up(added - 1, down, s.reach)
        added = min(added, down)
        if reaching(value, sizes, most, added, s.reach) >= loud:
            break
        high = low if low > lowest else high
    while high - low > _FINE:
        middle = low + (high - low) // 2
        if reaching(np.int64(middle).view(np.float64), sizes, most, added, s.reach) < loud:
            high = middle
        else:
            low = middle
    least = _BELOW * np.int64(low).view(np.float64)
    bounded = low > lowest
    for f in range(x.shape[0]):
        # The lowest bin has no end, and those of subnormal numbers are wide.
        row = least / sizes[f]
        bounded &= row >= _NORMAL and bin_of(row, most) > 0
    upper, surely = np.int64(high).view(np.float64) * (1 + 2.0**-20), 0
    for f in range(x.shape[0]):
        s.first[f] = bin_of(least / sizes[f] if bounded else 0.0, most)
        s.last[f] = min(bin_of(upper / sizes[f], most), BINS - 1)
        surely += s.reach[max(s.last[f] + 1, added)]
    return surely


@compile_inner
def reaching(value: float, sizes: Float64, most: np.float32, added: int, reach: Int32) -> int:
    """How many directions agree by at least so much, as far as bins can tell.

    `added` is the lowest bin that `reach` is added up to; below it lies nothing that counts.
    """
    total = 0
    for f in range(sizes.shape[0]):
        total += reach[max(bin_of(value / sizes[f], most), added)]
    return total


@compile_inner
def mark_bins(s: Ranks) -> None:
    """Fill `factors_of` and `which`."""
    factors = s.first.shape[0]
    low, high = np.int64(s.first.min()), np.int64(s.last.max()) + 1
    s.which[low:high] = 0
    s.factors_of[: high + 1] = 0
    for f in range(factors):
        s.factors_of[s.last[f] + 1] += np.uint16(1)
        for key in range(s.first[f], s.last[f] + 1):
            s.which[key] = f + 1 if s.which[key] == 0 else factors + 1
    total = np.uint16(0)
    for key in range(low, high + 1):
        total = np.uint16(total + s.factors_of[key])
        s.factors_of[key] = total
    s.factors_of[high + 1 :] = total
    for f in range(factors):
        for key in range(s.first[f], s.last[f] + 1):
            s.factors_of[key] |= _NEAR


@compile_inner
def look_up(keys: NDArray[np.uint16], s: Ranks) -> np.int64:
    """Fill `loud` with what is sure, `near` with the rows that must be looked at; how many.

    And `ends` with each group's own sum, four rows at once: 8 times 256 factors stay below 16 bits.
    """
    loud, factors_of, n = s.loud, s.factors_of, np.int64(0)
    for r in range(keys.shape[0]):
        loud[r] = factors_of[np.uint64(keys[r])]
    fours = loud.view(np.uint64)
    for g in range(s.ends.shape[0]):
        own = np.uint64(0)
        for t in range(g * (GROUP // 4), (g + 1) * (GROUP // 4)):
            four = fours[t]
            own += four & ~_ANY_NEAR
            if four & _ANY_NEAR:
                fours[t] = four & ~_ANY_NEAR
                for q in range(4):
                    s.near[n] = 4 * t + q
                    n += np.int64((four >> np.uint64(16 * q + 15)) & np.uint64(1))
        total = np.int32(0)
        for shift in range(0, 64, 16):
            total += np.int32((own >> np.uint64(shift)) & np.uint64(0xFFFF))
        s.ends[g] = total
    return n


@compile_inner
def list_near(a: Float32, x: Float32, s: Ranks) -> int:
    """Fill `near_row`, `near_factor` and `agreement`, and what is sure of `loud`; how many."""
    mark_bins(s)
    n, factors = 0, x.shape[0]
    for t in range(look_up(s.keys, s)):
        row = np.int64(s.near[t])
        key, size = s.keys[row], abs(np.float64(a[row]))
        only = np.int64(s.which[key])
        several = only > factors
        for f in range(0 if several else only - 1, factors if several else only):
            if s.first[f] <= key <= s.last[f]:
                s.near_row[n], s.near_factor[n] = row, f
                s.agreement[n] = abs(np.float64(x[f])) * size
                n += 1
    return n


@compile_inner
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


@compile_inner
def find_loud(a: Float32, x: Float32, loud: int, s: Ranks) -> float:
    """Fill `loud`, `ends` and what is near; the least agreement that is loud."""
    most, lowest_bin = count_bins(a, s)
    missing = loud - bracket(x, loud, most, lowest_bin, s)
    n = list_near(a, x, s)
    s.n_near[0] = n
    # With fewer than are missing, all the rest is silent: some factor or row must be 0.
    least = nth_largest(s.agreement[:n].copy(), missing) if missing <= n else 0.0
    for t in range(n):
        if s.agreement[t] > least:
            s.loud[s.near_row[t]] += np.uint16(1)
            s.ends[s.near_row[t] // GROUP] += 1
    for g in range(1, s.ends.shape[0]):
        s.ends[g] += s.ends[g - 1]
    return least


@compile_inner
def nth_loud(a: Float32, x: Float32, least: float, rank: int, s: Ranks) -> int:
    """The direction at this place among those above the least agreement, by index."""
    low, high = 0, s.ends.shape[0] - 1  # the first group that ends beyond this place
    while low < high:
        middle = (low + high) // 2
        if s.ends[middle] > rank:
            high = middle
        else:
            low = middle + 1
    before, row = np.int64(s.ends[low - 1] if low > 0 else 0), low * GROUP
    left = np.int64(rank) - before
    while left >= s.loud[row]:
        left -= np.int64(s.loud[row])
        row += 1
    size = abs(np.float64(a[row]))
    f = -1
    while left >= 0:
        f += 1
        left -= np.int64(abs(np.float64(x[f])) * size > least)
    return signed(a, x, row, f)


@compile_inner
def signed(a: Float32, x: Float32, row: int, f: int) -> int:
    """The direction with the sign of `-a_r x_f`."""
    return (row * x.shape[0] + f) << 1 | np.int64((a[row] > 0) != (x[f] > 0))


@compile_inner
def list_tied(a: Float32, x: Float32, least: float, offset: int, s: Ranks) -> Int64:
    """Directions of exactly the least agreement, in the order of `(signed + offset) mod 2n`."""
    n_signed, n = 2 * a.shape[0] * x.shape[0], s.n_near[0]
    if least == 0:
        tied = silent_directions(a, x)
    else:
        at = np.flatnonzero(s.agreement[:n] == least)
        tied = np.empty(at.shape[0], np.int64)
        for t in range(at.shape[0]):
            tied[t] = signed(a, x, np.int64(s.near_row[at[t]]), np.int64(s.near_factor[at[t]]))
    if tied.shape[0] > 1:
        carried = tied.shape[0]  # they ascend: those beyond the end come first
        while carried > 0 and tied[carried - 1] + offset >= n_signed:
            carried -= 1
        tied = np.concatenate((tied[carried:], tied[:carried]))
    return tied


@compile_inner
def silent_directions(a: Float32, x: Float32) -> Int64:
    """Those that agree by 0, with either sign."""
    rows, factors = a.shape[0], x.shape[0]
    found, n = np.empty(2 * rows * factors, np.int64), 0
    for index in range(rows * factors):
        if a[index // factors] == 0 or x[index % factors] == 0:
            found[n], found[n + 1] = index << 1, index << 1 | 1
            n += 2
    return found[:n]
