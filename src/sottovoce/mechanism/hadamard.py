"""`hadamard`: the sign of one uniformly drawn rotated direction, through the paper's coin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import tanh
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from sottovoce.mechanism import coin
from sottovoce.mechanism.base import CHOICE, COIN, DIRECTION, SignMechanism, pack, sign_densities
from sottovoce.mechanism.rotation import Rotation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]


class HadamardConstants(NamedTuple):
    threshold: np.uint64
    """Words below this flip the sign."""
    item_signs: Float32
    factor_signs: Float32
    rows: int
    columns: int
    item_rows: Float32
    """R x F."""


@dataclass(frozen=True)
class Hadamard(SignMechanism):
    """Nothing to clip and nothing to tune; same proof, bytes and accounting as the paper's.

    The direction is drawn without looking at the data, so indices carry no information. The sign
    of the gradient's share `-a_r b_q` (a zero gets a random sign) passes the coin.
    """

    directions_seed: int = 0

    name: ClassVar[str] = "hadamard"
    kernel: ClassVar[str] = "hadamard"

    @cached_property
    def rotation(self) -> Rotation:
        return Rotation(self.shape, self.directions_seed)

    @property
    def n_directions(self) -> int:
        """R * Q."""
        return self.rotation.n_directions

    def reports(
        self, V: Float32, X: Float32, histories: Histories, words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        draws = words[:, :-1]
        index = coin.multiply_high(draws[..., DIRECTION], self.n_directions)
        row, column = np.divmod(index, self.rotation.columns)
        a = self.rotation.some_rows(V, X, histories, row)
        b = np.take_along_axis(self.rotation.user_columns(X), column, axis=1)
        zero = (a == 0) | (b == 0)
        # Comparing the two signs instead of the product's: tiny factors cannot underflow to zero.
        plus = np.where(zero, draws[..., CHOICE] >> np.uint64(63) == 1, (a > 0) != (b > 0))
        flip = draws[..., COIN] < np.uint64(self.flip_below)
        return pack(index, plus ^ flip)

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        a, b = self.rotation.all_rows(V, X, histories), self.rotation.user_columns(X)
        signs = -np.sign(a)[:, :, None] * np.sign(b)[:, None, :]
        lean = np.float32(tanh(self.epsilon / 2)) * signs.reshape(histories.n_users, -1)
        return sign_densities(lean)

    def constants(self, V: Float32) -> HadamardConstants:
        rotation = self.rotation
        return HadamardConstants(
            threshold=np.uint64(self.flip_below),
            item_signs=rotation.item_signs,
            factor_signs=rotation.factor_signs,
            rows=rotation.rows,
            columns=rotation.columns,
            item_rows=np.ascontiguousarray(rotation.item_rows(V)),
        )

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        return self.rotation.mean_direction(sums, n_reports, self.gain)
