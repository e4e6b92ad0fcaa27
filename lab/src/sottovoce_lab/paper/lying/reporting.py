"""Devices of ours under attack: liars send k reports each, of their choice, in every epoch.

What liars want is a change of V. The server's estimate is linear in the sums of signs, so the
reports that make a change are those of the estimate's inverse, the ones that matter most first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, gradients, residuals
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import Mechanism, count_reports, pack, sums_of
from sottovoce.data.streams import stream
from sottovoce.simulation.interface import Engine
from sottovoce.training import Settings, first_items
from sottovoce.training.counts import capped, most_of_one
from sottovoce.training.items import moved_items
from sottovoce_lab.paper.lying.defences import GROUPS, TIMES, Defence, groups, limited, shortened
from sottovoce_lab.paper.lying.targets import Audience

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
UInt32 = NDArray[np.uint32]


@singledispatch
def sums_for(mechanism: Mechanism, estimate: Float64, n_reports: int) -> Float64:
    """The sums of signs, not rounded, that a server takes for this estimate."""
    raise NotImplementedError(mechanism.name)


@sums_for.register(Coordinate)
def _(mechanism: Coordinate, estimate: Float64, n_reports: int) -> Float64:
    return np.asarray(estimate.ravel() * (n_reports / mechanism.bound))


@sums_for.register(Loudest)
def _(mechanism: Loudest, estimate: Float64, n_reports: int) -> Float64:
    length = np.sqrt(mechanism.n_directions / mechanism.block)
    shares = mechanism.blocks.forward(estimate) / mechanism.block
    return np.asarray(shares.ravel() * (n_reports * mechanism.gain / length))


@singledispatch
def expected(mechanism: Mechanism, V: Float32, X: Float32, histories: Histories) -> Float64:
    """What a server estimates of these people on average, about."""
    raise NotImplementedError(mechanism.name)


@expected.register(Coordinate)
def _(mechanism: Coordinate, V: Float32, X: Float32, histories: Histories) -> Float64:
    e = residuals(V, X, histories, alpha=mechanism.shape.alpha)
    return np.asarray(np.clip(gradients(e, X), -1, 1).mean(axis=0, dtype=np.float64))


@expected.register(Loudest)
def _(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float64:
    """Of the gradients `-2 e x^T`, each brought to unit length."""
    e = residuals(V, X, histories, alpha=mechanism.shape.alpha)
    lengths = np.linalg.norm(e, axis=1) * np.linalg.norm(X, axis=1)
    weights = 1.0 / (np.maximum(lengths, 1e-30) * len(X))
    return np.asarray(-(e.astype(np.float64).T * weights) @ X)


def afforded(wanted: Float64, budget: float, room: Float64) -> Float64:
    """Of these sums those that matter most, within a budget of reports and the room for each.

    >>> afforded(np.array([3.0, -5.0, 1.0]), 7.0, np.array([9.0, 4.0, 9.0])).tolist()
    [3.0, -4.0, 0.0]
    """
    sizes = np.minimum(np.abs(wanted), room)
    order = np.argsort(-sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    taken = np.zeros_like(sizes)
    taken[order] = np.clip(budget - before, 0.0, sizes[order])
    return np.asarray(np.sign(wanted) * taken)


@dataclass(frozen=True, eq=False)
class Reporters:
    """Everybody who runs our code, the liars who do not, and the server."""

    engine: Engine
    honest: int
    """People of the engine."""
    liars: int
    """Beside them, with reports of their choice."""
    defence: Defence

    @property
    def settings(self) -> Settings:
        return self.engine.settings

    def first(self) -> Float32:
        return first_items(self.settings, self.engine.n_items)

    def ridge(self, V: Float32) -> float:
        return self.settings.user_ridge(V)

    def open(self, V: Float32, epoch: int, known: Audience | None = None) -> ReportEpoch:
        return ReportEpoch(self, V, epoch, known)

    @property
    def n_reports(self) -> int:
        return (self.honest + self.liars) * self.settings.reports

    @property
    def budget(self) -> int:
        """Reports of all liars in an epoch."""
        return self.liars * self.settings.reports

    @cached_property
    def room(self) -> float:
        """How many reports of one kind liars can add before the server drops some."""
        if self.defence != "caps":
            return np.inf
        mechanism = self.engine.mechanism
        kinds = 2 * mechanism.n_directions
        usual = self.honest * self.settings.reports / kinds
        return max(most_of_one(self.n_reports, mechanism.event(1, 1), kinds) - usual, 0.0)

    @cached_property
    def noise(self) -> float:
        """About how long a row of the estimate is if reports say nothing."""
        mechanism = self.engine.mechanism
        n, chance = mechanism.n_directions, stream(self.settings.seed, "noise")
        sums = chance.normal(0.0, np.sqrt(self.n_reports / n), n).round().astype(np.int64)
        rows = mechanism.estimate(sums, self.n_reports)
        return float(np.median(np.linalg.norm(rows, axis=1)))


@dataclass(frozen=True, eq=False)
class ReportEpoch:
    """One epoch, in which liars know V and all that is public."""

    system: Reporters
    V: Float32
    epoch: int
    known: Audience | None
    """People whose histories the liars know."""

    @property
    def left(self) -> int:
        return self.system.settings.epochs - self.epoch

    def ask(self, wanted: Sequence[Float64], times: int = 1) -> Float64:
        """Sums of signs that change V as wanted, as far as they go: the first wish first."""
        system, settings = self.system, self.system.settings
        mechanism = system.engine.mechanism
        total = np.zeros(mechanism.n_directions)
        for change in wanted:
            estimate = -change / (settings.rate * settings.steps)
            left = times * system.budget - float(np.abs(total).sum())
            sums = sums_for(mechanism, estimate, system.n_reports)
            total += afforded(sums, left, np.maximum(times * system.room - np.abs(total), 0.0))
        return total

    def ahead(self, sums: Float64, times: int = 1) -> Float32:
        """The next V, if honest people are like those who are known; in this epoch's basis."""
        system, settings = self.system, self.system.settings
        share = system.honest / (system.honest + system.liars)
        not_rounded = cast("Any", sums)
        lie = system.engine.mechanism.estimate(not_rounded, system.n_reports)
        estimate = share * self._expected + lie
        if system.defence == "rows":
            estimate = shortened(estimate, times * self.row_limit)
        return np.asarray(self.V - settings.rate * settings.steps * estimate, np.float32)

    @cached_property
    def row_limit(self) -> float:
        """About how long a row of the estimate may be where the server limits it."""
        said = np.linalg.norm(self._expected, axis=1)
        return TIMES * float(np.median(np.hypot(said, self.system.noise)))

    @cached_property
    def _expected(self) -> Float64:
        """Of honest people."""
        if self.known is None:
            return np.zeros(self.V.shape)
        X, mechanism = self.known.vectors(self.V), self.system.engine.mechanism
        return expected(mechanism, self.V, X, self.known.histories)

    def close(self, sums: Float64 | None = None) -> Float32:
        """The next V."""
        system = self.system
        sent = system.engine.reports(self.V, self.epoch)
        if sums is not None and system.liars:
            sent = np.concatenate([sent, self.lies(sums)])
        return moved_items(self.V, self._estimate(sent), self.epoch + 1, system.settings)

    def lies(self, sums: Float64) -> UInt32:
        """The liars' reports; those that they have no use for are drawn blindly."""
        system = self.system
        chance, n = stream(system.settings.seed, "lies", self.epoch), len(sums)
        counts = np.floor(np.abs(sums) + chance.random(n)).astype(np.int64)
        chosen = np.repeat(pack(np.arange(n), sums > 0), counts)[: system.budget]
        blind = chance.integers(0, 2 * n, system.budget - len(chosen)).astype(np.uint32)
        dealt = chance.permutation(np.concatenate([chosen, blind]))
        return dealt.reshape(system.liars, system.settings.reports)

    def _estimate(self, sent: UInt32) -> Float64:
        """As the server makes it under its defence."""
        mechanism, defence = self.system.engine.mechanism, self.system.defence
        if defence == "medians":
            seed = self.system.settings.seed
            group = groups(len(sent), seed, self.epoch)
            parts = [self._mean(sent[group == each]) for each in range(GROUPS)]
            return np.asarray(np.median(parts, axis=0))
        if defence == "caps":
            kept = capped(count_reports(sent, mechanism.n_directions), mechanism.event(1, 1))
            return mechanism.estimate(sums_of(kept), int(kept.sum()))
        return limited(self._mean(sent)) if defence == "rows" else self._mean(sent)

    def _mean(self, sent: UInt32) -> Float64:
        mechanism = self.system.engine.mechanism
        sums = sums_of(count_reports(sent, mechanism.n_directions))
        return mechanism.estimate(sums, sent.size)
