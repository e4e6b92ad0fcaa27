"""A training under attack: people send reports, and attackers send reports of their choice.

Attackers want a change of V. The server's estimate is linear in the sums of signs, so the inverse
of the estimate says which reports make this change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import Mechanism, count_reports, pack_reports, sum_counts, sum_signs
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.data.streams import stream
from sottovoce.simulation.interface import Engine, LocalEngine
from sottovoce.training import Settings, make_first_items
from sottovoce.training.counts import cap_counts, compute_max_count
from sottovoce.training.items import (
    DEFAULT_ROW_LIMIT,
    apply_update,
    clip_row_lengths,
    compute_next_items,
    measure_typical_row_length,
)
from sottovoce_lab.paper.poisoning.audience import MIN_VECTOR_LENGTH, Audience, Float32, Float64
from sottovoce_lab.paper.poisoning.defences import (
    DEFENCES_WITH_CAPS,
    SUB_CROWD_COUNT,
    Defence,
    assign_sub_crowds,
)
from sottovoce_lab.paper.slices import assign_slices, draw_sliced_reports

Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]


@singledispatch
def invert_estimate(mechanism: Mechanism, estimate: Float64, n_reports: int) -> Float64:
    """Return the sums of signs, not rounded, for which a server computes this estimate."""
    raise NotImplementedError(mechanism.name)


@invert_estimate.register(Coordinate)
def _(mechanism: Coordinate, estimate: Float64, n_reports: int) -> Float64:
    return np.asarray(estimate.ravel() * (n_reports / mechanism.bound))


@invert_estimate.register(Loudest)
def _(mechanism: Loudest, estimate: Float64, n_reports: int) -> Float64:
    length = np.sqrt(mechanism.n_directions / mechanism.block)
    shares = mechanism.blocks.forward(estimate) / mechanism.block
    return np.asarray(shares.ravel() * (n_reports * mechanism.gain / length))


@singledispatch
def expect_estimate(mechanism: Mechanism, V: Float32, X: Float32, histories: Histories) -> Float64:
    """Return approximately what the server estimates on average from these people's reports."""
    raise NotImplementedError(mechanism.name)


@expect_estimate.register(Coordinate)
def _(mechanism: Coordinate, V: Float32, X: Float32, histories: Histories) -> Float64:
    e = compute_residuals(V, X, histories, alpha=mechanism.shape.alpha)
    return np.asarray(np.clip(compute_gradients(e, X), -1, 1).mean(axis=0, dtype=np.float64))


