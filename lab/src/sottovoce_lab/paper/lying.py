"""A training under attack: liars want one item to be shown, and what a server does against them.

`history` invents a history and runs honest code. `reports` leaves the protocol: it moves the
item's row towards that of the item which people like best, and does not look whether this helps.
`adaptive` tries in every epoch what would become of the model published last, on people it knows,
and sends what helps most; reports that are left over push down the items in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, compute_gram, draw_initial_items, update_items
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.loudest import Loudest
from sottovoce.core.mechanism import Mechanism, count_reports, pack_reports, sum_counts, sum_signs
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.data.split import Split
from sottovoce.data.streams import stream
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.metrics import hit_ratio, summarize_ranks
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, rank_factors
from sottovoce.simulation.interface import Engine, LocalEngine
from sottovoce.training import Settings, make_first_items
from sottovoce.training.counts import cap_counts, compute_max_count
from sottovoce.training.items import (
    DEFAULT_ROW_LIMIT,
    apply_update,
    clip_row_lengths,
    compute_next_items,
    limit_row_lengths,
    measure_typical_row_length,
)
from sottovoce_lab.baselines.federated import MeanGradient, compute_mean_gradient
from sottovoce_lab.baselines.models import (
    build_normal_equations,
    build_outer_table,
    split_into_blocks,
)
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.slices import slice_of, sliced_reports

Float32 = NDArray[np.float32]
Ridge = Callable[[Float32], float]
"""Lambda of the users' equations, for some V."""
SHOWN = 10
"""As many items as a person looks at."""
SAMPLE = 300
"""People whose histories the liars know: friends, leaks, public profiles."""
BANDS = {"cold": (0.0, 0.1), "middling": (0.45, 0.55), "popular": (0.95, 0.99)}
"""Where an item lies among all, from the least to the most popular."""


def targets(train: Histories, seed: int) -> dict[str, int]:
    """One item of each band, drawn by the seed."""
    order = np.argsort(train.popularity(), kind="stable")
    chance, n = stream(seed, "liars"), train.n_items
    return {
        name: int(order[chance.integers(int(low * n), max(int(high * n), int(low * n) + 1))])
        for name, (low, high) in BANDS.items()
    }


@dataclass(frozen=True, eq=False)
class Audience:
    """People to whom an item may be shown: those who have not touched it."""

    candidates: Candidates
    """The item of each as if it were the one left out, among the whole catalogue."""
    alpha: float
    ridge: Ridge

    @classmethod
    def of(cls, item: int, split: Split, alpha: float, ridge: Ridge) -> Audience:
        train = split.train
        touched = train.users_of_entries()[train.indices == item]
        test = np.full(train.n_users, item, np.int32)
        test[touched] = -1
        test[split.test == item] = -1
        whole = np.empty((train.n_users, 0), np.int32)
        return cls(Candidates(whole, Split(train, test, split.rule, split.seed)), alpha, ridge)

    @property
    def histories(self) -> Histories:
        return self.candidates.split.train

    def sample(self, seed: int) -> Audience:
        """Some of them, whom the liars know."""
        split = self.candidates.split
        n = split.train.n_users
        known = np.sort(stream(seed, "known").permutation(n)[:SAMPLE])
        some = Split(split.train.take(known), split.test[known], split.rule, split.seed)
        whole = np.empty((len(known), 0), np.int32)
        return Audience(Candidates(whole, some), self.alpha, self.ridge)

    def vectors(self, V: Float32) -> Float32:
        return solved(V, self.histories, self.alpha, self.ridge(V))

    def exposure(self, V: Float32) -> float:
        """The share of them who find the item among the first ten of the catalogue."""
        return hit_ratio(self._ranks(V), SHOWN)

    def nearness(self, V: Float32) -> float:
        """The same, where a place behind the tenth counts for something: 10 over the place."""
        ranks = self._ranks(V)
        place = ranks.better + ranks.ties / 2 + 1
        return float(np.minimum(SHOWN / place, 1.0).mean())

    def distances(self, V: Float32) -> NDArray[np.float64]:
        """How far the item must move for each of them to be shown: the score that it lacks.

        Over the length of their vector; 0 to whom it is shown, or who have touched it.
        """
        X, train, test = self.vectors(V), self.histories, self.candidates.split.test
        scores = (X @ V.T).astype(np.float64)
        scores[train.users_of_entries(), train.indices] = -np.inf
        shown = min(SHOWN, V.shape[0])
        tenth = -np.partition(-scores, shown - 1, axis=1)[:, shown - 1]
        lacking = tenth - scores[np.arange(len(X)), test]
        known = (test >= 0) & np.isfinite(lacking)
        sizes = np.maximum(np.linalg.norm(X, axis=1), 1e-30)
        return np.asarray(np.where(known, np.maximum(lacking, 0), 0.0) / sizes)

    def _ranks(self, V: Float32) -> Ranks:
        return rank_factors(self.vectors(V), V, self.candidates)


