"""`whisper`: the sign of one uniformly drawn entry of the gradient, through the coin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import tanh
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from sottovoce.mechanism import Mechanism, coin
from sottovoce.mechanism.base import CHOICE, COIN, DIRECTION, pack, sign_densities
from sottovoce.model import gradients, residuals
from sottovoce.privacy import SIGN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories

    Float32 = NDArray[np.float32]


class WhisperConstants(NamedTuple):
    threshold: np.uint64


@dataclass(frozen=True)
class Whisper(Mechanism):
    name: ClassVar[str] = "whisper"
    about: ClassVar[str] = "the sign of one entry of the gradient"
    kernel: ClassVar[str] = "tests.plugins.whisper_kernel"

    @property
    def n_directions(self) -> int:
        return self.shape.n_items * self.shape.factors

    @property
    def loud_fraction(self) -> float:
        return SIGN

    @classmethod
    def usual_fraction(cls, epsilon: float) -> float:
        return SIGN

    @classmethod
    def usual_gain(cls, epsilon: float) -> float:
        return coin.sign_gain(epsilon)

    @cached_property
    def flip_below(self) -> int:
        return coin.flip_threshold(self.epsilon)

    def _signs(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        e = residuals(V, X, histories, alpha=self.shape.alpha)
        return np.sign(gradients(e, X)).reshape(len(X), -1)

    def reports(
        self, V: Float32, X: Float32, histories: Histories, words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        draws = words[:, :-1]
        index = coin.multiply_high(draws[..., DIRECTION], self.n_directions)
        sign = np.take_along_axis(self._signs(V, X, histories), index, axis=1)
        plus = np.where(sign == 0, draws[..., CHOICE] >> np.uint64(63) == 1, sign > 0)
        return pack(index, plus ^ (draws[..., COIN] < np.uint64(self.flip_below)))

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        mean = sums.astype(np.float64) / (max(n_reports, 1) * tanh(self.epsilon / 2))
        return mean.reshape(self.shape.n_items, self.shape.factors)

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        return sign_densities(np.float32(tanh(self.epsilon / 2)) * self._signs(V, X, histories))

    def constants(self, V: Float32) -> WhisperConstants:
        return WhisperConstants(np.uint64(self.flip_below))
