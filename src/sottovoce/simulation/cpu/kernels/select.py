"""The exact selection of one person's loud directions without sorting them.

A direction is a row r and a factor f (and a sign); its agreement is `|a[r] x[f]|`, as in
`sottovoce.core.loudest`. The threshold is the smallest agreement of a loud direction. To find it,
rows are counted in bins by the upper bits of their magnitude `|a[r]|`. A direction with factor f
has an agreement of at least v if the magnitude of its row is at least `v / |x[f]|`. So these
directions are counted by adding up, for all factors, the number of rows in the bin of `v / |x[f]|`
or a higher one. A search over v limits the threshold to a few bins, and only the rows in these bins
are compared exactly.
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

_MAGNITUDE_MASK = np.uint32(0x7FFFFFFF)
# The bin of a float32 omits its 15 lowest bits, so there are 256 bins for every power of two.
_BIN_SHIFT = np.uint32(15)
# The bins cover 64 powers of two below the largest row. Everything smaller is in bin 0.
BIN_COUNT = 1 << 14
# A value multiplied by this is at least one bin lower, even after rounding.
_ONE_BIN_LOWER = 1 - 2.0**-7
# A magnitude well above all subnormal ones.
_MIN_NORMAL_ROW = 2.0**-120
# The search for the threshold compares float64 numbers by their bits, as integers. It ends when the
# two bounds differ by _BRACKET_WIDTH, a factor of about 1 + 2^-10, which is less than a bin.
_BRACKET_WIDTH = 1 << 42
# The difference between the bits of a float64 number and the bits of its half.
_ONE_OCTAVE = 1 << 52
# The search begins at twice the largest agreement and goes down by at most this. If the threshold
# is even smaller, all rows below its upper bound are compared exactly.
_SEARCHED_OCTAVES = 128 * _ONE_OCTAVE
# Marks a bin whose rows must be compared exactly.
_NEAR_MARK = np.uint16(1 << 15)
# The same mark in each of four numbers of 16 bits that are read as one.
_FOUR_NEAR_MARKS = np.uint64(0x8000_8000_8000_8000)
# Number of rows in a group. A group has one count of its loud directions; the search for one of
# them goes through the rows of its group one by one.
ROWS_PER_GROUP = 32


class Selection(NamedTuple):
    """Memory for the selection of one person at a time, with R rows and F factors.

    The documentation of each array begins with its length.
    """

    keys: NDArray[np.uint16]
    """R: the bin of each row."""
    rows_above: Int32
    """BIN_COUNT + 1: the number of rows in this bin or a higher one. Only bins that the search
    reached are filled in."""
    lowest_bins: Int32
    """F: for each factor, the lowest bin of rows whose agreement may be at the threshold."""
    highest_bins: Int32
    """F: for each factor, the highest bin of rows whose agreement may be at the threshold."""
    sure_factors: NDArray[np.uint16]
    """BIN_COUNT + 1: the number of factors with which a row in this bin is certainly loud;
    `_NEAR_MARK` is added if it may be loud with other factors too."""
    only_factor: NDArray[np.uint16]
    """BIN_COUNT: the factor with which a row in this bin may be loud, plus 1; F + 1 if there are
    several such factors."""
    near_rows: Int32
    """R + 1: the rows in bins that have `_NEAR_MARK`."""
    direction_rows: Int32
    """R x F: the row of each *near* direction, one that may be at the threshold: the bin of its row
    is between `lowest_bins` and `highest_bins` of its factor."""
    direction_factors: Int32
    """R x F: the factor of each near direction."""
    agreements: Float64
    """R x F: the agreement of each near direction."""
    n_near: Int64
    """1: the number of near directions."""
    n_loud: NDArray[np.uint16]
    """R: the number of directions of each row that are above the threshold."""
    group_ends: Int32
    """R / ROWS_PER_GROUP: the number of directions above the threshold in all rows up to the end
    of each group."""


@compile_inner
def make_selection(n_rows: int, factors: int) -> Selection:
    """Allocate the memory; `n_loud` is padded with zeros to whole groups."""
    groups = -(-n_rows // ROWS_PER_GROUP)
    return Selection(
        np.empty(n_rows, np.uint16),
        np.empty(BIN_COUNT + 1, np.int32),
        np.empty(factors, np.int32),
        np.empty(factors, np.int32),
        np.empty(BIN_COUNT + 1, np.uint16),
        np.empty(BIN_COUNT, np.uint16),
        np.empty(n_rows + 1, np.int32),
        np.empty(n_rows * factors, np.int32),
        np.empty(n_rows * factors, np.int32),
        np.empty(n_rows * factors, np.float64),
        np.zeros(1, np.int64),
        np.zeros(groups * ROWS_PER_GROUP, np.uint16),
        np.empty(groups, np.int32),
    )


@compile_inner
def find_largest_magnitude(bits: UInt32) -> np.uint32:
    """Return the bits of the largest magnitude. Bits are in the same order as magnitudes."""
    largest = np.uint32(0)
    for r in range(bits.shape[0]):
        largest = max(largest, np.uint32(bits[r] & _MAGNITUDE_MASK))
    return largest


@compile_inner
def fill_keys(bits: UInt32, lowest: int, keys: NDArray[np.uint16]) -> np.int32:
    """Fill in the bin of every row and return the lowest bin."""
    base, lowest_bin = np.int32(lowest), np.int32(BIN_COUNT)
    for r in range(bits.shape[0]):
        key = max(np.int32(np.int32((bits[r] & _MAGNITUDE_MASK) >> _BIN_SHIFT) - base), np.int32(0))
        keys[r] = np.uint16(key)
        lowest_bin = min(lowest_bin, key)
    return lowest_bin


@compile_inner
def count_bins(a: Float32, s: Selection) -> tuple[np.float32, np.int32]:
    """Fill `keys`, count the rows of each bin, and return the largest row and the lowest bin."""
    bits, rows_above = a.view(np.uint32), s.rows_above
    largest = find_largest_magnitude(bits)
    lowest_bin = fill_keys(bits, np.int64(largest >> _BIN_SHIFT) - (BIN_COUNT - 1), s.keys)
    rows_above[lowest_bin:] = 0
    for r in range(a.shape[0]):
        rows_above[s.keys[r]] += 1
    return np.uint32(largest).view(np.float32), lowest_bin


@compile_inner
def accumulate_rows_above(start: int, stop: int, rows_above: Int32) -> None:
    """Add the counts of all higher bins to each count, from bin `start` down to `stop`."""
    total = rows_above[start + 1]
    for key in range(start, stop - 1, -1):
        total += rows_above[key]
        rows_above[key] = total


@compile_inner
def get_bin(value: float, largest: np.float32) -> np.int64:
    """Return the bin of a magnitude, or BIN_COUNT if it is above that of the largest row."""
    # The comparison is also false for NaN, the result of 0 / 0 if the factor of x is 0.
    if not value <= largest:
        return np.int64(BIN_COUNT)
    lowest = np.int64(np.float32(largest).view(np.uint32) >> _BIN_SHIFT) - (BIN_COUNT - 1)
    key = np.int64(np.float32(value).view(np.uint32) >> _BIN_SHIFT) - lowest
    return max(key, np.int64(0))


@compile_inner
def bracket_threshold(
    x: Float32, count: int, largest: np.float32, lowest_bin: int, s: Selection
) -> int:
    """Fill in `lowest_bins` and `highest_bins`, between which the threshold is for each factor.

    Returns:
        The number of directions that are certainly above the threshold.
    """
    # Whole bins are counted. So a count may be too high but never too low, and the agreement of
    # every direction that is counted is at least _ONE_BIN_LOWER times the value.
    sizes = np.abs(x).astype(np.float64)
    largest_size = sizes.max()
    high = np.float64(2 * np.float64(largest) * largest_size).view(np.int64)
    low = high
    lowest = max(high - np.int64(_SEARCHED_OCTAVES), np.int64(0))
    # Go down octave by octave first, so that only few bins must be added up.
    added = np.int64(BIN_COUNT)
    while low > lowest:
        low = max(low - np.int64(_ONE_OCTAVE), lowest)
        value = np.int64(low).view(np.float64)
        down = max(get_bin(value / largest_size, largest), np.int64(lowest_bin))
        accumulate_rows_above(added - 1, down, s.rows_above)
        added = min(added, down)
        if count_agreeing(value, sizes, largest, added, s.rows_above) >= count:
            break
        high = low if low > lowest else high
    while high - low > _BRACKET_WIDTH:
        middle = low + (high - low) // 2
        if (
            count_agreeing(np.int64(middle).view(np.float64), sizes, largest, added, s.rows_above)
            < count
        ):
            high = middle
        else:
            low = middle
    least = _ONE_BIN_LOWER * np.int64(low).view(np.float64)
    bounded = low > lowest
    for f in range(x.shape[0]):
        # The lower bound is used only if it is in a narrow bin for every factor: the lowest bin has
        # no lower end, and the bins of subnormal numbers are wide.
        row = least / sizes[f]
        bounded &= row >= _MIN_NORMAL_ROW and get_bin(row, largest) > 0
    upper, surely = np.int64(high).view(np.float64) * (1 + 2.0**-20), 0
    for f in range(x.shape[0]):
        s.lowest_bins[f] = get_bin(least / sizes[f] if bounded else 0.0, largest)
        s.highest_bins[f] = min(get_bin(upper / sizes[f], largest), BIN_COUNT - 1)
        surely += s.rows_above[max(s.highest_bins[f] + 1, added)]
    return surely


@compile_inner
def count_agreeing(
    value: float, sizes: Float64, largest: np.float32, added: int, rows_above: Int32
) -> int:
    """Count the directions whose agreement is at least this value, or up to one bin below it.

    Rows below bin `added`, the lowest one that `rows_above` has been filled in for, do not count.
    """
    total = 0
    for f in range(sizes.shape[0]):
        total += rows_above[max(get_bin(value / sizes[f], largest), added)]
    return total


@compile_inner
def mark_bins(s: Selection) -> None:
    """Fill `sure_factors` and `only_factor`."""
    factors = s.lowest_bins.shape[0]
    low, high = np.int64(s.lowest_bins.min()), np.int64(s.highest_bins.max()) + 1
    s.only_factor[low:high] = 0
    s.sure_factors[: high + 1] = 0
    for f in range(factors):
        s.sure_factors[s.highest_bins[f] + 1] += np.uint16(1)
        for key in range(s.lowest_bins[f], s.highest_bins[f] + 1):
            s.only_factor[key] = f + 1 if s.only_factor[key] == 0 else factors + 1
    total = np.uint16(0)
    for key in range(low, high + 1):
        total = np.uint16(total + s.sure_factors[key])
        s.sure_factors[key] = total
    s.sure_factors[high + 1 :] = total
    for f in range(factors):
        for key in range(s.lowest_bins[f], s.highest_bins[f] + 1):
            s.sure_factors[key] |= _NEAR_MARK


@compile_inner
def look_up_rows(keys: NDArray[np.uint16], s: Selection) -> np.int64:
    """Fill in `near_rows`, and count the directions that are certainly loud.

    They are counted by row in `n_loud`, and by group in `group_ends` (not yet summed over groups).

    Returns:
        The number of rows in `near_rows`, which must be compared exactly.
    """
    # Four counts of 16 bits are added at once. They do not overflow: each is the sum of 8 rows with
    # at most 256 factors.
    n_loud, sure_factors, n = s.n_loud, s.sure_factors, np.int64(0)
    for r in range(keys.shape[0]):
        n_loud[r] = sure_factors[np.uint64(keys[r])]
    fours = n_loud.view(np.uint64)
    for g in range(s.group_ends.shape[0]):
        own = np.uint64(0)
        for t in range(g * (ROWS_PER_GROUP // 4), (g + 1) * (ROWS_PER_GROUP // 4)):
            four = fours[t]
            own += four & ~_FOUR_NEAR_MARKS
            if four & _FOUR_NEAR_MARKS:
                fours[t] = four & ~_FOUR_NEAR_MARKS
                for q in range(4):
                    s.near_rows[n] = 4 * t + q
                    n += np.int64((four >> np.uint64(16 * q + 15)) & np.uint64(1))
        total = np.int32(0)
        for shift in range(0, 64, 16):
            total += np.int32((own >> np.uint64(shift)) & np.uint64(0xFFFF))
        s.group_ends[g] = total
    return n


@compile_inner
def list_near(a: Float32, x: Float32, s: Selection) -> int:
    """List the near directions and count the certainly loud ones; return the list's length."""
    mark_bins(s)
    n, factors = 0, x.shape[0]
    for t in range(look_up_rows(s.keys, s)):
        row = np.int64(s.near_rows[t])
        key, size = s.keys[row], abs(np.float64(a[row]))
        only = np.int64(s.only_factor[key])
        several = only > factors
        for f in range(0 if several else only - 1, factors if several else only):
            if s.lowest_bins[f] <= key <= s.highest_bins[f]:
                s.direction_rows[n], s.direction_factors[n] = row, f
                s.agreements[n] = abs(np.float64(x[f])) * size
                n += 1
    return n