def solved(V: Float32, histories: Histories, alpha: float, regularization: float) -> Float32:
    """Everybody's vector as `core.solve_user_vectors`, quickly and not to the last bit."""
    table, G, factors = build_outer_table(V), compute_gram(V), V.shape[1]
    parts = []
    for some in split_into_blocks(histories):
        system, right = build_normal_equations(some.to_csr() @ table, G, factors, alpha)
        system[:, np.arange(factors), np.arange(factors)] += regularization
        parts.append(np.linalg.solve(system, right[:, :, None])[:, :, 0].astype(np.float32))
    return np.concatenate(parts)


Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Defence = Literal["none", "caps", "rows", "medians"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
CAPPED = ("caps", "rows")
"""`rows` is what the live server has: caps as well."""
GROUPS = 5
"""Sub-crowds whose median estimate counts."""


def groups(people: int, seed: int, epoch: int, n_groups: int = GROUPS) -> Int64:
    """The sub-crowd of each person in an epoch: of equal sizes, drawn anew.

    A proxy would have to draw it: a server does not know which reports are one person's.
    """
    return stream(seed, "group", epoch).permutation(np.arange(people) % n_groups)


Attacker = Literal["history", "reports", "adaptive"]
ATTACKERS: tuple[Attacker, ...] = get_args(Attacker)
COMPANY = {"paper": (80, 80), "loudest": (2, 20), "fcf": (3, 3)}
"""Of an invented history beside the item that is pushed: so many of so many most popular ones.

By method, what gave a middling item most exposure on seed 1000, with 5% of liars.
"""
REACH = 1.25
"""`reports` wants a row so many times that of the item which people like best."""
REACHES = (0.5, 0.8, 1.1, 1.5, 2.0, 3.0)
NEAREST = (0.1, 0.4, 1.0)
"""Shares of the known people who lack least: whom `adaptive` tries to please."""
PATIENCE = 5
"""Epochs that `adaptive` looks ahead."""
RIVALS = (10, 50)
"""How many items in the way `adaptive` tries to push down."""


def invented(
    honest: Histories, item: int, liars: int, seed: int, *, company: int, pool: int
) -> Histories:
    """For each liar the item, beside some of those that most people know."""
    order = np.argsort(-honest.popularity(), kind="stable")
    popular, chance = order[order != item][:pool], stream(seed, "liars", 1)
    drawn = [chance.permutation(popular)[:company].tolist() for _ in range(liars)]
    return Histories.from_lists([[item, *each] for each in drawn], honest.n_items)


@dataclass(frozen=True, eq=False)
class Liars:
    """Who push one item, and the people they know."""

    item: int
    known: Audience

    def blunt(self, epoch: ReportEpoch | GradientEpoch, reach: float = REACH) -> Float64:
        """What `reports` sends."""
        liked = self._liked(epoch.V)
        return epoch.ask([self._towards(epoch.V, reach * liked[0])])

    def adapted(self, epoch: ReportEpoch | GradientEpoch) -> Float64:
        """What `adaptive` sends: the best on the people it knows of all that it tries.

        What takes more than one epoch is judged by where it leads to.
        """
        ahead, times = epoch.ahead(epoch.ask([])), min(epoch.left, PATIENCE)

        def worth(wishes: Sequence[Float64]) -> float:
            return self.known.nearness(epoch.ahead(epoch.ask(wishes, times), times))

        tried = [[self._towards(ahead, goal)] for goal in self._goals(ahead)]
        best = max([[], *tried], key=worth)
        further = [[*best, away] for away in self._away(ahead)]
        return epoch.ask(max([best, *further], key=worth))

    def _towards(self, V: Float32, goal: Float64) -> Float64:
        change = np.zeros(V.shape)
        change[self.item] = goal - V[self.item]
        return change

    def _goals(self, V: Float32) -> Iterator[Float64]:
        """Rows to have: like the best liked item, like the best ten, along some people's mean."""
        liked, length = self._liked(V), float(np.linalg.norm(self._liked(V)[0]))
        X, far = self.known.vectors(V), self.known.distances(V)
        for row in (liked[0], liked.mean(axis=0)):
            yield from (reach * row for reach in REACHES)
        for share in NEAREST:
            near = X[far <= np.quantile(far, share)].mean(axis=0, dtype=np.float64)
            unit = near / max(float(np.linalg.norm(near)), 1e-300)
            yield from (reach * length * unit for reach in REACHES)

    def _away(self, V: Float32) -> Iterator[Float64]:
        """The rows of the best liked items taken to zero."""
        mean = self._mean_vector(V)
        order = [each for each in np.argsort(-(V @ mean), kind="stable") if each != self.item]
        for n in RIVALS:
            change = np.zeros(V.shape)
            change[order[:n]] = -V[order[:n]]
            yield change

    def _liked(self, V: Float32) -> Float64:
        """The rows of the ten items that the mean person likes best, best first."""
        order = np.argsort(-(V @ self._mean_vector(V)), kind="stable")
        return np.asarray(V[order[order != self.item][:10]], np.float64)

    def _mean_vector(self, V: Float32) -> Float64:
        return np.asarray(self.known.vectors(V).mean(axis=0, dtype=np.float64))


# Devices of ours. What liars want is a change of V. The server's estimate is linear in the sums of
# signs, so the reports that make a change are those of the estimate's inverse, the ones that matter
# most first.


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
    e = compute_residuals(V, X, histories, alpha=mechanism.shape.alpha)
    return np.asarray(np.clip(compute_gradients(e, X), -1, 1).mean(axis=0, dtype=np.float64))


@expected.register(Loudest)
def _(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float64:
    """Of the gradients `-2 e x^T`, each brought to unit length."""
    e = compute_residuals(V, X, histories, alpha=mechanism.shape.alpha)
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
    """In addition to them, with reports of their choice."""
    defence: Defence
    slices: int = 1
    """`sottovoce_lab.paper.slices`; 1: a report may name any direction."""

    @property
    def settings(self) -> Settings:
        return self.engine.settings

    def first(self) -> Float32:
        return make_first_items(self.settings, self.engine.n_items)

    def ridge(self, V: Float32) -> float:
        return self.settings.compute_user_ridge(V)

    def open(self, V: Float32, epoch: int, known: Audience | None = None) -> ReportEpoch:
        return ReportEpoch(self, V, epoch, known)

    @property
    def reporting(self) -> int:
        """Honest people who take part in an epoch, about."""
        return round(self.honest * self.settings.share)

    @property
    def lying(self) -> int:
        """Liars who take part in an epoch: they have no more turns than others."""
        return max(round(self.liars * self.settings.share), min(self.liars, 1))

    @property
    def n_reports(self) -> int:
        return (self.reporting + self.lying) * self.settings.reports

    @property
    def budget(self) -> int:
        """Reports of all liars in an epoch."""
        return self.lying * self.settings.reports

    @cached_property
    def part(self) -> Int64:
        """The slice of each direction."""
        mechanism = self.engine.mechanism
        if self.slices == 1:
            return np.zeros(mechanism.n_directions, np.int64)
        assert isinstance(mechanism, Loudest)
        return slice_of(mechanism, self.slices)

    def honest_reports(self, V: Float32, epoch: int) -> UInt32:
        if self.slices == 1:
            return self.engine.list_reports(V, epoch)
        assert isinstance(self.engine, LocalEngine)
        return sliced_reports(self.engine, V, epoch, self.slices)

    @cached_property
    def room(self) -> float:
        """How many reports of one kind liars can add before the server drops some."""
        if self.defence not in CAPPED:
            return np.inf
        mechanism = self.engine.mechanism
        kinds = 2 * mechanism.n_directions
        usual = self.reporting * self.settings.reports / kinds
        return max(compute_max_count(self.n_reports, mechanism.event(1, 1), kinds) - usual, 0.0)

    @cached_property
    def noise(self) -> Float64:
        """An estimate of reports that say nothing."""
        mechanism = self.engine.mechanism
        n, chance = mechanism.n_directions, stream(self.settings.seed, "noise")
        sums = sum_signs(chance.integers(2 * n, size=self.n_reports, dtype=np.uint32), n)
        return mechanism.estimate(sums, self.n_reports)


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
            sums = sums_for(mechanism, estimate, system.n_reports)
            room = np.maximum(times * system.room - np.abs(total), 0.0)
            for each, budget in enumerate(self.dealt.tolist()):
                inside = system.part == each
                left = budget + (times - 1) * system.budget / system.slices
                left -= float(np.abs(total[inside]).sum())
                total[inside] += afforded(sums[inside], left, room[inside])
        return total

    @cached_property
    def dealt(self) -> Int64:
        """How many of the liars' reports chance has put into each slice."""
        system, chance = self.system, stream(self.system.settings.seed, "dealt", self.epoch)
        return np.bincount(
            chance.integers(system.slices, size=system.budget), minlength=system.slices
        )

    def ahead(self, sums: Float64, times: int = 1) -> Float32:
        """The next V, if honest people are like those who are known; in this epoch's basis."""
        system, settings = self.system, self.system.settings
        share = system.reporting / (system.reporting + system.lying)
        not_rounded = cast("Any", sums)
        lie = system.engine.mechanism.estimate(not_rounded, system.n_reports)
        estimate = share * self._expected + lie
        if system.defence == "rows":
            estimate = clip_row_lengths(estimate, times * self.row_limit)
        return np.asarray(self.V - settings.rate * settings.steps * estimate, np.float32)

    @cached_property
    def row_limit(self) -> float:
        """About how long a row of the estimate may be where the server limits it."""
        usual = self._expected + self.system.noise
        return DEFAULT_ROW_LIMIT * measure_typical_row_length(usual, self.system.settings.memory)

    @cached_property
    def _expected(self) -> Float64:
        """Of honest people."""
        if self.known is None:
            return np.zeros(self.V.shape)
        X, mechanism = self.known.vectors(self.V), self.system.engine.mechanism
        return expected(mechanism, self.V, X, self.known.histories)

    def close(self, sums: Float64 | None = None) -> Float32:
        """The next V, as the server makes it under its defence."""
        system, done = self.system, self.epoch + 1
        mechanism, settings, defence = system.engine.mechanism, system.settings, system.defence
        sent = system.honest_reports(self.V, self.epoch)
        if sums is not None and system.liars:
            sent = np.concatenate([sent, self.lies(sums)])
        if defence == "medians":
            group = groups(len(sent), settings.seed, self.epoch)
            parts = [self._mean(sent[group == each]) for each in range(GROUPS)]
            return apply_update(self.V, np.asarray(np.median(parts, axis=0)), done, settings)
        counts = count_reports(sent, mechanism.n_directions)
        kept = cap_counts(counts, mechanism.event(1, 1)) if defence in CAPPED else counts
        row_limit = DEFAULT_ROW_LIMIT if defence == "rows" else 0.0
        n_reports = int(kept.sum())
        return compute_next_items(
            self.V, sum_counts(kept), n_reports, done, settings, mechanism, row_limit=row_limit
        )

    def lies(self, sums: Float64) -> UInt32:
        """The liars' reports; those that they have no use for are drawn blindly."""
        system = self.system
        chance, n = stream(system.settings.seed, "lies", self.epoch), len(sums)
        counts = np.floor(np.abs(sums) + chance.random(n)).astype(np.int64)
        parts = []
        for each, budget in enumerate(self.dealt.tolist()):
            inside = np.flatnonzero(system.part == each)
            chosen = np.repeat(pack_reports(inside, sums[inside] > 0), counts[inside])[:budget]
            blind = chance.integers(0, 2 * len(inside), budget - len(chosen))
            parts += [chosen, pack_reports(inside[blind >> 1], blind % 2 == 1)]
        sent = chance.permutation(np.concatenate(parts))
        return sent.reshape(system.lying, system.settings.reports)

    def _mean(self, sent: UInt32) -> Float64:
        mechanism = self.system.engine.mechanism
        sums = sum_counts(count_reports(sent, mechanism.n_directions))
        return mechanism.estimate(sums, sent.size)


# FCF: people send gradients in clear, so liars send one of their choice. Assumed in the server's
# favour: it refuses a gradient longer than the longest honest one, and its line search sees
# curvatures of honest people alone.


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
        return draw_initial_items(n_items, settings.factors, settings.initial_scale, settings.seed)

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
        return update_items(
            self.V,
            gradient,
            rate=mean.find_best_step(self.V, settings.regularization) / settings.steps,
            steps=settings.steps,
            regularization=settings.regularization,
        )

    @cached_property
    def longest(self) -> float:
        """Of the gradients of those who run the code: `2 |e| |x|`."""
        settings, most = self.system.settings, 0.0
        for some in split_into_blocks(self.system.histories):
            X = solved(self.V, some, settings.alpha, settings.regularization)
            e = compute_residuals(self.V, X, some, alpha=settings.alpha)
            lengths = 2 * np.linalg.norm(e, axis=1) * np.linalg.norm(X, axis=1)
            most = max(most, float(lengths.max()))
        return most

    @cached_property
    def _honest(self) -> MeanGradient:
        return self._mean(self.system.histories)

    def _step(self, lie: Float64) -> float:
        """How far the server goes."""
        mean = MeanGradient(self._together(lie), self._honest.curvature)
        return mean.find_best_step(self.V, self.system.settings.regularization)

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
        if self.system.defence != "rows":
            return mean
        return limit_row_lengths(mean, DEFAULT_ROW_LIMIT, self.system.settings.memory)

    def _of_group(self, chosen: NDArray[np.bool_], lie: Float64) -> Float64:
        n = self.system.histories.n_users
        people, share = np.flatnonzero(chosen[:n]), chosen[n:].sum() / chosen.sum()
        honest = self._mean(self.system.histories.take(people)).gradient
        return np.asarray((1 - share) * honest + share * lie)

    def _mean(self, people: Histories) -> MeanGradient:
        settings = self.system.settings
        return compute_mean_gradient(
            self.V,
            [some.to_csr().astype(np.float64) for some in split_into_blocks(people)],
            alpha=settings.alpha,
            regularization=settings.regularization,
            pool=self.system.pool,
        )


System = Reporters | Senders
Send = Callable[[Liars, ReportEpoch | GradientEpoch], Float64]
OWN = ("attacked", "attacker", "defence", "pushed", "share")
"""Parameters of a cell beside the settings of the training that is attacked."""
SENDING: dict[str, Send] = {"reports": Liars.blunt, "adaptive": Liars.adapted}
"""Attackers who leave the protocol."""
NOBODY = "nobody"
"""The attacker where there is none; then nothing is pushed."""


def lie(cell: Cell, context: CellContext) -> dict[str, Any]:
    """HR@10 of honest people and the exposure of each item, of which one may be pushed."""
    candidates, settings = context.prepared(cell).candidates, _settings(cell)
    split = candidates.split
    honest, items = split.train, targets(split.train, cell.seed)
    liars = liars_among(honest.n_users, cell.named["share"])
    with _system(cell, context, honest, liars, items) as system:
        audiences = {
            name: Audience.of(item, split, settings.alpha, system.ridge)
            for name, item in items.items()
        }
        who = None
        if cell.named["attacker"] in SENDING:
            pushed = cell.named["pushed"]
            who = Liars(items[pushed], audiences[pushed].sample(cell.seed))
        V = _trained(system, who, SENDING.get(cell.named["attacker"]))
    X = solved(V, honest, settings.alpha, system.ridge(V))
    exposed = {exposure_of(name): each.exposure(V) for name, each in audiences.items()}
    final = {**summarize_ranks(rank_factors(X, V, candidates)), **exposed}
    return {"final": final, "liars": liars, "people": honest.n_users}


def _trained(system: System, who: Liars | None, send: Send | None) -> Float32:
    V = system.first()
    for number in range(system.settings.epochs):
        if who is None or send is None:
            V = system.open(V, number).close()
        else:
            epoch = system.open(V, number, who.known)
            V = epoch.close(send(who, epoch))
    return V


def exposure_of(pushed: str) -> str:
    """What this number is called in a result."""
    return f"exposure@10 {pushed}"


def liars_among(honest: int, share: float) -> int:
    """So many beside honest people are this share of all, and one at least.

    >>> liars_among(9_900, 0.01), liars_among(100, 0.0), liars_among(10, 0.001)
    (100, 0, 1)
    """
    return max(round(honest * share / (1 - share)), 1) if share else 0


def joined(one: Histories, other: Histories) -> Histories:
    """Both, one after the other."""
    offsets = np.concatenate([one.indptr, one.indptr[-1] + other.indptr[1:]])
    return Histories(offsets, np.concatenate([one.indices, other.indices]), one.n_items)


def _settings(cell: Cell) -> Settings:
    given = {name: value for name, value in cell.named.items() if name not in OWN}
    return Settings.from_dict({**given, "seed": cell.seed})


@contextmanager
def _system(
    cell: Cell, context: CellContext, honest: Histories, liars: int, items: dict[str, int]
) -> Iterator[System]:
    """Liars who invent a history are people among others; the rest come beside them."""
    people, named, settings = honest, cell.named, _settings(cell)
    if named["attacker"] == "history":
        company, among = COMPANY[named["attacked"]]
        item = items[named["pushed"]]
        made = invented(honest, item, liars, cell.seed, company=company, pool=among)
        people = joined(honest, made)
    beside = honest.n_users + liars - people.n_users
    if named["attacked"] == "fcf":
        with ThreadPoolExecutor(context.threads) as pool:
            yield Senders(people, beside, settings, named["defence"], pool)
        return
    with build_engine(context.engine, people, settings, **context.engine_options) as engine:
        yield Reporters(engine, people.n_users, beside, named["defence"])
