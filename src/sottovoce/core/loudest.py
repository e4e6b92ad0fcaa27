"""`loudest`: a report names a uniform direction, or one of those that agree most with the gradient.

There are n public directions (`sottovoce.core.blocks`), 2n with their signs. A person's
gradient makes exactly L of the 2n loud: those that agree with it most (`Loud`); the others are
quiet. With probability gamma a report is a uniform one of all 2n, else a uniform one
of the L loud ones. So whatever the history, a report has one of two probabilities:

    quiet:  gamma / 2n          loud:  gamma / 2n + (1 - gamma) / L

gamma makes their ratio e^eps, so the probabilities of a report under any two histories differ by at
most that factor. That is the whole proof.

b, the size of a block, and L are its two options. The functions below say which are best; they were
fitted on sets of histories and on splits that no result is reported for (docs/reference/model.md).
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import localcontext
from functools import cached_property
from math import ceil, exp, floor, log, log2, sinh, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import coin
from sottovoce.core.blocks import MOST_BLOCK, Blocks
from sottovoce.core.mechanism import COIN, DIRECTION, Mechanism, Shape
from sottovoce.core.model import Histories
from sottovoce.errors import SettingsError
from sottovoce.privacy import SIGN
from sottovoce.settings import setting

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

PIECE = 1 << 20
"""Directions that are looked at together."""


@dataclass(frozen=True)
class Loud:
    """The `count` signed directions that agree most with one gradient, numbered from 0.

    A *signed* direction has a sign, as a report names it: `index << 1 | bit`, bit 1 for plus. Of
    the two signs of (r, f) the one of `-a_r x_f` agrees with the gradient, by `|a_r| |x_f|` (the
    factor 2 changes no order); the other by minus that. Everybody must find the same ones, in every
    language: a product of two float32 is exact in float64.

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
        agreement = self._sizes * self._rows[row, None]
        factor = np.argmax(np.cumsum(agreement > self._least, axis=1) > place[:, None], axis=1)
        found = np.empty(ranks.shape, np.int64)
        found[louder] = self._signed(row, factor)
        found[~louder] = self._tied_at(ranks[~louder] - ends[-1])
        return found

    @cached_property
    def _sizes(self) -> Float64:
        return np.abs(self.x).astype(np.float64)

    @cached_property
    def _rows(self) -> Float64:
        return np.abs(self.a).astype(np.float64)

    @cached_property
    def _loud_by_row(self) -> Int64:
        """With how many factors each row agrees by more than least."""
        found = np.zeros(self.a.size, np.int64)
        for size in self._sizes:
            found += size * self._rows > self._least
        return found

    @cached_property
    def _least(self) -> float:
        """The agreement of the last loud direction: the `count`-th largest.

        Where there are too many to sort, by bisection over the bits of a float64: read as integers,
        they have the order of the (positive) floats.
        """
        if self.a.size * self.x.size <= PIECE:
            agreement = np.outer(self._sizes, self._rows).ravel()
            return float(np.partition(agreement, -self.count)[-self.count])
        rows, sizes = np.sort(self._rows), self._sizes.tolist()
        low, high = 0, int(np.float64(np.finfo(np.float64).max).view(np.uint64))
        while high - low > 1:  # `low` is reached by at least `count`, `high` by fewer
            middle = (low + high) // 2
            below = sum(bisect_left(rows, _float(middle), key=size.__mul__) for size in sizes)
            reached = self.a.size * self.x.size - below >= self.count
            low, high = (middle, high) if reached else (low, middle)
        return _float(low)

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
        agreement = self._sizes[factor] * self._rows[row]
        fits = (self._least == 0) | (self._signed(row, factor) == signed)
        return np.asarray((agreement == self._least) & fits)

    def _signed(self, row: Int64, factor: Int64) -> Int64:
        """The signed direction that agrees: with the sign of `-a_r x_f`, down the loss."""
        index = row * self.x.size + factor
        return np.asarray(index << 1 | ((self.a[row] > 0) != (self.x[factor] > 0)))


def _float(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))


QUIET = 3.2
"""Up to this epsilon the size of a block hardly changes what a report says."""


def usual_history(n_items: int) -> float:
    """How many items a typical person has touched, where nobody says: 2% of them, within 10..200.

    It is the only number about people that the rules here depend on, and it is public.
    """
    return min(max(0.02 * n_items, 10.0), 200.0)


def usual_block(epsilon: float, n_items: int, history: float) -> int:
    """The best b.

    Where a report says little, blocks must be large enough that most hold an item of everybody's.

    >>> [usual_block(epsilon, 9781, 200) for epsilon in (0.5, 1, 2.5, 4, 5, 10)]
    [512, 256, 64, 8, 2, 1]
    """
    best = 1 << min(max(floor(10.65 - 1.8 * epsilon), 0), 10)
    shared = 1 << floor(log2(max(1.32 * n_items / history, 1)))
    return min(max(best, shared), MOST_BLOCK) if epsilon <= QUIET else best


