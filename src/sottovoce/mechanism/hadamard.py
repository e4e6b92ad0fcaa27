"""`hadamard`: the sign of one uniformly drawn rotated direction, through the paper's coin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt, tanh
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import coin
from sottovoce.mechanism.base import CHOICE, COIN, DIRECTION, Shape, pack
from sottovoce.mechanism.rotation import Rotation
from sottovoce.privacy import SIGN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories


@dataclass(frozen=True)
class Hadamard:
    """Nothing to clip and nothing to tune; same proof, bytes and accounting as the paper's.

    The direction is drawn without looking at the data, so indices carry no information. The sign
    of the gradient's share `-a_r b_q` (a zero gets a random sign) passes the coin.
    """

    shape: Shape
    epsilon: float
    directions_seed: int = 0
    name: str = "hadamard"

    def __post_init__(self) -> None:
        coin.checked_epsilon(self.epsilon)
        Rotation(self.shape, self.directions_seed)

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

    @cached_property
    def flip_below(self) -> int:
        """Words below this flip the sign."""
        return coin.flip_threshold(self.epsilon)

    @property
    def gain(self) -> float:
        """How much of a unit gradient one report carries: E|z| of a normal, less the coin."""
        return sqrt(2 / pi) * tanh(self.epsilon / 2)

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

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """See `Rotation.mean_direction`."""
        return self.rotation.mean_direction(sums, n_reports, self.gain)
