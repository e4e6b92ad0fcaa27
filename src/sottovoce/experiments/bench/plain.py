"""The mechanisms as one writes them first: a loop over users, numpy inside, the residual dense.

In float64 and in numpy's own order of sums, so a report may differ from the engine's where a value
lies within float32's rounding of a threshold, and ties are not settled as the reference does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import (
    WORDS_PER_DRAW,
    Coordinate,
    Hadamard,
    Loudest,
    coin,
    sum_signs,
    walsh,
)
from sottovoce.mechanism.base import CHOICE, COIN, DIRECTION, pack
from sottovoce.training import next_items

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.experiments.bench.epoch import TimedEpoch
    from sottovoce.mechanism import Mechanism, Rotation
    from sottovoce.model import Histories
    from sottovoce.training import Settings

    Float64 = NDArray[np.float64]
    Items = NDArray[np.int32]
    Words = NDArray[np.uint64]
    Reports = NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class PlainLoop:
    """An epoch of a few users, extrapolated to all."""

    epoch: TimedEpoch
    """What it is compared with: the same V, mechanism and settings."""
    histories: Histories
    users: NDArray[np.int64]
    """The sample."""

    def run(self) -> float:
        """Seconds that everybody's epoch would take: the loop grows with users, the rest not."""
        settings, mechanism = self.epoch.settings, self.epoch.mechanism
        began = time.perf_counter()
        client = PlainClient.of(self.epoch.V, mechanism, settings)
        rng = np.random.default_rng(settings.seed)
        size = (settings.reports + 1, WORDS_PER_DRAW)
        looping = time.perf_counter()
        reports = [
            client.reports(self.histories[user], rng.integers(0, 1 << 64, size, np.uint64))
            for user in self.users
        ]
        looped = time.perf_counter()
        flat = np.concatenate(reports)
        sums = sum_signs(flat, mechanism.n_directions)
        next_items(self.epoch.V, sums, len(flat), 2, settings, mechanism)
        once = time.perf_counter() - looped + looping - began
        return once + (looped - looping) * self.histories.n_users / len(self.users)


@dataclass(frozen=True, eq=False)
class PlainClient:
    """One device, over and over: what it needs of the epoch."""

    V: Float64
    G: Float64
    mechanism: Mechanism
    settings: Settings

    @classmethod
    def of(cls, V: NDArray[np.float32], mechanism: Mechanism, settings: Settings) -> PlainClient:
        """Before the loop."""
        wide = V.astype(np.float64)
        return cls(wide, wide.T @ wide, mechanism, settings)

    def reports(self, items: Items, words: Words) -> Reports:
        """One user's k reports, from (k + 1) x 4 random words."""
        x = self._user_vector(items)
        e = self._residual(x, items)
        if isinstance(self.mechanism, Coordinate):
            return _coordinate(self.mechanism, e, x, words[:-1])
        if isinstance(self.mechanism, Hadamard):
            return _hadamard(self.mechanism, e, x, words[:-1])
        assert isinstance(self.mechanism, Loudest)
        return _loudest(self.mechanism, e, x, words)

    def _user_vector(self, items: Items) -> Float64:
        own, alpha = self.V[items], self.settings.alpha
        ridge = self.settings.regularization * np.eye(self.V.shape[1])
        system = self.G + alpha * own.T @ own + ridge
        return np.asarray(np.linalg.solve(system, (1 + alpha) * own.sum(axis=0)))

    def _residual(self, x: Float64, items: Items) -> Float64:
        e: Float64 = -(self.V @ x)
        e[items] = (1 + self.settings.alpha) * (1 + e[items])
        return e


def _coordinate(mechanism: Coordinate, e: Float64, x: Float64, draws: Words) -> Reports:
    index = coin.multiply_high(draws[:, DIRECTION], mechanism.n_directions)
    item, factor = np.divmod(index, len(x))
    value = np.clip(-2 * e[item] * x[factor], -1, 1)
    plus = coin.unit(draws[:, CHOICE]) < (1 + value) / 2
    return pack(index, plus ^ (draws[:, COIN] < np.uint64(mechanism.flip_below)))


def _rotate(rotation: Rotation, e: Float64, x: Float64) -> tuple[Float64, Float64]:
    """`a` and `b`, all of them."""
    a = walsh.transform(walsh.padded(rotation.item_signs * e, 0), 0)
    b = walsh.transform(walsh.padded(rotation.factor_signs * x, 0), 0)
    return a, b


def _hadamard(mechanism: Hadamard, e: Float64, x: Float64, draws: Words) -> Reports:
    index = coin.multiply_high(draws[:, DIRECTION], mechanism.n_directions)
    row, column = np.divmod(index, mechanism.rotation.columns)
    a, b = _rotate(mechanism.rotation, e, x)
    share = -a[row] * b[column]
    plus = np.where(share == 0, draws[:, CHOICE] >> np.uint64(63) == 1, share > 0)
    return pack(index, plus ^ (draws[:, COIN] < np.uint64(mechanism.flip_below)))


def _loudest(mechanism: Loudest, e: Float64, x: Float64, words: Words) -> Reports:
    draws, n_rows = words[:-1], mechanism.n_signed_rows
    mask = coin.multiply_high(words[-1:, DIRECTION], n_rows)
    a, b = _rotate(mechanism.rotation, e, x)
    agreement = np.stack([-a, a], axis=-1).ravel()
    loud = np.sort(np.argpartition(-agreement, mechanism.loud - 1)[: mechanism.loud])
    column = coin.multiply_high(draws[:, DIRECTION], mechanism.rotation.columns)
    rank = coin.multiply_high(draws[:, CHOICE], mechanism.loud)
    named = np.where(b[column] == 0, rank ^ mask, loud[rank] ^ (b[column] > 0))
    uniform = coin.multiply_high(draws[:, CHOICE], n_rows)
    chosen = np.where(draws[:, COIN] < np.uint64(mechanism.blanket_below), uniform, named)
    return pack((chosen >> 1) * mechanism.rotation.columns + column, chosen & 1 == 1)