def usual_fraction(epsilon: float, n_items: int, history: float, block: int) -> float:
    """The best rho = L / 2n: neither too few loud directions nor too many.

    With fewer than 20 F, people with long histories would report only their least predictable
    items, and quality would fall while epsilon rises (the term `10 / n_items`). Loud directions
    beyond those that somebody's items point to are noise (`most`).

    >>> [round(usual_fraction(e, 9781, 200, b), 4) for e, b in ((1, 256), (2.5, 64), (5, 2))]
    [0.2614, 0.0578, 0.0075]
    """
    wanted = 0.5 * exp(-0.87 * epsilon * min(0.5 + epsilon / 4, 1)) + 10 / n_items
    most: float = history / 4 * block**0.8 / n_items
    return min(SIGN, wanted, most)


def usual_gain(epsilon: float, n_items: int) -> float:
    """How much of a unit gradient a report carries at the best b and rho.

    >>> [round(usual_gain(epsilon, 9781), 2) for epsilon in (1, 2.5, 5, 10)]
    [0.31, 0.96, 3.52, 14.43]
    """
    return 1 / sqrt(2.8 / sinh(epsilon / 2) ** 2 + 42 / n_items)


def _share_of(rho: float, n_signed: int) -> int:
    """L of 2n for this rho, rounded: at least one, at most half of them."""
    return min(max(floor(n_signed * rho + 0.5), 1), n_signed // 2)


class LoudestConstants(NamedTuple):
    """What a kernel needs: see `Loudest` and `Blocks`."""

    threshold: np.uint64
    """`blanket_below`."""
    n_signed: np.uint64
    loud: int
    signs: Float32
    places: Int64
    size: int
    item_rows_by_factor: Float32
    """F x R, so that a pass over all rows is contiguous."""
    inner_signs: Float32


@dataclass(frozen=True)
class Loudest(Mechanism):
    """Our default. `block` is b and `loud` is L; where one is 0, the best is chosen."""

    directions_seed: int = 0
    block: int = setting(
        0,
        "items in a block of directions, a power of two; 0 means the best for this epsilon",
        least=0,
        most=MOST_BLOCK,
    )
    loud: int = setting(
        0, "number of loud directions, signs counted; 0 means the best for this epsilon", least=0
    )

    name: ClassVar[str] = "loudest"
    # What counts is the share of loud directions, and the terms have it as a field of its own.
    unpinned: ClassVar[tuple[str, ...]] = ("directions_seed", "loud")
    example: ClassVar[Mapping[str, Any]] = {"block": 2, "loud": 1}

    def __post_init__(self) -> None:
        if self.block == 0:
            items = self.shape.n_items
            best = usual_block(self.epsilon, items, usual_history(items))
            object.__setattr__(self, "block", best)
        if not (1 <= self.block <= MOST_BLOCK and self.block & (self.block - 1) == 0):
            raise SettingsError(
                f"block must be a power of two up to {MOST_BLOCK}, or 0 for the best"
            )
        super().__post_init__()
        if not 0 <= self.loud <= self.n_directions:
            raise SettingsError(
                f"loud must be from 1 to {self.n_directions} (half of the signed directions), or 0 "
                f"for the best number, got {self.loud}"
            )
        if self.loud == 0:
            items = self.shape.n_items
            rho = usual_fraction(self.epsilon, items, usual_history(items), self.block)
            object.__setattr__(self, "loud", _share_of(rho, self.n_signed))

    @classmethod
    def crowd_epsilon(cls, n_items: int) -> float:
        """Larger for larger catalogues, where the louder directions are fewer of all."""
        return min(max(1.45 * log(n_items) - 9.3, 2.0), 4.0)

    @classmethod
    def crowd_fraction(cls, epsilon: float, n_items: int, history: float) -> float:
        """A third of the usual one: fewer loud directions are better hidden."""
        block = usual_block(epsilon, n_items, history)
        return usual_fraction(epsilon, n_items, history, block) / 3

    @classmethod
    def planned_options(
        cls,
        shape: Shape,
        epsilon: float,
        history: float,
        given: Mapping[str, Any],
        *,
        louder: float,
    ) -> dict[str, Any]:
        """For a crowd, fewer loud directions in smaller blocks, where each agrees more.

        With one factor, which is popularity: of quiet reports more of them in larger blocks, for
        every touched item tells something about it; of loud ones fewer, or people with short
        histories would name items that they have not touched.
        """
        is_one, is_quiet = shape.factors == 1, epsilon <= QUIET
        usual = usual_block(epsilon, shape.n_items, history)
        usual = MOST_BLOCK if is_one and is_quiet else usual
        block = given.get("block") or (max(usual // 4, 1) if louder < 1 else usual)
        if louder < 1:
            rho = cls.crowd_fraction(epsilon, shape.n_items, history)
        else:
            rho = usual_fraction(epsilon, shape.n_items, history, block) * louder
            if is_one:
                few = louder * history / 10 * block**0.8 / shape.n_items
                rho = min(max(1.5 * rho, 0.2), 0.4) if is_quiet else min(1.5 * rho, few)
        rho = min(rho, SIGN)
        # Rounded down: a budget was counted with rho.
        signed = cls(shape, epsilon, block=block, loud=1).n_signed
        return {"block": block, "loud": given.get("loud") or max(int(signed * rho), 1)}

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        if 0 in (public["loud"], public["block"]):
            raise SettingsError("loudest needs its block and its number of loud directions")
        return super().from_manifest(shape, epsilon, public)

    def for_items(self, n_items: int) -> Self:
        """The same b, and no larger rho."""
        shape = replace(self.shape, n_items=n_items)
        signed = replace(self, shape=shape, loud=1).n_signed
        return replace(self, shape=shape, loud=max(self.loud * signed // self.n_signed, 1))

    @cached_property
    def blocks(self) -> Blocks:
        return Blocks(self.shape, self.directions_seed, self.block)

    @property
    def n_directions(self) -> int:
        """Without their signs: n."""
        return self.blocks.n_directions

    @property
    def n_signed(self) -> int:
        """2n: each direction with plus and with minus."""
        return 2 * self.n_directions

    @property
    def loud_fraction(self) -> float:
        """L / 2n, called rho."""
        return self.loud / self.n_signed

    @property
    def gain(self) -> float:
        """As measured at the best b and rho; for others it is only roughly right."""
        return usual_gain(self.epsilon, self.shape.n_items)

    @cached_property
    def blanket_below(self) -> int:
        """A coin below this names a uniform direction: gamma * 2^64.

        2^64 words cannot be divided evenly among L or 2n directions: some get one word more. So
        gamma is computed for the likeliest of the L and the least likely of the 2n, and rounded up:
        no ratio exceeds e^eps.
        """
        likeliest, least = -(-coin.WORD // self.loud), coin.WORD // self.n_signed
        with localcontext() as context:
            context.prec = 80
            odds = (coin.exp_epsilon(self.epsilon) - 1) * least
            return ceil(coin.WORD * likeliest / (odds + likeliest))

    @property
    def gamma(self) -> float:
        """The probability that a report does not depend on the history."""
        return self.blanket_below / coin.WORD

    def reports(
        self, V: Float32, X: Float32, histories: Histories, random_words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        offset = coin.multiply_high(random_words[:, -1, DIRECTION], self.n_signed)
        choice = random_words[:, :-1, DIRECTION]
        uniform = coin.multiply_high(choice, self.n_signed)
        rank = coin.multiply_high(choice, self.loud)
        loud = self.loud_sets(V, X, histories, offset)
        named = np.array([each.at(ranks) for each, ranks in zip(loud, rank, strict=True)])
        at_random = random_words[:, :-1, COIN] < np.uint64(self.blanket_below)
        return np.where(at_random, uniform, named.reshape(rank.shape)).astype(np.uint32)

    def loud_sets(self, V: Float32, X: Float32, histories: Histories, offset: Int64) -> list[Loud]:
        """What each person's gradient makes loud, given the offset that orders ties."""
        a = self.blocks.all_rows(V, X, histories)
        each = zip(a, X, offset.tolist(), strict=True)
        return [Loud(rows, x, self.loud, start) for rows, x, start in each]

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Loud ones have `gamma e^eps`, quiet ones `gamma`; where all is zero, every one has 1."""
        density = np.full((histories.n_users, self.n_signed), self.gamma, np.float32)
        no_offset, everything = np.zeros(histories.n_users, np.int64), np.arange(self.loud)
        for row, loud in zip(density, self.loud_sets(V, X, histories, no_offset), strict=True):
            row[loud.at(everything)] = self.gamma * exp(self.epsilon)
            if loud.is_silent:
                row[:] = 1
        return density

    def constants(self, V: Float32) -> LoudestConstants:
        blocks = self.blocks
        return LoudestConstants(
            threshold=np.uint64(self.blanket_below),
            n_signed=np.uint64(self.n_signed),
            loud=self.loud,
            signs=blocks.signs,
            places=blocks.places,
            size=self.block,
            item_rows_by_factor=np.ascontiguousarray(blocks.item_rows(V).T),
            inner_signs=blocks.inner_signs,
        )

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        return self.blocks.mean_direction(sums, n_reports, self.gain)
