"""Which directions one person's gradient makes loud: exactly L of 2n, whatever the gradient.

A signed direction is `index << 1 | bit`, bit 1 for plus. The gradient `-2 e x^T` agrees with the
direction (r, f) by `|a_r| |x_f|`, with the sign of `-a_r x_f`. Two float32 multiplied in float64
have no rounding, so everybody finds the same order in every language.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]
    Int64 = NDArray[np.int64]


PIECE = 1 << 20
"""Directions that are looked at at once."""


@dataclass(frozen=True)
class Loud:
    """The `count` signed directions that agree most, in an order that `at` counts in.

    First those above the least agreement that is loud, in the order of their index. Then those
    with exactly the least agreement, in the order of `(signed + offset) mod 2n`, until there are
    `count`. The offset is random, so ties favour nobody, and there are `count` also if everything
    is zero.
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
        ends = np.cumsum(self._loud_by_row)
        louder = ranks < ends[-1]
        row = np.searchsorted(ends, ranks[louder], "right")
        place = ranks[louder] - (ends - self._loud_by_row)[row]
        agreement = self._sizes * np.abs(self.a[row, None]).astype(np.float64)
        factor = np.argmax(np.cumsum(agreement > self._least, axis=1) > place[:, None], axis=1)
        found = np.empty(ranks.shape, np.int64)
        found[louder] = self._signed(row, factor)
        found[~louder] = self._tied_at(ranks[~louder] - ends[-1])
        return found

    @cached_property
    def _sizes(self) -> Float64:
        return np.abs(self.x).astype(np.float64)

    def _agreement(self, f: int) -> Float64:
        """Of every row with one factor."""
        return np.asarray(self._sizes[f] * np.abs(self.a).astype(np.float64))

    @cached_property
    def _loud_by_row(self) -> Int64:
        """How many factors of each row lie above the least agreement; never more than R numbers."""
        found = np.zeros(self.a.size, np.int64)
        for f in range(self.x.size):
            found += self._agreement(f) > self._least
        return found

    @cached_property
    def _least(self) -> float:
        """The least agreement that is loud.

        Where there are too many to look at at once, it is found in the bits of a float64, which
        order alike.
        """
        if self.a.size * self.x.size <= PIECE:
            agreement = np.outer(self._sizes, np.abs(self.a).astype(np.float64)).ravel()
            return float(np.partition(agreement, -self.count)[-self.count])
        low, high = 0, int(np.float64(np.finfo(np.float64).max).view(np.uint64))
        while high - low > 1:  # `low` is reached by at least `count`, `high` by fewer
            middle = (low + high) // 2
            reached = self._reaching(_float(middle)) >= self.count
            low, high = (middle, high) if reached else (low, middle)
        return _float(low)

    @cached_property
    def _magnitudes(self) -> Float64:
        """Of the rows, ascending."""
        return np.sort(np.abs(self.a)).astype(np.float64)

    def _reaching(self, value: float) -> int:
        """How many directions agree by at least so much."""
        rows, n = self._magnitudes, self.a.size
        return sum(n - bisect_left(rows, value, key=f.__mul__) for f in self._sizes.tolist())

    def _tied_at(self, ranks: Int64) -> Int64:
        """Of those with exactly the least agreement (of zeros both signs) the ones at these ranks.

        They are looked for in their order, and not listed: of zeros alone there are 2n.
        """
        found, seen, n_signed = np.empty(ranks.shape, np.int64), 0, 2 * self.a.size * self.x.size
        for start in range(0, n_signed if ranks.size else 0, PIECE):
            signed = (np.arange(start, min(start + PIECE, n_signed)) - self.offset) % n_signed
            tied = signed[self._ties(signed)]
            here = (ranks >= seen) & (ranks < seen + len(tied))
            found[here] = tied[ranks[here] - seen]
            seen += len(tied)
        return found

    def _ties(self, signed: Int64) -> NDArray[np.bool_]:
        row, factor = np.divmod(signed >> 1, self.x.size)
        agreement = self._sizes[factor] * np.abs(self.a[row]).astype(np.float64)
        fits = (self._least == 0) | (self._signed(row, factor) == signed)
        return np.asarray((agreement == self._least) & fits)

    def _signed(self, row: Int64, factor: Int64) -> Int64:
        """With the sign of `-a_r x_f`: down the loss."""
        index = row * self.x.size + factor
        return np.asarray(index << 1 | ((self.a[row] > 0) != (self.x[factor] > 0)))


def _float(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))
