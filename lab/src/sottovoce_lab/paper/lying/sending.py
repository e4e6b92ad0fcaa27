"""FCF under attack: people send gradients in clear, so liars send one of their choice.

What is assumed, in the server's favour: it refuses a gradient longer than the longest honest one,
and its line search sees curvatures of honest people alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, initial_items, residuals, update
from sottovoce.training import Settings
from sottovoce_lab.baselines.devices import blocks_of
from sottovoce_lab.baselines.federated import MeanGradient, mean_gradient
from sottovoce_lab.paper.lying.defences import GROUPS, Defence, groups, limited
from sottovoce_lab.paper.lying.targets import Audience, solved

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Senders:
    """Everybody who runs FCF's code, the liars who do not, and the server."""

    histories: Histories
    liars: int
    settings: Settings
    defence: Defence
    pool: ThreadPoolExecutor

    def first(self) -> Float32:
        settings, n_items = self.settings, self.histories.n_items
        return initial_items(n_items, settings.factors, settings.initial_scale, settings.seed)

    def ridge(self, V: Float32) -> float:  # noqa: ARG002 - ours depends on it
        return self.settings.regularization

    def open(
        self,
        V: Float32,
        epoch: int,
        known: Audience | None = None,  # noqa: ARG002 - what others send is known to the last digit
    ) -> GradientEpoch:
        return GradientEpoch(self, V, epoch)


@dataclass(frozen=True, eq=False)
class GradientEpoch:
    system: Senders
    V: Float32
    epoch: int

    @property
    def left(self) -> int:
        return self.system.settings.epochs - self.epoch

    def ask(self, wanted: Sequence[Float64], times: int = 1) -> Float64:
        """The gradient that every liar sends: the first wish first, no longer than allowed.

        How far the server goes depends on what they send, so it is found in rounds.
        """
        lie, step = np.zeros(self.V.shape), self._step(np.zeros(self.V.shape))
        for _ in range(ROUNDS):
            lie = self._lie(wanted, times * self.longest, step)
            step = float(np.sqrt(step * self._step(lie)))
        return lie

    def _lie(self, wanted: Sequence[Float64], most: float, step: float) -> Float64:
        total, left = np.zeros(self.V.shape), most
        for change in wanted:
            gradient = -change / max(self._share * step, 1e-300)
            length = float(np.linalg.norm(gradient))
            total += gradient * min(1.0, left / max(length, 1e-300))
            left = np.sqrt(max(most**2 - float(np.linalg.norm(total)) ** 2, 0.0))
        return total

    def ahead(self, gradient: Float64, times: int = 1) -> Float32:  # noqa: ARG002 - all at once
        """The next V, but for what sub-crowds change: liars know what all others send."""
        return self._moved(self._together(gradient))

    def close(self, gradient: Float64 | None = None) -> Float32:
        """The next V."""
        return self._moved(self._estimate(np.zeros(self.V.shape) if gradient is None else gradient))

    def _moved(self, gradient: Float64) -> Float32:
        settings = self.system.settings
        mean = MeanGradient(gradient, self._honest.curvature)
        return update(
            self.V,
            gradient,
            rate=mean.best_step(self.V, settings.regularization) / settings.steps,
            steps=settings.steps,
            regularization=settings.regularization,
        )

    @cached_property
    def longest(self) -> float:
        """Of the gradients of those who run the code: `2 |e| |x|`."""
        settings, most = self.system.settings, 0.0
        for some in blocks_of(self.system.histories):
            X = solved(self.V, some, settings.alpha, settings.regularization)
            e = residuals(self.V, X, some, alpha=settings.alpha)
            lengths = 2 * np.linalg.norm(e, axis=1) * np.linalg.norm(X, axis=1)
            most = max(most, float(lengths.max()))
        return most

    @cached_property
    def _honest(self) -> MeanGradient:
        return self._mean(self.system.histories)

    def _step(self, lie: Float64) -> float:
        """How far the server goes."""
        mean = MeanGradient(self._together(lie), self._honest.curvature)
        return mean.best_step(self.V, self.system.settings.regularization)

    @property
    def _share(self) -> float:
        """Of the liars among all who send."""
        return self.system.liars / (self.system.histories.n_users + self.system.liars)

    def _estimate(self, lie: Float64) -> Float64:
        system = self.system
        if system.defence != "medians":
            return self._together(lie)
        people = system.histories.n_users + system.liars
        group = groups(people, system.settings.seed, self.epoch)
        parts = [self._of_group(group == each, lie) for each in range(GROUPS)]
        return np.asarray(np.median(parts, axis=0))

    def _together(self, lie: Float64) -> Float64:
        mean = (1 - self._share) * self._honest.gradient + self._share * lie
        return limited(mean) if self.system.defence == "rows" else mean

    def _of_group(self, chosen: NDArray[np.bool_], lie: Float64) -> Float64:
        n = self.system.histories.n_users
        people, share = np.flatnonzero(chosen[:n]), chosen[n:].sum() / chosen.sum()
        honest = self._mean(self.system.histories.take(people)).gradient
        return np.asarray((1 - share) * honest + share * lie)

    def _mean(self, people: Histories) -> MeanGradient:
        settings = self.system.settings
        return mean_gradient(
            self.V,
            [some.to_csr().astype(np.float64) for some in blocks_of(people)],
            alpha=settings.alpha,
            regularization=settings.regularization,
            pool=self.system.pool,
        )
