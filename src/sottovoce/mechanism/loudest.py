"""`loudest`: name a direction at random, or one of those that agree with the gradient most.

A person's gradient makes exactly L of the 2n signed directions loud: those that agree with it most
(`sottovoce.mechanism.loud`). A report is, with probability gamma, a uniform one of all 2n, else a
uniform one of the L. So for everybody each direction has one of two probabilities:

    quiet:  gamma / 2n          loud:  gamma / 2n + (1 - gamma) / L

and gamma is set so that their ratio is e^eps: any two histories differ, for any report, by at most
that factor. That is the whole proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import localcontext
from functools import cached_property
from math import ceil, exp, floor, log, log2, sinh, sqrt
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from sottovoce.errors import SettingsError
from sottovoce.mechanism import coin
from sottovoce.mechanism.base import COIN, DIRECTION, Mechanism
from sottovoce.mechanism.blocks import MOST_BLOCK, ONE_BY_ONE, Blocks
from sottovoce.mechanism.loud import Loud
from sottovoce.mechanism.walsh import hadamard_signs
from sottovoce.privacy import SIGN
from sottovoce.settings import setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from numpy.typing import NDArray

    from sottovoce.mechanism.base import Shape
    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]
    Int64 = NDArray[np.int64]


def usual_history(n_items: int) -> float:
    """How many items a typical person has touched, where nobody says: 2% of them, within 10..200.

    It is the one public number about people that the rules here depend on. They were fitted, as
    the others, on sets of histories and on splits that no result is reported for:
    docs/mechanisms.md.
    """
    return min(max(0.02 * n_items, 10.0), 200.0)


def usual_block(epsilon: float, n_items: int, history: float) -> int:
    """The number of items in a block that serves best.

    Where reports say little, blocks must be so large that most hold something of everybody's.

    >>> [usual_block(epsilon, 9781, 200) for epsilon in (0.5, 1, 2.5, 4, 5, 10)]
    [512, 256, 64, 8, 2, 1]
    """
    best = 1 << min(max(floor(10.65 - 1.8 * epsilon), 0), 10)
    shared = 1 << floor(log2(max(1.32 * n_items / history, 1)))
    return min(max(best, shared), MOST_BLOCK) if epsilon <= QUIET else best


def usual_fraction(epsilon: float, n_items: int, history: float, block: int) -> float:
    """The rho that serves best: neither too few loud directions nor too many.

    With fewer than 20 F, people with long histories would say nothing but their least predictable
    items, and quality would fall while epsilon rises. With more than somebody's items can make
    loud, what is chosen beyond them is noise: up to half of a typical history in blocks of 1.

    >>> [round(usual_fraction(e, 9781, 200, b), 4) for e, b in ((1, 256), (2.5, 64), (5, 2))]
    [0.2614, 0.0578, 0.0075]
    """
    wanted = 0.5 * exp(-0.87 * epsilon * min(0.5 + epsilon / 4, 1)) + 10 / n_items
    most: float = history / 4 * block**0.8 / n_items
    return min(SIGN, wanted, most)


def usual_gain(epsilon: float, n_items: int) -> float:
    """How much of a unit gradient a report carries at the usual block and fraction.

    >>> [round(usual_gain(epsilon, 9781), 2) for epsilon in (1, 2.5, 5, 10)]
    [0.31, 0.96, 3.52, 14.43]
    """
    return 1 / sqrt(2.8 / sinh(epsilon / 2) ** 2 + 42 / n_items)


def _share_of(rho: float, n_signed: int) -> int:
    """So many of all signed directions: at least one, at most every other."""
    return min(max(floor(n_signed * rho + 0.5), 1), n_signed // 2)


QUIET = 3.2
"""Up to this epsilon the size of a block hardly changes what a report says."""


class LoudestConstants(NamedTuple):
    threshold: np.uint64
    """Words below this name a uniform direction."""
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
    """Our default. `block` is b, `loud` is L; 0 becomes the best number for this epsilon."""

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
    kernel: ClassVar[str] = "loudest"
    countable: ClassVar[Mapping[str, Any]] = {"block": 2, "loud": 1}

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
    def planned_settings(
        cls,
        shape: Shape,
        epsilon: float,
        history: float,
        given: Mapping[str, Any],
        *,
        for_crowd: bool,
    ) -> dict[str, Any]:
        """For a crowd, fewer loud directions in smaller blocks, where they agree more each.

        For one factor more in larger ones: it is popularity, of which everything touched can tell.
        """
        is_one, is_quiet = shape.factors == 1, epsilon <= QUIET
        usual = usual_block(epsilon, shape.n_items, history)
        usual = MOST_BLOCK if is_one and is_quiet else usual
        block = given.get("block") or (max(usual // 4, 1) if for_crowd else usual)
        if for_crowd:
            rho = cls.crowd_fraction(epsilon, shape.n_items, history)
        else:
            rho = usual_fraction(epsilon, shape.n_items, history, block)
            if is_one:
                rho = min(max(1.5 * rho, 0.2 if is_quiet else 0.0), 0.4)
        # Never more than rho says, which is what a budget was counted with.
        signed = cls(shape, epsilon, block=block, loud=1).n_signed
        return {"block": block, "loud": given.get("loud") or max(int(signed * rho), 1)}

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        if 0 in (public["loud"], public["block"]):
            raise SettingsError("loudest needs its block and its number of loud directions")
        return super().from_manifest(shape, epsilon, public)

    def for_items(self, n_items: int) -> Self:
        """The same block, and of all directions no larger share of loud ones."""
        shape = replace(self.shape, n_items=n_items)
        signed = replace(self, shape=shape, loud=1).n_signed
        return replace(self, shape=shape, loud=max(self.loud * signed // self.n_signed, 1))

    @cached_property
    def blocks(self) -> Blocks:
        return Blocks(self.shape, self.directions_seed, self.block)

    @property
    def n_directions(self) -> int:
        """N = R F."""
        return self.blocks.n_directions

    @property
    def n_signed(self) -> int:
        """2n."""
        return 2 * self.n_directions

    @property
    def loud_fraction(self) -> float:
        """Rho = L / 2n."""
        return self.loud / self.n_signed

    @property
    def gain(self) -> float:
        """As measured at the usual block and fraction; elsewhere no more than an order of size."""
        return usual_gain(self.epsilon, self.shape.n_items)

    @cached_property
    def blanket_below(self) -> int:
        """Words below this name a uniform direction: gamma * 2^64.

        A word cannot be shared out among L or 2n to the last unit, so it is rounded up with the
        likeliest loud place and the least likely uniform one in mind: no ratio exceeds e^eps.
        """
        likeliest, least = -(-coin.WORD // self.loud), coin.WORD // self.n_signed
        with localcontext() as context:
            context.prec = 80
            odds = (coin.exp_epsilon(self.epsilon) - 1) * least
            return ceil(coin.WORD * likeliest / (odds + likeliest))

    @property
    def gamma(self) -> float:
        """The chance of a direction that does not depend on the data."""
        return self.blanket_below / coin.WORD

    def reports(
        self, V: Float32, X: Float32, histories: Histories, words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        offset = coin.multiply_high(words[:, -1, DIRECTION], self.n_signed)
        choice = words[:, :-1, DIRECTION]
        uniform = coin.multiply_high(choice, self.n_signed)
        rank = coin.multiply_high(choice, self.loud)
        loud = self.loud_sets(V, X, histories, offset)
        named = np.array([each.at(ranks) for each, ranks in zip(loud, rank, strict=True)])
        at_random = words[:, :-1, COIN] < np.uint64(self.blanket_below)
        return np.where(at_random, uniform, named.reshape(rank.shape)).astype(np.uint32)

    def loud_sets(self, V: Float32, X: Float32, histories: Histories, offset: Int64) -> list[Loud]:
        """What each person's gradient makes loud, with the ties in the order of their offset."""
        a = self.blocks.all_rows(V, X, histories)
        each = zip(a, X, offset.tolist(), strict=True)
        return [Loud(rows, x, self.loud, start) for rows, x, start in each]

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Loud directions have `gamma e^eps`, the others `gamma`; without a gradient all have 1."""
        density = np.full((histories.n_users, self.n_signed), self.gamma, np.float32)
        no_offset, everything = np.zeros(histories.n_users, np.int64), np.arange(self.loud)
        for row, loud in zip(density, self.loud_sets(V, X, histories, no_offset), strict=True):
            row[loud.at(everything)] = self.gamma * exp(self.epsilon)
            if loud.is_silent:
                row[:] = 1
        return density

    def constants(self, V: Float32) -> LoudestConstants:
        blocks, inner = self.blocks, np.arange(min(ONE_BY_ONE, self.block))
        return LoudestConstants(
            threshold=np.uint64(self.blanket_below),
            n_signed=np.uint64(self.n_signed),
            loud=self.loud,
            signs=blocks.signs,
            places=blocks.places,
            size=self.block,
            item_rows_by_factor=np.ascontiguousarray(blocks.item_rows(V).T),
            inner_signs=hadamard_signs(inner[:, None], inner[None, :]),
        )

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        return self.blocks.mean_direction(sums, n_reports, self.gain)
