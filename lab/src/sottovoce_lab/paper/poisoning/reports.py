"""A training under attack: people send reports, and attackers send reports of their choice.

Attackers want a change of V. The server's estimate is linear in the sums of signs, so the inverse
of the estimate says which reports make this change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import count_reports, pack_reports, sum_counts, sum_signs
from sottovoce.core.model import compute_residuals
from sottovoce.data.streams import stream
from sottovoce.simulation.interface import Engine
from sottovoce.training import Settings, make_first_items
from sottovoce.training.counts import cap_counts, compute_max_count
from sottovoce.training.items import (
    DEFAULT_ROW_LIMIT,
    clip_row_lengths,
    compute_next_items,
    measure_typical_row_length,
)
from sottovoce_lab.paper.poisoning.audience import MIN_VECTOR_LENGTH, Audience, Float32, Float64

UInt32 = NDArray[np.uint32]


def invert_estimate(mechanism: Loudest, estimate: Float64, n_reports: int) -> Float64:
    """Return the sums of signs, not rounded, for which a server computes this estimate."""
    length = np.sqrt(mechanism.n_directions / mechanism.block)
    shares = mechanism.blocks.forward(estimate) / mechanism.block
    return np.asarray(shares.ravel() * (n_reports * mechanism.gain / length))


def expect_estimate(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float64:
    """Return approximately what the server estimates on average from these people's reports."""
    # The mean of the gradients -2 e x^T, scaled to unit length.
    e = compute_residuals(V, X, histories, alpha=mechanism.shape.alpha)
    lengths = np.linalg.norm(e, axis=1) * np.linalg.norm(X, axis=1)
    weights = 1.0 / (np.maximum(lengths, MIN_VECTOR_LENGTH) * len(X))
    return np.asarray(-(e.astype(np.float64).T * weights) @ X)