@expect_estimate.register(Loudest)
def _(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float64:
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
    defence: Defence
    slices: int = 1
    """Number of slices (`sottovoce_lab.paper.slices`); 1: a report may name any direction."""

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
    def slice_of_direction(self) -> Int64:
        """The slice of each direction."""
        mechanism = self.engine.mechanism
        if self.slices == 1:
            return np.zeros(mechanism.n_directions, np.int64)
        assert isinstance(mechanism, Loudest)
        return assign_slices(mechanism, self.slices)

    def draw_honest_reports(self, V: Float32, epoch: int) -> UInt32:
        """Return the reports of the honest people who take part in an epoch."""
        if self.slices == 1:
            return self.engine.list_reports(V, epoch)
        assert isinstance(self.engine, LocalEngine)
        return draw_sliced_reports(self.engine, V, epoch, self.slices)

    @cached_property
    def max_added_reports(self) -> float:
        """Number of equal reports that attackers can add before the server drops some of them."""
        if self.defence not in DEFENCES_WITH_CAPS:
            return np.inf
        mechanism = self.engine.mechanism
        kinds = 2 * mechanism.n_directions
        usual = self.honest_reporters * self.settings.reports / kinds
        return max(compute_max_count(self.n_reports, mechanism.event(1, 1), kinds) - usual, 0.0)

    @cached_property
    def noise(self) -> Float64:
        """An estimate from uniformly random reports."""
        mechanism = self.engine.mechanism
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
        mechanism = system.engine.mechanism
        total = np.zeros(mechanism.n_directions)
        for change in changes:
            estimate = -change / (settings.rate * settings.steps)
            sums = invert_estimate(mechanism, estimate, system.n_reports)
            limits = np.maximum(epochs * system.max_added_reports - np.abs(total), 0.0)
            for slice_number, budget in enumerate(self.slice_budgets.tolist()):
                inside = system.slice_of_direction == slice_number
                # Later epochs will have about as many reports in each slice.
                left = budget + (epochs - 1) * system.budget / system.slices
                left -= float(np.abs(total[inside]).sum())
                total[inside] += spend_reports(sums[inside], left, limits[inside])
        return total

    @cached_property
    def slice_budgets(self) -> Int64:
        """How many of the attackers' reports chance has put into each slice."""
        system, chance = self.system, stream(self.system.settings.seed, "dealt", self.number)
        return np.bincount(
            chance.integers(system.slices, size=system.budget), minlength=system.slices
        )

    def predict(self, plan: Float64, epochs: int = 1) -> Float32:
        """Return the next V if honest people are like the known ones.

        It is in the basis of this epoch, unlike the V that the server publishes.
        """
        system, settings = self.system, self.system.settings
        share = system.honest_reporters / (system.honest_reporters + system.reporting_attackers)
        # Planned sums are not rounded, unlike those that a server adds up.
        sums = cast("Any", plan)
        estimate = share * self._honest_estimate + system.engine.mechanism.estimate(
            sums, system.n_reports
        )
        if system.defence == "rows":
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
        X, mechanism = self.known_people.solve_vectors(self.V), self.system.engine.mechanism
        return expect_estimate(mechanism, self.V, X, self.known_people.histories)

    def close(self, plan: Float64 | None = None) -> Float32:
        """Return the next V as the server computes it under its defence."""
        system, epochs_done = self.system, self.number + 1
        mechanism, settings, defence = system.engine.mechanism, system.settings, system.defence
        reports = system.draw_honest_reports(self.V, self.number)
        # Attackers plan before they see the honest reports of this epoch.
        if plan is not None and system.attackers:
            reports = np.concatenate([reports, self.draw_false_reports(plan)])
        if defence == "medians":
            crowds = assign_sub_crowds(len(reports), settings.seed, self.number)
            estimates = [self._estimate(reports[crowds == n]) for n in range(SUB_CROWD_COUNT)]
            # Attackers in fewer than half of the sub-crowds cannot move a median beyond the
            # estimates of the others.
            median = np.asarray(np.median(estimates, axis=0))
            return apply_update(self.V, median, epochs_done, settings)
        counts = count_reports(reports, mechanism.n_directions)
        if defence in DEFENCES_WITH_CAPS:
            # As on a live server, counts beyond what honest people send are cut off.
            counts = cap_counts(counts, mechanism.event(1, 1))
        row_limit = DEFAULT_ROW_LIMIT if defence == "rows" else 0.0
        n_reports = int(counts.sum())
        sums = sum_counts(counts)
        return compute_next_items(
            self.V, sums, n_reports, epochs_done, settings, mechanism, row_limit=row_limit
        )

    def draw_false_reports(self, plan: Float64) -> UInt32:
        """Return the attackers' reports; reports that the plan does not need are random."""
        system = self.system
        # Keep the name of the stream: with another name, the same seed would draw other reports.
        chance, n = stream(system.settings.seed, "lies", self.number), len(plan)
        # Rounded up or down at random, so that the mean is the plan.
        counts = np.floor(np.abs(plan) + chance.random(n)).astype(np.int64)
        parts = []
        for slice_number, budget in enumerate(self.slice_budgets.tolist()):
            inside = np.flatnonzero(system.slice_of_direction == slice_number)
            # A device may report in its own slice only, so the plan is cut to each slice's budget.
            planned = np.repeat(pack_reports(inside, plan[inside] > 0), counts[inside])[:budget]
            blind = chance.integers(0, 2 * len(inside), budget - len(planned))
            parts += [planned, pack_reports(inside[blind >> 1], blind % 2 == 1)]
        reports = chance.permutation(np.concatenate(parts))
        return reports.reshape(system.reporting_attackers, system.settings.reports)

    def _estimate(self, reports: UInt32) -> Float64:
        mechanism = self.system.engine.mechanism
        sums = sum_counts(count_reports(reports, mechanism.n_directions))
        return mechanism.estimate(sums, reports.size)
