"""Which directions one person's gradient makes loud: exactly L of 2n, whatever the gradient.

There are n directions (`sottovoce.mechanism.blocks`). A *signed* direction is one of them with a
sign, as a report names it: `index << 1 | bit`, bit 1 for plus. There are 2n. Of the two signs of
(r, f) the one of `-a_r x_f` agrees with the gradient, by `|a_r| |x_f|` (the factor 2 changes no
order); the other agrees by minus that. The L signed directions that agree most are loud.

Everybody must find the same ones, in every language: a product of two float32 is exact in float64.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

PIECE = 1 << 20
"""Directions that are looked at together."""


@dataclass(frozen=True)
class Loud:
    """The `count` signed directions that agree most, numbered from 0.

    Let *least* be the agreement of the last one that is loud. Numbered first are all that agree
    by more than least, by index. Then come those that agree by exactly least, by `(signed +
    offset) mod 2n`, until there are `count`. The offset is random, so that ties favour no
    direction. There are always `count`, even where everything is zero.
    """

    a: Float32
    """By row, R numbers."""
    x: Float32
    """The user vector, F numbers."""
    count: int
    """L, at most n = R F."""
    offset: int
    """From 0 to 2n - 1."""

    @property
    def is_silent(self) -> bool:
        """Whether every agreement is 0: then the offset alone decides what is loud."""
        return not (self.a.any() and self.x.any())

    def at(self, ranks: Int64) -> Int64:
        """The loud directions with these numbers, from 0 to `count - 1`."""
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
        """Of every row, with factor f."""
        return np.asarray(self._sizes[f] * np.abs(self.a).astype(np.float64))

    @cached_property
    def _loud_by_row(self) -> Int64:
        """With how many factors each row agrees by more than least."""
        found = np.zeros(self.a.size, np.int64)
        for f in range(self.x.size):
            found += self._agreement(f) > self._least
        return found

    @cached_property
    def _least(self) -> float:
        """The agreement of the last loud direction: the `count`-th largest.

        Where there are too many to sort, by bisection over the bits of a float64: read as integers,
        they have the order of the (positive) floats.
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
        """|a|, ascending."""
        return np.sort(np.abs(self.a)).astype(np.float64)

    def _reaching(self, value: float) -> int:
        """How many directions agree by at least this value."""
        rows, n = self._magnitudes, self.a.size
        return sum(n - bisect_left(rows, value, key=f.__mul__) for f in self._sizes.tolist())

    def _tied_at(self, ranks: Int64) -> Int64:
        """Of those that agree by exactly least, the ones with these numbers.

        They are searched piece by piece, in their order: of zeros there may be 2n.
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
        """Whether each agrees by exactly least; at zero both signs of a direction do."""
        row, factor = np.divmod(signed >> 1, self.x.size)
        agreement = self._sizes[factor] * np.abs(self.a[row]).astype(np.float64)
        fits = (self._least == 0) | (self._signed(row, factor) == signed)
        return np.asarray((agreement == self._least) & fits)

    def _signed(self, row: Int64, factor: Int64) -> Int64:
        """The signed direction that agrees: with the sign of `-a_r x_f`, down the loss."""
        index = row * self.x.size + factor
        return np.asarray(index << 1 | ((self.a[row] > 0) != (self.x[factor] > 0)))


def _float(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))
