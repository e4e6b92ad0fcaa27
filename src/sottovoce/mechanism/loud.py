"""Which directions one person's gradient makes loud: exactly L of 2n, whatever the gradient.

A signed direction is `index << 1 | bit`, bit 1 for plus. The gradient `-2 e x^T` agrees with the
direction (r, f) by `|a_r| |x_f|`, with the sign of `-a_r x_f`. Two float32 multiplied in float64
have no rounding, so everybody finds the same order in every language.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]
    Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Loud:
    """The `count` signed directions that agree most, in an order that `at` counts in.

    First those above the least agreement that is loud: factor after factor, each with its rows by
    falling magnitude (of equal ones the lower row first). In this order the loud rows of a factor
    are the first few, so nothing has to be listed. Then those with exactly the least agreement: in
    the order of `(signed + offset) mod 2n`, until there are `count`. The offset is random, so ties
    favour nobody, and there are `count` also if everything is zero.
    """

    a: Float32
    """R."""
    x: Float32
    """F."""
    count: int
    """L, at most n = R F."""
    offset: int

    @property
    def is_silent(self) -> bool:
        """Whether everything ties at zero: then the offset alone says what is loud."""
        return not (self.a.any() and self.x.any())

    def at(self, ranks: Int64) -> Int64:
        """The loud directions at these places, from 0 to `count - 1`."""
        above = ranks < self._ends[-1]
        factor = np.searchsorted(self._ends, ranks[above], "right")
        row = self._rows[ranks[above] - (self._ends - self._steps)[factor]]
        found = np.empty(ranks.shape, np.int64)
        found[above] = self._signed(row * self.x.size + factor)
        found[~above] = self._tied[ranks[~above] - self._ends[-1]]
        return found

    @cached_property
    def _rows(self) -> Int64:
        """By falling magnitude."""
        return np.argsort(-np.abs(self.a), kind="stable")

    @cached_property
    def _magnitudes(self) -> Float64:
        """Of the rows, ascending."""
        return np.abs(self.a[self._rows[::-1]]).astype(np.float64)

    def _reaching(self, value: float, bisect: Callable[..., int]) -> Int64:
        """By factor, how many rows agree by at least so much (`bisect_left`) or more."""
        sizes = np.abs(self.x).astype(np.float64).tolist()
        ascending, n = self._magnitudes, self.a.size
        return np.array([n - bisect(ascending, value, key=size.__mul__) for size in sizes])

    @cached_property
    def _least(self) -> float:
        """The least agreement that is loud, found in the bits of a float64, which order alike."""
        low, high = 0, int(np.float64(np.finfo(np.float64).max).view(np.uint64))
        while high - low > 1:  # `low` is reached by at least `count`, `high` by fewer
            middle = (low + high) // 2
            reached = self._reaching(_float(middle), bisect_left).sum() >= self.count
            low, high = (middle, high) if reached else (low, middle)
        return _float(low)

    @cached_property
    def _steps(self) -> Int64:
        """By factor, how many rows lie above the least agreement."""
        return self._reaching(self._least, bisect_right)

    @cached_property
    def _ends(self) -> Int64:
        """Up to each factor, how many directions lie above the least agreement."""
        return np.cumsum(self._steps)

    @cached_property
    def _tied(self) -> Int64:
        """Those of exactly the least agreement, in their order; of zeros both signs."""
        reaching = self._reaching(self._least, bisect_left)
        ranges = zip(self._steps, reaching, strict=True)
        index = np.concatenate(
            [self._rows[a:b] * self.x.size + f for f, (a, b) in enumerate(ranges)]
        )
        both = np.concatenate([index << 1, index << 1 | 1])
        signed = both if self._least == 0 else self._signed(index)
        places = np.sort((signed + self.offset) % self._n_signed)
        return np.asarray((places - self.offset) % self._n_signed)

    @property
    def _n_signed(self) -> int:
        """2n."""
        return 2 * self.a.size * self.x.size

    def _signed(self, index: Int64) -> Int64:
        """With the sign of `-a_r x_f`: down the loss."""
        row, factor = np.divmod(index, self.x.size)
        return index << 1 | ((self.a[row] > 0) != (self.x[factor] > 0))


def _float(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))
