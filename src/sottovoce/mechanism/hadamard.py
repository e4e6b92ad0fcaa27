"""`hadamard`: the sign of one uniformly drawn rotated direction, through the paper's coin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import tanh
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from sottovoce.mechanism import coin
from sottovoce.mechanism.base import CHOICE, COIN, DIRECTION, Mechanism, pack, sign_densities
from sottovoce.mechanism.rotation import Rotation
from sottovoce.privacy import SIGN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories


class HadamardConstants(NamedTuple):
    """For the kernel."""

    threshold: np.uint64
    """Words below this flip the sign."""
    item_signs: NDArray[np.float32]
    factor_signs: NDArray[np.float32]
    rows: int
    columns: int
    item_rows: NDArray[np.float32]
    """R x F."""


@dataclass(frozen=True)
class Hadamard(Mechanism):
    """Nothing to clip and nothing to tune; same proof, bytes and accounting as the paper's.

    The direction is drawn without looking at the data, so indices carry no information. The sign
    of the gradient's share `-a_r b_q` (a zero gets a random sign) passes the coin.
    """

    directions_seed: int = 0

    name: ClassVar[str] = "hadamard"
    about: ClassVar[str] = "the sign of one uniformly drawn direction of the rotated gradient"
    kernel: ClassVar[str] = "hadamard"

    @cached_property
    def rotation(self) -> Rotation:
        """The public directions."""
        return Rotation(self.shape, self.directions_seed)

    @property
    def n_directions(self) -> int:
        """R * Q."""
        return self.rotation.n_directions

    @property
    def loud_fraction(self) -> float:
        """One of the two signs at each index."""
        return SIGN

    @classmethod
    def usual_fraction(cls, epsilon: float) -> float:  # noqa: ARG003 - the same for all
        """One of the two signs at each index."""
        return SIGN

    @classmethod
    def usual_gain(cls, epsilon: float) -> float:
        """That of a sign, whatever the settings."""
        return coin.sign_gain(epsilon)

    @cached_property
    def flip_below(self) -> int:
        """Words below this flip the sign."""
        return coin.flip_threshold(self.epsilon)

    def reports(
        self,
        V: NDArray[np.float32],
        X: NDArray[np.float32],
        histories: Histories,
        words: NDArray[np.uint64],
    ) -> NDArray[np.uint32]:
        """See `Mechanism.reports`."""
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

    def densities(
        self, V: NDArray[np.float32], X: NDArray[np.float32], histories: Histories
    ) -> NDArray[np.float32]:
        """See `Mechanism.densities`."""
        a, b = self.rotation.all_rows(V, X, histories), self.rotation.user_columns(X)
        signs = -np.sign(a)[:, :, None] * np.sign(b)[:, None, :]
        lean = np.float32(tanh(self.epsilon / 2)) * signs.reshape(histories.n_users, -1)
        return sign_densities(lean)

    def constants(self, V: NDArray[np.float32]) -> HadamardConstants:
        """See `Mechanism.constants`."""
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
        """See `Rotation.mean_direction`."""
        return self.rotation.mean_direction(sums, n_reports, self.gain)