@compile_inner
def select_nth_largest(values: Float64, n: int) -> float:
    """Return the n-th largest value. The order of `values` is changed."""
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
def find_loud(a: Float32, x: Float32, count: int, s: Selection) -> float:
    """Select the loud directions and return the threshold."""
    largest, lowest_bin = count_bins(a, s)
    missing = count - bracket_threshold(x, count, largest, lowest_bin, s)
    n = list_near(a, x, s)
    s.n_near[0] = n
    # If the list of near directions is too short, the remaining loud directions have an agreement
    # of 0.
    threshold = select_nth_largest(s.agreements[:n].copy(), missing) if missing <= n else 0.0
    for t in range(n):
        if s.agreements[t] > threshold:
            s.n_loud[s.direction_rows[t]] += np.uint16(1)
            s.group_ends[s.direction_rows[t] // ROWS_PER_GROUP] += 1
    for g in range(1, s.group_ends.shape[0]):
        s.group_ends[g] += s.group_ends[g - 1]
    return threshold


@compile_inner
def get_nth_loud(a: Float32, x: Float32, threshold: float, rank: int, s: Selection) -> int:
    """Return the direction with this rank among those above the threshold, ordered by index."""
    # Find the first group whose `group_ends` is above the rank.
    low, high = 0, s.group_ends.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if s.group_ends[middle] > rank:
            high = middle
        else:
            low = middle + 1
    before, row = np.int64(s.group_ends[low - 1] if low > 0 else 0), low * ROWS_PER_GROUP
    left = np.int64(rank) - before
    while left >= s.n_loud[row]:
        left -= np.int64(s.n_loud[row])
        row += 1
    size = abs(np.float64(a[row]))
    f = -1
    while left >= 0:
        f += 1
        left -= np.int64(abs(np.float64(x[f])) * size > threshold)
    return sign_direction(a, x, row, f)


@compile_inner
def sign_direction(a: Float32, x: Float32, row: int, f: int) -> int:
    """Return the direction of a row and a factor, with the sign of `-a_r x_f`."""
    return (row * x.shape[0] + f) << 1 | np.int64((a[row] > 0) != (x[f] > 0))


@compile_inner
def list_tied(a: Float32, x: Float32, threshold: float, offset: int, s: Selection) -> Int64:
    """Return the directions at the threshold, in the order of `(signed + offset) mod 2n`."""
    n_signed, n = 2 * a.shape[0] * x.shape[0], s.n_near[0]
    if threshold == 0:
        tied = list_silent(a, x)
    else:
        at = np.flatnonzero(s.agreements[:n] == threshold)
        tied = np.empty(at.shape[0], np.int64)
        for t in range(at.shape[0]):
            tied[t] = sign_direction(
                a, x, np.int64(s.direction_rows[at[t]]), np.int64(s.direction_factors[at[t]])
            )
    if tied.shape[0] > 1:
        # Directions are in ascending order. Those that the offset moves beyond the end come first.
        carried = tied.shape[0]
        while carried > 0 and tied[carried - 1] + offset >= n_signed:
            carried -= 1
        tied = np.concatenate((tied[carried:], tied[:carried]))
    return tied


@compile_inner
def list_silent(a: Float32, x: Float32) -> Int64:
    """Return the directions with an agreement of 0, with either sign."""
    rows, factors = a.shape[0], x.shape[0]
    directions, n = np.empty(2 * rows * factors, np.int64), 0
    for index in range(rows * factors):
        if a[index // factors] == 0 or x[index % factors] == 0:
            directions[n], directions[n + 1] = index << 1, index << 1 | 1
            n += 2
    return directions[:n]
