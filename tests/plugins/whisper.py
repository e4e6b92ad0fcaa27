"""`whisper`: the sign of one uniformly drawn entry of the gradient, through the coin."""

from __future__ import annotations

from dataclasses import dataclass
from math import tanh
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from sottovoce.mechanism import coin
from sottovoce.mechanism.base import (
    COIN,
    DIRECTION,
    ROUNDING,
    SignMechanism,
    pack,
    sign_densities,
)
from sottovoce.model import gradients, residuals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]


class WhisperConstants(NamedTuple):
    threshold: np.uint64


@dataclass(frozen=True)
class Whisper(SignMechanism):
    name: ClassVar[str] = "whisper"
    kernel: ClassVar[str] = "tests.plugins.whisper_kernel"

    @property
    def n_directions(self) -> int:
        return self.shape.n_items * self.shape.factors

    def _signs(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        g = gradients(residuals(V, X, histories, alpha=self.shape.alpha), X)
        return np.sign(g).reshape(len(X), -1)

    def reports(
        self, V: Float32, X: Float32, histories: Histories, words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        draws = words[:, :-1]
        index = coin.multiply_high(draws[..., DIRECTION], self.n_directions)
        sign = np.take_along_axis(self._signs(V, X, histories), index, axis=1)
        plus = np.where(sign == 0, draws[..., ROUNDING] >> np.uint64(63) == 1, sign > 0)
        return pack(index, plus ^ (draws[..., COIN] < np.uint64(self.flip_below)))

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        mean = sums.astype(np.float64) / (max(n_reports, 1) * tanh(self.epsilon / 2))
        return mean.reshape(self.shape.n_items, self.shape.factors)

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        return sign_densities(np.float32(tanh(self.epsilon / 2)) * self._signs(V, X, histories))

    def constants(self, V: Float32) -> WhisperConstants:
        return WhisperConstants(np.uint64(self.flip_below))