def spend_reports(wanted: Float64, budget: float, limits: Float64) -> Float64:
    """Cut the wanted sums of signs down to a number of reports; the largest sums are kept.

    Args:
        wanted: Sum of signs of each direction.
        budget: Number of reports that can be sent.
        limits: Largest number of reports of each direction.

    >>> spend_reports(np.array([3.0, -5.0, 1.0]), 7.0, np.array([9.0, 4.0, 9.0])).tolist()
    [3.0, -4.0, 0.0]
    """
    sizes = np.minimum(np.abs(wanted), limits)
    order = np.argsort(-sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    spent = np.zeros_like(sizes)
    spent[order] = np.clip(budget - before, 0.0, sizes[order])
    return np.asarray(np.sign(wanted) * spent)


@dataclass(frozen=True, eq=False)
class ReportSystem:
    """Honest people, attackers who send reports of their choice, and the server."""

    engine: Engine
    honest: int
    """Number of people in the engine."""
    attackers: int
    """Number of attackers, who come in addition."""
    is_defended: bool
    """Whether the server defends itself as a live one does by default: a direction counts at most
    as often as honest people would report it, and no item moves much farther than the others."""

    @property
    def mechanism(self) -> Loudest:
        """The mechanism that is attacked."""
        return cast("Loudest", self.engine.mechanism)

    @property
    def settings(self) -> Settings:
        """Settings of the training."""
        return self.engine.settings

    def make_first_items(self) -> Float32:
        """Return the item matrix before the first epoch."""
        return make_first_items(self.settings, self.engine.n_items)

    def compute_ridge(self, V: Float32) -> float:
        """Return the lambda of the users' equations."""
        return self.settings.compute_user_ridge(V)

    def open_epoch(
        self, V: Float32, epoch: int, known_people: Audience | None = None
    ) -> ReportEpoch:
        """Begin an epoch, in which attackers know the histories of some people."""
        return ReportEpoch(self, V, epoch, known_people)

    @property
    def honest_reporters(self) -> int:
        """Approximate number of honest people who take part in an epoch."""
        return round(self.honest * self.settings.share)

    @property
    def reporting_attackers(self) -> int:
        """Number of attackers who take part in an epoch."""
        # The token allows attackers no more turns than others.
        return max(round(self.attackers * self.settings.share), min(self.attackers, 1))

    @property
    def n_reports(self) -> int:
        """Number of reports in an epoch."""
        return (self.honest_reporters + self.reporting_attackers) * self.settings.reports

    @property
    def budget(self) -> int:
        """Number of reports of all attackers in an epoch."""
        return self.reporting_attackers * self.settings.reports

    @cached_property
    def max_added_reports(self) -> float:
        """Number of equal reports that attackers can add before the server drops some of them."""
        if not self.is_defended:
            return np.inf
        mechanism = self.mechanism
        kinds = 2 * mechanism.n_directions
        usual = self.honest_reporters * self.settings.reports / kinds
        return max(compute_max_count(self.n_reports, mechanism.event(1, 1), kinds) - usual, 0.0)

    @cached_property
    def noise(self) -> Float64:
        """An estimate from uniformly random reports."""
        mechanism = self.mechanism
        n, chance = mechanism.n_directions, stream(self.settings.seed, "noise")
        sums = sum_signs(chance.integers(2 * n, size=self.n_reports, dtype=np.uint32), n)
        return mechanism.estimate(sums, self.n_reports)


@dataclass(frozen=True, eq=False)
class ReportEpoch:
    """One epoch, in which attackers know V and everything that is public."""

    system: ReportSystem
    V: Float32
    number: int
    known_people: Audience | None
    """People whose histories the attackers know."""

    @property
    def epochs_left(self) -> int:
        """Number of epochs left, with this one."""
        return self.system.settings.epochs - self.number

    def plan(self, changes: Sequence[Float64], epochs: int = 1) -> Float64:
        """Return sums of signs for these changes of V, the most important change first."""
        system, settings = self.system, self.system.settings
        mechanism = system.mechanism
        total = np.zeros(mechanism.n_directions)
        for change in changes:
            estimate = -change / (settings.rate * settings.steps)
            sums = invert_estimate(mechanism, estimate, system.n_reports)
            limits = np.maximum(epochs * system.max_added_reports - np.abs(total), 0.0)
            left = epochs * system.budget - float(np.abs(total).sum())
            total += spend_reports(sums, left, limits)
        return total

    def predict(self, plan: Float64, epochs: int = 1) -> Float32:
        """Return the next V if honest people are like the known ones.

        It is in the basis of this epoch, unlike the V that the server publishes.
        """
        system, settings = self.system, self.system.settings
        share = system.honest_reporters / (system.honest_reporters + system.reporting_attackers)
        # Planned sums are not rounded, unlike those that a server adds up.
        sums = cast("Any", plan)
        estimate = share * self._honest_estimate + system.mechanism.estimate(sums, system.n_reports)
        if system.is_defended:
            estimate = clip_row_lengths(estimate, epochs * self.row_limit)
        return np.asarray(self.V - settings.rate * settings.steps * estimate, np.float32)

    @cached_property
    def row_limit(self) -> float:
        """Approximate length to which a server clips the rows of its estimate."""
        usual = self._honest_estimate + self.system.noise
        return DEFAULT_ROW_LIMIT * measure_typical_row_length(usual, self.system.settings.memory)

    @cached_property
    def _honest_estimate(self) -> Float64:
        if self.known_people is None:
            return np.zeros(self.V.shape)
        X, mechanism = self.known_people.solve_vectors(self.V), self.system.mechanism
        return expect_estimate(mechanism, self.V, X, self.known_people.histories)

    def close(self, plan: Float64 | None = None) -> Float32:
        """Return the next V as the server computes it under its defence."""
        system, epochs_done = self.system, self.number + 1
        mechanism = system.mechanism
        reports = system.engine.list_reports(self.V, self.number)
        # Attackers plan before they see the honest reports of this epoch.
        if plan is not None and system.attackers:
            reports = np.concatenate([reports, self.draw_false_reports(plan)])
        counts = count_reports(reports, mechanism.n_directions)
        if system.is_defended:
            # As on a live server, counts beyond what honest people send are cut off.
            counts = cap_counts(counts, mechanism.event(1, 1))
        return compute_next_items(
            self.V,
            sum_counts(counts),
            int(counts.sum()),
            epochs_done,
            system.settings,
            mechanism,
            row_limit=DEFAULT_ROW_LIMIT if system.is_defended else 0.0,
        )

    def draw_false_reports(self, plan: Float64) -> UInt32:
        """Return the attackers' reports; reports that the plan does not need are random."""
        system = self.system
        # Keep the name of the stream: with another name, the same seed would draw other reports.
        chance, n = stream(system.settings.seed, "lies", self.number), len(plan)
        # Rounded up or down at random, so that the mean is the plan.
        counts = np.floor(np.abs(plan) + chance.random(n)).astype(np.int64)
        planned = np.repeat(pack_reports(np.arange(n), plan > 0), counts)[: system.budget]
        blind = chance.integers(0, 2 * n, system.budget - len(planned))
        added = pack_reports(blind >> 1, blind % 2 == 1)
        reports = chance.permutation(np.concatenate([planned, added]))
        return reports.reshape(system.reporting_attackers, system.settings.reports)
