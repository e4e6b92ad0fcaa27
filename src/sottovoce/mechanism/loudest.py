"""`loudest`: name, most of the time, one of the directions that agree with the gradient most.

The client looks at all 2R signed rows for one uniformly drawn column q, ranks them by agreement
with its gradient and calls the top L of them loud. With probability gamma it names a uniform signed
row, else a uniform loud one. L is the same for everybody, so whatever the history there are exactly
two output probabilities:

    quiet:  gamma / 2R          loud:  gamma / 2R + (1 - gamma) / L

and gamma is set so that their ratio is e^eps: any two histories differ, for any report, by at most
that factor. It is PrivUnit's idea on a finite, shared set of directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import localcontext
from functools import cached_property
from math import ceil, exp, pi, sqrt
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy import optimize, special

from sottovoce.errors import SettingsError
from sottovoce.mechanism import coin
from sottovoce.mechanism.base import CHOICE, COIN, DIRECTION, Mechanism, pack
from sottovoce.mechanism.rotation import BLOCK_BITS, Rotation
from sottovoce.mechanism.walsh import hadamard_signs
from sottovoce.settings import setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from numpy.typing import NDArray

    from sottovoce.mechanism.base import Shape
    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]


def normal_gain(epsilon: float, rho: float) -> float:
    """Expected agreement of a report with a unit gradient, if shares were normal.

    `phi(z) (p / rho - (1 - p) / (1 - rho))`, z the upper rho quantile, p the chance of a loud row.
    """
    z = float(special.ndtri(1 - rho))
    p = rho / (rho + (1 - rho) * exp(-epsilon))
    return exp(-z * z / 2) / sqrt(2 * pi) * (p / rho - (1 - p) / (1 - rho))


def best_fraction(epsilon: float) -> float:
    """The rho with the largest gain.

    >>> [round(best_fraction(e), 3) for e in (1, 2.5, 5)]
    [0.346, 0.165, 0.032]
    """

    def loss(log_rho: float) -> float:
        return -normal_gain(epsilon, exp(log_rho))

    found = optimize.minimize_scalar(
        loss, bounds=(-epsilon - 5, np.log(0.5)), method="bounded", options={"xatol": 1e-9}
    )
    return exp(float(found.x))


class LoudestConstants(NamedTuple):
    threshold: np.uint64
    """Words below this name a uniform row."""
    item_signs: Float32
    factor_signs: Float32
    rows: int
    columns: int
    item_rows_by_factor: Float32
    """F x R, so that a pass over all rows is contiguous."""
    block_signs: Float32
    loud: int
    guess: float
    """Where the loud rows of normal values begin, in standard deviations: only to start looking."""
    density: float


@dataclass(frozen=True)
class Loudest(Mechanism):
    """Our default. `loud` is L; 0 becomes the best number for this epsilon."""

    directions_seed: int = 0
    loud: int = setting(
        0, "signed rows that are loud; 0: the best number for this epsilon", least=0
    )

    name: ClassVar[str] = "loudest"
    # What counts is the share of loud directions, and the terms have it as a field of its own.
    unpinned: ClassVar[tuple[str, ...]] = ("directions_seed", "loud")
    kernel: ClassVar[str] = "loudest"

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.rotation.rows
        if not 0 <= self.loud <= rows:
            raise SettingsError(
                f"loud must lie in 1..{rows} (half of the signed rows), or be 0: the best number; "
                f"got {self.loud}"
            )
        if self.loud == 0:
            best = round(2 * rows * best_fraction(self.epsilon))
            object.__setattr__(self, "loud", min(max(best, 1), rows))

    @classmethod
    def from_manifest(cls, shape: Shape, epsilon: float, public: Mapping[str, Any]) -> Self:
        if public["loud"] == 0:
            raise SettingsError("loudest needs its number of loud directions")
        return super().from_manifest(shape, epsilon, public)

    @cached_property
    def rotation(self) -> Rotation:
        return Rotation(self.shape, self.directions_seed)

    @property
    def n_directions(self) -> int:
        """R * Q."""
        return self.rotation.n_directions

    @property
    def n_signed_rows(self) -> int:
        """2R."""
        return 2 * self.rotation.rows

    @property
    def blind_directions(self) -> int:
        """Q: the column is drawn first, the row among those that are loud."""
        return self.rotation.columns

    @property
    def loud_fraction(self) -> float:
        """Rho = L / 2R."""
        return self.loud / self.n_signed_rows

    @classmethod
    def usual_fraction(cls, epsilon: float) -> float:
        """The one with the largest gain."""
        return best_fraction(epsilon)

    @classmethod
    def usual_gain(cls, epsilon: float) -> float:
        """The largest."""
        return normal_gain(epsilon, best_fraction(epsilon))

    @property
    def gain(self) -> float:
        """That of this L."""
        return normal_gain(self.epsilon, self.loud_fraction)

    @cached_property
    def blanket_below(self) -> int:
        """Words below this name a uniform row: gamma * 2^64.

        Rounded up, and with the likeliest loud row in mind (a 64-bit word cannot be shared out
        among L rows to the last unit), so that no ratio exceeds e^eps.
        """
        likeliest = -(-coin.WORD // self.loud) * self.n_signed_rows
        with localcontext() as context:
            context.prec = 80
            odds = (coin.exp_epsilon(self.epsilon) - 1) * coin.WORD
            return ceil(coin.WORD * likeliest / (odds + likeliest))

    @property
    def gamma(self) -> float:
        """The chance of a row that does not depend on the data."""
        return self.blanket_below / coin.WORD

    def reports(
        self, V: Float32, X: Float32, histories: Histories, words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        draws = words[:, :-1]
        mask = coin.multiply_high(words[:, -1:, DIRECTION], self.n_signed_rows)
        column = coin.multiply_high(draws[..., DIRECTION], self.rotation.columns)
        b = np.take_along_axis(self.rotation.user_columns(X), column, axis=1)
        loud = self.loud_rows(self.rotation.all_rows(V, X, histories), mask)
        rank = coin.multiply_high(draws[..., CHOICE], self.loud)
        # A loud row agrees with a; the gradient is -a b, so a positive b turns its sign. Without a
        # b there is no gradient: all rows tie, and the mask alone says which are loud.
        agreeing = np.take_along_axis(loud, rank, axis=1) ^ (b > 0)
        named = np.where(b == 0, rank ^ mask, agreeing)
        uniform = coin.multiply_high(draws[..., CHOICE], self.n_signed_rows)
        signed_row = np.where(draws[..., COIN] < np.uint64(self.blanket_below), uniform, named)
        return pack((signed_row >> 1) * self.rotation.columns + column, signed_row & 1 == 1)

    def loud_rows(self, a: Float32, mask: NDArray[np.int64]) -> NDArray[np.int64]:
        """The L signed rows (`row << 1 | bit`, ascending) that agree with `a` most, N x L.

        Ties go to the lowest `signed_row ^ mask`: with a random mask every tied row has the same
        chance, and the set has exactly L members whatever `a` is.
        """
        agreement = np.stack([-a, a], axis=-1).reshape(len(a), self.n_signed_rows)
        tie_order = np.arange(self.n_signed_rows) ^ mask
        order = np.lexsort((tie_order, -agreement), axis=-1)
        return np.sort(order[:, : self.loud], axis=1)

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        """Loud rows have `gamma e^eps`, the others `gamma`."""
        n, rotation = histories.n_users, self.rotation
        a, b = rotation.all_rows(V, X, histories), rotation.user_columns(X)
        loud = np.zeros((n, self.n_signed_rows), bool)
        no_mask = np.zeros((n, 1), np.int64)
        np.put_along_axis(loud, self.loud_rows(a, no_mask), values=True, axis=1)
        signed = loud.reshape(n, rotation.rows, 1, 2)
        by_column = b[:, None, :, None]
        is_loud = np.where(by_column > 0, signed[..., ::-1], signed)
        density = np.where(is_loud, self.gamma * exp(self.epsilon), self.gamma)
        return np.where(by_column == 0, 1.0, density).astype(np.float32).reshape(n, -1)

    def constants(self, V: Float32) -> LoudestConstants:
        rotation = self.rotation
        block = np.arange(min(1 << BLOCK_BITS, rotation.rows))
        z = float(special.ndtri(1 - self.loud_fraction))
        return LoudestConstants(
            threshold=np.uint64(self.blanket_below),
            item_signs=rotation.item_signs,
            factor_signs=rotation.factor_signs,
            rows=rotation.rows,
            columns=rotation.columns,
            item_rows_by_factor=np.ascontiguousarray(rotation.item_rows(V).T),
            block_signs=hadamard_signs(block[:, None], block[None, :]),
            loud=self.loud,
            guess=z,
            density=2 * exp(-z * z / 2) / sqrt(2 * pi),
        )

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        return self.rotation.mean_direction(sums, n_reports, self.gain)
