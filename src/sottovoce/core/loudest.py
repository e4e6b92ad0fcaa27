"""`loudest`: a report names a uniform direction, or one of those that agree most with the gradient.

There are n public directions (`sottovoce.core.blocks`), and 2n signed ones: each direction with
each sign. The L signed directions that agree most with a person's gradient are loud (`LoudSet`);
the others are quiet. With probability gamma, a report is drawn uniformly from all 2n signed
directions, otherwise uniformly from the L loud ones. So each signed direction is reported with one
of two probabilities, whatever the history:

    quiet:  gamma / 2n          loud:  gamma / 2n + (1 - gamma) / L

gamma is chosen so that the ratio of these probabilities is e^eps. So the probabilities of a report
under any two histories differ by at most the factor e^eps, which proves that a report is eps-LDP.

The two options are b, the size of a block, and L, the number of loud directions. The `choose_`
functions return the best values. Their formulas were fitted on splits of data for which no result
is reported (docs/reference/model.md).
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, floor, log2, sinh, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import coin
from sottovoce.core.blocks import MAX_BLOCK_SIZE, Blocks
from sottovoce.core.histories import Histories
from sottovoce.core.mechanism import COIN_WORD, DIRECTION_WORD, Mechanism, Shape
from sottovoce.errors import SettingsError
from sottovoce.privacy import COIN_RHO
from sottovoce.settings import setting

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

# Up to this epsilon, the size of a block has little influence on the gain of a report (see
# `estimate_gain`).
LOW_EPSILON = 3.2

# Number of directions that are compared at once. It limits the memory for the comparison.
DIRECTIONS_PER_PIECE = 1 << 20


@dataclass(frozen=True)
class LoudSet:
    """The `count` signed directions that agree most with one gradient, numbered from 0.

    A *signed* direction is a direction with a sign, as a report names it: `index << 1 | bit`, bit 1
    for plus. The direction (r, f) with the sign of `-a_r x_f` agrees with the gradient by
    `|a_r| |x_f|`, which is half of their inner product. With the other sign it agrees by
    `-|a_r| |x_f|`.

    The threshold is the agreement of the last loud direction. Directions with a larger agreement
    come first, ordered by index. Directions at the threshold follow, ordered by
    `(signed + offset) mod 2n`, until the set has `count` directions. The offset is random, so that
    ties favour no direction. The set always has `count` directions, even if all agreements are
    zero.
    """

    a: Float32
    """The inner product of each row with the residuals, R numbers (`sottovoce.core.blocks`)."""
    x: Float32
    """The user vector, F numbers."""
    count: int
    """L, at most n = R F."""
    offset: int
    """A random number from 0 to 2n - 1."""

    @property
    def is_silent(self) -> bool:
        """Whether every agreement is 0, so that only the offset decides what is loud."""
        return not (self.a.any() and self.x.any())

    def get(self, ranks: Int64) -> Int64:
        """Return the loud directions with these numbers, which are from 0 to `count - 1`."""
        ends = np.cumsum(self._counts_above)
        above = ranks < ends[-1]
        row = np.searchsorted(ends, ranks[above], "right")
        place = ranks[above] - (ends - self._counts_above)[row]
        agreement = self._sizes * self._rows[row, None]
        factor = np.argmax(np.cumsum(agreement > self._threshold, axis=1) > place[:, None], axis=1)
        directions = np.empty(ranks.shape, np.int64)
        directions[above] = self._add_sign(row, factor)
        directions[~above] = self._get_tied(ranks[~above] - ends[-1])
        return directions

    # A product of two float32 is exact in float64, so every language computes the same agreements.

    @cached_property
    def _sizes(self) -> Float64:
        return np.abs(self.x).astype(np.float64)

    @cached_property
    def _rows(self) -> Float64:
        return np.abs(self.a).astype(np.float64)

    @cached_property
    def _counts_above(self) -> Int64:
        """For each row, the number of factors for which the agreement is above the threshold."""
        counts = np.zeros(self.a.size, np.int64)
        for size in self._sizes:
            counts += size * self._rows > self._threshold
        return counts

    @cached_property
    def _threshold(self) -> float:
        """The agreement of the last loud direction: the `count`-th largest."""
        if self.a.size * self.x.size <= DIRECTIONS_PER_PIECE:
            agreement = np.outer(self._sizes, self._rows).ravel()
            return float(np.partition(agreement, -self.count)[-self.count])
        # A list of all agreements would be too large, so the threshold is found by bisection over
        # the bits of a float64. The bits of positive floats, read as integers, are in the same
        # order as the floats.
        rows, sizes = np.sort(self._rows), self._sizes.tolist()
        low, high = 0, int(np.float64(np.finfo(np.float64).max).view(np.uint64))
        # At least `count` directions reach `low`, and fewer reach `high`.
        while high - low > 1:
            middle = (low + high) // 2
            below = sum(
                bisect_left(rows, _bits_to_float(middle), key=size.__mul__) for size in sizes
            )
            is_reached = self.a.size * self.x.size - below >= self.count
            low, high = (middle, high) if is_reached else (low, middle)
        return _bits_to_float(low)

    def _get_tied(self, ranks: Int64) -> Int64:
        """Return the directions at the threshold with these ranks. The first one has rank 0."""
        directions, seen = np.empty(ranks.shape, np.int64), 0
        n_signed = 2 * self.a.size * self.x.size
        # Search in pieces, because all 2n directions are tied if every agreement is zero.
        for start in range(0, n_signed if ranks.size else 0, DIRECTIONS_PER_PIECE):
            end = min(start + DIRECTIONS_PER_PIECE, n_signed)
            signed = (np.arange(start, end) - self.offset) % n_signed
            tied = signed[self._is_tied(signed)]
            in_piece = (ranks >= seen) & (ranks < seen + len(tied))
            directions[in_piece] = tied[ranks[in_piece] - seen]
            seen += len(tied)
        return directions

    def _is_tied(self, signed: Int64) -> NDArray[np.bool_]:
        """Return whether each signed direction is exactly at the threshold."""
        row, factor = np.divmod(signed >> 1, self.x.size)
        agreement = self._sizes[factor] * self._rows[row]
        # If the threshold is zero, an agreement of zero ties both signs of a direction.
        has_sign = (self._threshold == 0) | (self._add_sign(row, factor) == signed)
        return np.asarray((agreement == self._threshold) & has_sign)

    def _add_sign(self, row: Int64, factor: Int64) -> Int64:
        """Return the directions (row, factor) with the sign of `-a_r x_f`, the one that agrees."""
        index = row * self.x.size + factor
        return np.asarray(index << 1 | ((self.a[row] > 0) != (self.x[factor] > 0)))


def _bits_to_float(bits: int) -> float:
    return float(np.uint64(bits).view(np.float64))


def estimate_history_length(n_items: int) -> float:
    """Return the default length of a typical history: 2% of all items, within 10 to 200.

    It is the only figure about people that determines b and L. It reveals nothing about them,
    because it follows from the size of the catalogue.
    """
    return min(max(0.02 * n_items, 10.0), 200.0)


def choose_block_size(epsilon: float, n_items: int, history: float) -> int:
    """Return the best size b of a block.

    Args:
        epsilon: Epsilon of one report.
        n_items: Number of items in the catalogue.
        history: Number of items in a typical history.

    >>> [choose_block_size(epsilon, 9781, 200) for epsilon in (0.5, 1, 2.5, 4, 5, 10)]
    [512, 256, 64, 8, 2, 1]
    """
    best = 1 << min(max(floor(10.65 - 1.8 * epsilon), 0), 10)
    # At a low epsilon, blocks should be so large that most of them contain an item of each history.
    min_size = 1 << floor(log2(max(1.32 * n_items / history, 1)))
    return min(max(best, min_size), MAX_BLOCK_SIZE) if epsilon <= LOW_EPSILON else best


def choose_loud_fraction(epsilon: float, n_items: int, history: float, block: int) -> float:
    """Return the best fraction of loud directions, rho = L / 2n.

    Args:
        epsilon: Epsilon of one report.
        n_items: Number of items in the catalogue.
        history: Number of items in a typical history.
        block: Size b of a block.

    >>> [round(choose_loud_fraction(e, 9781, 200, b), 4) for e, b in ((1, 256), (2.5, 64), (5, 2))]
    [0.2614, 0.0578, 0.0075]
    """
    # `10 / n_items` keeps at least 20 F directions loud. With fewer, people with long histories
    # would report only their least predictable items, and quality would fall as epsilon rises.
    best = 0.5 * exp(-0.87 * epsilon * min(0.5 + epsilon / 4, 1)) + 10 / n_items
    # The items of a history support only some loud directions; further ones are noise.
    max_fraction: float = history / 4 * block**0.8 / n_items
    return min(COIN_RHO, best, max_fraction)


def estimate_gain(epsilon: float, n_items: int) -> float:
    """Return the gain of a report at the best b and rho.

    The gain is the expected agreement of a report with a gradient of length 1.

    >>> [round(estimate_gain(epsilon, 9781), 2) for epsilon in (1, 2.5, 5, 10)]
    [0.31, 0.96, 3.52, 14.43]
    """
    return 1 / sqrt(2.8 / sinh(epsilon / 2) ** 2 + 42 / n_items)


def _count_loud(rho: float, n_signed: int) -> int:
    """Return L for this rho, rounded: at least one, at most half of all signed directions."""
    return min(max(floor(n_signed * rho + 0.5), 1), n_signed // 2)


class LoudestConstants(NamedTuple):
    """The input of `loudest` kernels; `Loudest` and `Blocks` describe the values."""

    threshold: np.uint64
    """The value of `Loudest.blanket_below`."""
    n_signed: np.uint64
    loud: int
    signs: Float32
    places: Int64
    size: int
    item_rows_by_factor: Float32
    """F x R, so that a pass over all rows is contiguous in memory."""
    inner_signs: Float32


@dataclass(frozen=True)
class Loudest(Mechanism):
    """The default mechanism. `block` is b and `loud` is L; 0 means the best value."""

    directions_seed: int = 0
    block: int = setting(
        0,
        "number of items in a block of directions, a power of two; 0: the best for this epsilon",
        min_value=0,
        max_value=MAX_BLOCK_SIZE,
    )
    loud: int = setting(
        0,
        "number of loud directions, where a direction counts once for each sign; 0: the best for "
        "this epsilon",
        min_value=0,
    )

    name: ClassVar[str] = "loudest"
    # The privacy promise depends on the fraction of loud directions, not on their number. The terms
    # state the fraction in a field of its own.
    changeable_parameters: ClassVar[tuple[str, ...]] = ("directions_seed", "loud")
    example: ClassVar[Mapping[str, Any]] = {"block": 2, "loud": 1}

    def __post_init__(self) -> None:
        if self.block == 0:
            items = self.shape.n_items
            best = choose_block_size(self.epsilon, items, estimate_history_length(items))
            object.__setattr__(self, "block", best)
        if not (1 <= self.block <= MAX_BLOCK_SIZE and self.block & (self.block - 1) == 0):
            raise SettingsError(
                f"block must be a power of two up to {MAX_BLOCK_SIZE}, or 0 for the best"
            )
        super().__post_init__()
        if not 0 <= self.loud <= self.n_directions:
            raise SettingsError(
                f"loud must be from 1 to {self.n_directions} (half of the signed directions), or 0 "
                f"for the best number, got {self.loud}"
            )
        if self.loud == 0:
            items = self.shape.n_items
            rho = choose_loud_fraction(
                self.epsilon, items, estimate_history_length(items), self.block
            )
            object.__setattr__(self, "loud", _count_loud(rho, self.n_signed))

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        # 0 means the best value, but a device must not choose what a manifest leaves open.
        if 0 in (public["loud"], public["block"]):
            raise SettingsError("a manifest of loudest must state block and loud; neither may be 0")
        return super().from_manifest(shape, epsilon, public)

    def for_items(self, n_items: int) -> Self:
        """Return a copy for a catalogue of another size, with the same b and no larger rho."""
        shape = replace(self.shape, n_items=n_items)
        n_signed = replace(self, shape=shape, loud=1).n_signed
        return replace(self, shape=shape, loud=max(self.loud * n_signed // self.n_signed, 1))

    @cached_property
    def blocks(self) -> Blocks:
        """All directions of this mechanism."""
        return Blocks(self.shape, self.directions_seed, self.block)

    @property
    def n_directions(self) -> int:
        """n, the number of directions without signs."""
        return self.blocks.n_directions

    @property
    def n_signed(self) -> int:
        """2n, the number of directions with signs."""
        return 2 * self.n_directions

    @property
    def loud_fraction(self) -> float:
        """Rho = L / 2n."""
        return self.loud / self.n_signed

    @property
    def gain(self) -> float:
        """The gain at the best b and rho; it is approximate for other values."""
        return estimate_gain(self.epsilon, self.shape.n_items)

    @cached_property
    def blanket_below(self) -> int:
        """The threshold gamma * 2^64: a report is uniform if its coin's word is below it."""
        return coin.compute_blanket_threshold(self.epsilon, self.loud, self.n_signed)

    @property
    def gamma(self) -> float:
        """The probability that a report does not depend on the history."""
        return self.blanket_below / coin.WORD_RANGE

    def reports(
        self, V: Float32, X: Float32, histories: Histories, random_words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        offsets = coin.multiply_high(random_words[:, -1, DIRECTION_WORD], self.n_signed)
        choice = random_words[:, :-1, DIRECTION_WORD]
        uniform = coin.multiply_high(choice, self.n_signed)
        rank = coin.multiply_high(choice, self.loud)
        loud_sets = self.find_loud_sets(V, X, histories, offsets)
        loud = np.array([loud.get(ranks) for loud, ranks in zip(loud_sets, rank, strict=True)])
        is_uniform = random_words[:, :-1, COIN_WORD] < np.uint64(self.blanket_below)
        return np.where(is_uniform, uniform, loud.reshape(rank.shape)).astype(np.uint32)

    def find_loud_sets(
        self, V: Float32, X: Float32, histories: Histories, offsets: Int64
    ) -> list[LoudSet]:
        """Return the loud directions of each person, given the offsets that order ties."""
        a = self.blocks.compute_rows(V, X, histories)
        people = zip(a, X, offsets.tolist(), strict=True)
        return [LoudSet(rows, x, self.loud, offset) for rows, x, offset in people]

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Return `gamma e^eps` for loud directions and `gamma` for quiet ones.

        If a person's gradient is zero, all directions have the density 1, because the random offset
        alone decides which ones are loud.
        """
        densities = np.full((histories.n_users, self.n_signed), self.gamma, np.float32)
        no_offsets, all_ranks = np.zeros(histories.n_users, np.int64), np.arange(self.loud)
        loud_sets = self.find_loud_sets(V, X, histories, no_offsets)
        for density, loud in zip(densities, loud_sets, strict=True):
            density[loud.get(all_ranks)] = self.gamma * exp(self.epsilon)
            if loud.is_silent:
                density[:] = 1
        return densities

    def constants(self, V: Float32) -> LoudestConstants:
        blocks = self.blocks
        return LoudestConstants(
            threshold=np.uint64(self.blanket_below),
            n_signed=np.uint64(self.n_signed),
            loud=self.loud,
            signs=blocks.signs,
            places=blocks.places,
            size=self.block,
            item_rows_by_factor=np.ascontiguousarray(blocks.compute_item_rows(V).T),
            inner_signs=blocks.inner_signs,
        )

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        return self.blocks.mean_direction(sums, n_reports, self.gain)
