"""FCF, which has no privacy, under attack: attackers send gradients of their choice.

Two assumptions favour the server: it rejects a gradient longer than the longest honest one, and
its line search sees only the curvatures of honest people.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, draw_initial_items, update_items
from sottovoce.core.model import compute_residuals
from sottovoce.training import Settings
from sottovoce.training.items import DEFAULT_ROW_LIMIT, limit_row_lengths
from sottovoce_lab.baselines.federated import MeanGradient, compute_mean_gradient
from sottovoce_lab.baselines.models import split_into_blocks
from sottovoce_lab.paper.poisoning.attackers import MIN_LENGTH
from sottovoce_lab.paper.poisoning.audience import Audience, Float32, Float64, solve_vectors
from sottovoce_lab.paper.poisoning.defences import SUB_CROWD_COUNT, Defence, assign_sub_crowds

# Rounds in which the attackers' gradient and the server's step are adapted to each other.
STEP_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class GradientSystem:
    """Honest people of FCF, attackers who send gradients of their choice, and the server."""

    histories: Histories
    attackers: int
    settings: Settings
    defence: Defence
    pool: ThreadPoolExecutor

    def make_first_items(self) -> Float32:
        """Return the item matrix before the first epoch."""
        settings, n_items = self.settings, self.histories.n_items
        return draw_initial_items(n_items, settings.factors, settings.initial_scale, settings.seed)

    def compute_ridge(self, V: Float32) -> float:  # noqa: ARG002 - the same as ReportSystem
        """Return the lambda of the users' equations."""
        return self.settings.regularization

    def open_epoch(
        self,
        V: Float32,
        epoch: int,
        known_people: Audience | None = None,  # noqa: ARG002 - the same as ReportSystem
    ) -> GradientEpoch:
        """Begin an epoch."""
        return GradientEpoch(self, V, epoch)


@dataclass(frozen=True, eq=False)
class GradientEpoch:
    """One epoch, in which attackers know V and what all others send."""

    system: GradientSystem
    V: Float32
    number: int

    @property
    def epochs_left(self) -> int:
        """Number of epochs left, including this one."""
        return self.system.settings.epochs - self.number

    def plan(self, changes: Sequence[Float64], epochs: int = 1) -> Float64:
        """Return the gradient that every attacker sends, the most important change first."""
        false = np.zeros(self.V.shape)
        step = self._compute_step(false)
        # The server's step depends on what attackers send, so both are found in rounds.
        for _ in range(STEP_ROUNDS):
            false = self._make_gradient(changes, epochs * self.max_length, step)
            step = float(np.sqrt(step * self._compute_step(false)))
        return false

    def _make_gradient(self, changes: Sequence[Float64], max_length: float, step: float) -> Float64:
        total, left = np.zeros(self.V.shape), max_length
        for change in changes:
            gradient = -change / max(self._attacker_share * step, MIN_LENGTH)
            length = float(np.linalg.norm(gradient))
            total += gradient * min(1.0, left / max(length, MIN_LENGTH))
            left = np.sqrt(max(max_length**2 - float(np.linalg.norm(total)) ** 2, 0.0))
        return total

    def predict(self, plan: Float64, epochs: int = 1) -> Float32:  # noqa: ARG002 - of this epoch
        """Return the next V, without the effect of sub-crowds."""
        return self._update(self._mix(plan))

    def close(self, plan: Float64 | None = None) -> Float32:
        """Return the next V as the server computes it under its defence."""
        system = self.system
        false = np.zeros(self.V.shape) if plan is None else plan
        if system.defence != "medians":
            return self._update(self._mix(false))
        people = system.histories.n_users + system.attackers
        crowds = assign_sub_crowds(people, system.settings.seed, self.number)
        means = [self._mix_crowd(crowds == n, false) for n in range(SUB_CROWD_COUNT)]
        return self._update(np.asarray(np.median(means, axis=0)))

    def _update(self, gradient: Float64) -> Float32:
        settings = self.system.settings
        mean = MeanGradient(gradient, self._honest_mean.curvature)
        return update_items(
            self.V,
            gradient,
            rate=mean.find_best_step(self.V, settings.regularization) / settings.steps,
            steps=settings.steps,
            regularization=settings.regularization,
        )

    @cached_property
    def max_length(self) -> float:
        """Length of the longest honest gradient, `2 |e| |x|` for residuals e and user vector x."""
        settings, longest = self.system.settings, 0.0
        for block in split_into_blocks(self.system.histories):
            X = solve_vectors(self.V, block, settings.alpha, settings.regularization)
            e = compute_residuals(self.V, X, block, alpha=settings.alpha)
            lengths = 2 * np.linalg.norm(e, axis=1) * np.linalg.norm(X, axis=1)
            longest = max(longest, float(lengths.max()))
        return longest

    @cached_property
    def _honest_mean(self) -> MeanGradient:
        return self._compute_mean(self.system.histories)

    def _compute_step(self, false: Float64) -> float:
        """Return the server's step length along the mean gradient."""
        mean = MeanGradient(self._mix(false), self._honest_mean.curvature)
        return mean.find_best_step(self.V, self.system.settings.regularization)

    @property
    def _attacker_share(self) -> float:
        return self.system.attackers / (self.system.histories.n_users + self.system.attackers)

    def _mix(self, false: Float64) -> Float64:
        """Return the mean gradient of honest people and attackers, with limited rows."""
        honest = (1 - self._attacker_share) * self._honest_mean.gradient
        mean = honest + self._attacker_share * false
        if self.system.defence != "rows":
            return mean
        return limit_row_lengths(mean, DEFAULT_ROW_LIMIT, self.system.settings.memory)

    def _mix_crowd(self, members: NDArray[np.bool_], false: Float64) -> Float64:
        """Return the mean gradient of a sub-crowd; attackers come last in `members`."""
        n = self.system.histories.n_users
        people, share = np.flatnonzero(members[:n]), members[n:].sum() / members.sum()
        honest = self._compute_mean(self.system.histories.take(people)).gradient
        return np.asarray((1 - share) * honest + share * false)

    def _compute_mean(self, histories: Histories) -> MeanGradient:
        settings = self.system.settings
        return compute_mean_gradient(
            self.V,
            [block.to_csr().astype(np.float64) for block in split_into_blocks(histories)],
            alpha=settings.alpha,
            regularization=settings.regularization,
            pool=self.system.pool,
        )
