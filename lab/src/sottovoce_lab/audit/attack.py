"""What an attacker who knows everything but one thing about one person learns from reports.

The attacker has every epoch's V and everybody's history; only whether the victim touched one item
is left to guess (or, harder on the victim, which of two whole histories is the victim's). *Linked*,
the attacker knows which reports are the victim's, and adds up log-likelihood ratios: no test is
better. *Unlinked*, the proxy shows all reports of an epoch in no order. With n people a report says
`f / n` instead of `f`, so to first order the likelihood ratio is the sum of `(f1 - f0) / fbar` over
all of them, f1 and f0 the victim's densities in the two worlds, fbar everybody's average.

Where people take turns, the attacker is told when it is the victim's turn, linked or not. Nobody's
history has a say in that, so it tells nothing by itself; unlinked, it is more than a server knows.

One interaction of one person hardly moves V: it is trained once and held fixed, in both worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sottovoce.core import Histories, Mechanism
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError
from sottovoce.privacy import gaussian_mu
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.random_words import draw_participants
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Settings
from sottovoce_lab.audit.clients import mean_density, report_densities

Ints = NDArray[np.int64]
Question = Literal["interaction", "history"]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class AttackPlan:
    """How often the attack is tried, on whom, and at which (k, T) it is evaluated."""

    trials: int = 4000
    """Victims times crowds times two worlds."""
    crowds: int = 40
    """How often all the others report anew; the victims of one crowd share its noise."""
    question: Question = "interaction"
    """`interaction`: did they touch one item? `history`: is a whole history theirs?"""
    points: tuple[tuple[int, int], ...] = ()
    """(k, T) to look at; none: a curve up to the settings' own."""
    seed: int = 0
    """Of victims, items and worlds."""
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.crowds < 2 or self.trials < 4 * self.crowds:
            raise SettingsError(
                f"need two crowds and at least four trials for each, got {self.trials} trials "
                f"and {self.crowds} crowds"
            )
        if self.question not in ("interaction", "history"):
            raise SettingsError(f"question must be interaction or history, not {self.question!r}")

    @property
    def victims(self) -> int:
        """How many people are attacked, each in every crowd and in both worlds."""
        return -(-self.trials // (2 * self.crowds))


@dataclass(frozen=True)
class AttackPoint:
    """The attack after `epochs` epochs of `reports` reports."""

    reports: int
    epochs: int
    linked: Auc
    unlinked: Auc
    bound: float
    """What no attacker on unlinked reports exceeds, in the limit of many people."""

    @property
    def total(self) -> int:
        """Reports in all of somebody who takes part in all of these epochs: k T."""
        return self.reports * self.epochs


@dataclass(frozen=True)
class Attack:
    settings: Settings
    question: Question
    clients: int
    trials: int
    points: tuple[AttackPoint, ...]


def run_attack(
    histories: Histories,
    settings: Settings,
    plan: AttackPlan,
    watch: Callable[[str], None] = lambda _: None,
) -> Attack:
    """Train once, then attack: AUC of linked and of unlinked reports at every point."""
    points = plan.points or curve(settings.reports, settings.epochs)
    _check_points(points, settings)
    rng = np.random.default_rng(plan.seed)
    targets = choose_targets(histories, plan.victims, plan.question, rng)
    trials = all_trials(plan.victims, plan.crowds)
    always = replace(settings, lifetime=0)
    training, everybody, own = (
        build_engine("cpu", people, each, threads=plan.threads)
        for people, each in (
            (histories, settings),
            (histories, always),
            (victims_of(targets, trials), always),
        )
    )
    scores = _Scores(points, len(trials.victim))
    last = max(epochs for _, epochs in points)
    for epoch, V in enumerate(published(settings, training, histories.n_items, last)):
        watch(f"attack on {settings.mechanism}: epoch {epoch + 1} of {last}")
        seen = Knowledge(settings, everybody, own, histories, targets, trials, V, epoch)
        for reports in scores.wanted(epoch):
            scores.linked[reports] += seen.linked(reports)
            scores.unlinked[reports] += seen.unlinked(reports)
        scores.keep(epoch + 1)
    found = [
        _point(scores, trials, settings, histories, reports, epochs) for reports, epochs in points
    ]
    return Attack(settings, plan.question, histories.n_users, len(trials.victim), tuple(found))


def curve(reports: int, epochs: int) -> tuple[tuple[int, int], ...]:
    """(k, T) from a single report to all of them, about three for every factor of ten."""
    steps = [scale * 10**power for power in range(6) for scale in (1, 2, 5)]
    first = [(k, 1) for k in steps if k < reports]
    later = [(reports, t) for t in steps if t < epochs]
    return (*first, *later, (reports, epochs))


def published(
    settings: Settings, engine: Engine, n_items: int, epochs: int
) -> list[NDArray[np.float32]]:
    """V as it is at the start of each of the first epochs."""
    start = start_training(settings, n_items)
    later = train(replace(settings, epochs=epochs - 1), engine, start) if epochs > 1 else []
    return [start.V, *(state.V for state in later)]


def shuffled_bound(
    mechanism: Mechanism, reports: int, epochs: int, clients: int, dummies: int = 0
) -> float:
    """`Phi(mu / sqrt 2)`: the AUC between two normals that lie mu apart."""
    event = mechanism.event(reports, epochs, dummies)
    return float(special.ndtr(gaussian_mu(event, clients) / sqrt(2)))


class _Scores:
    """Every trial's running sums, for every k that is looked at."""

    def __init__(self, points: Sequence[tuple[int, int]], n_trials: int):
        self._points = points
        self.linked = {reports: np.zeros(n_trials) for reports, _ in points}
        self.unlinked = {reports: np.zeros(n_trials) for reports, _ in points}
        self.kept: dict[tuple[int, int], tuple[Float64, Float64]] = {}

    def wanted(self, epoch: int) -> list[int]:
        """The ks that go on beyond this epoch (counted from 0)."""
        return sorted({reports for reports, epochs in self._points if epochs > epoch})

    def keep(self, epochs_done: int) -> None:
        for reports, epochs in self._points:
            if epochs == epochs_done:
                both = self.linked[reports].copy(), self.unlinked[reports].copy()
                self.kept[reports, epochs] = both


def _point(
    scores: _Scores,
    trials: Trials,
    settings: Settings,
    histories: Histories,
    reports: int,
    epochs: int,
) -> AttackPoint:
    linked, unlinked = (area(each, trials) for each in scores.kept[reports, epochs])
    mechanism = settings.build(histories.n_items)
    turns, crowd = min(epochs, settings.turns), max(settings.estimate_crowd(histories.n_users), 1)
    dummies = settings.dummies * reports // settings.reports
    bound = shuffled_bound(mechanism, reports, turns, crowd, dummies)
    return AttackPoint(reports, epochs, linked, unlinked, bound)


def _check_points(points: Sequence[tuple[int, int]], settings: Settings) -> None:
    for reports, epochs in points:
        if not (1 <= reports <= settings.reports and 1 <= epochs <= settings.epochs):
            raise SettingsError(
                f"points must be within k = {settings.reports}, T = {settings.epochs}, "
                f"not k = {reports}, T = {epochs}"
            )


@dataclass(frozen=True, eq=False)
class Targets:
    """The victims and their two worlds."""

    victims: Ints
    true: Histories
    """What the victims really did: also what the crowd's own copy of them reports from."""
    other: Histories


@dataclass(frozen=True, eq=False)
class Trials:
    """Trial j is about victim `victim[j]` among crowd `crowd[j]`, in the true world or not."""

    victim: Ints
    crowd: Ints
    is_true: NDArray[np.bool_]


def choose_targets(
    histories: Histories, count: int, question: Question, rng: np.random.Generator
) -> Targets:
    """Random people with two items or more, and one of their items (or somebody else's history)."""
    able = np.flatnonzero(np.diff(histories.indptr) >= 2)
    if not len(able):
        raise DataError("a victim must have two interactions, and nobody has")
    victims = rng.choice(able, count, replace=count > len(able))
    if question == "history":
        others = rng.choice(able, count)
        return Targets(victims, histories.take(victims), histories.take(others))
    without = []
    for victim in victims:
        own = histories[int(victim)]
        without.append(np.delete(own, rng.integers(len(own))).tolist())
    other = Histories.from_lists(without, histories.n_items)
    return Targets(victims, histories.take(victims), other)


def all_trials(n_victims: int, n_crowds: int) -> Trials:
    """Every victim in every crowd, in both worlds: what the crowd adds is then the same for both.

    It takes most of the noise out of the AUC and leaves its expectation alone, but for the few
    pairs of scores that share a crowd and a victim: one in so many trials.
    """
    cells = np.arange(n_victims * n_crowds).repeat(2)
    crowd, victim = np.divmod(cells, n_victims)
    return Trials(victim, crowd, np.arange(len(cells)) % 2 == 0)


def victims_of(targets: Targets, trials: Trials) -> Histories:
    """Each trial's victim in its world, as if they were so many people."""
    n = len(targets.victims)
    worlds = [list(world[place]) for world in (targets.true, targets.other) for place in range(n)]
    both = Histories.from_lists(worlds, targets.true.n_items)
    return both.take(trials.victim + np.where(trials.is_true, 0, n))


@dataclass(frozen=True)
class Auc:
    """How often the attacker ranks a true world above a false one: 0.5 is a guess."""

    value: float
    error: float
    """Its standard error over other crowds and other victims."""


def area(scores: NDArray[np.float64], trials: Trials) -> Auc:
    """Under the ROC curve of all trials.

    Trials of one crowd share its noise, trials of one victim a history: whole crowds, and then
    whole victims, are left out (the jackknife). Both variances are added: rather too
    much than too little.
    """
    crowds = _jackknife(scores, trials.is_true, trials.crowd)
    victims = _jackknife(scores, trials.is_true, trials.victim)
    return Auc(_area(scores, trials.is_true), sqrt(crowds + victims))


def _area(scores: NDArray[np.float64], is_true: NDArray[np.bool_]) -> float:
    """The share of (true, false) pairs in the right order; ties count half."""
    positives, negatives = int(is_true.sum()), int((~is_true).sum())
    ranks = stats.rankdata(scores)[is_true].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def _jackknife(
    scores: NDArray[np.float64], is_true: NDArray[np.bool_], group: NDArray[np.int64]
) -> float:
    """Variance of the area; 0 where there is but one group and nothing to leave out."""
    groups = np.unique(group)
    if len(groups) < 2:
        return 0.0
    kept = (group != each for each in groups)
    without = np.array([_area(scores[some], is_true[some]) for some in kept])
    return (len(groups) - 1) * float(without.var())


class Knowledge:
    """What the attacker makes of one epoch; both engines let everybody report."""

    def __init__(
        self,
        settings: Settings,
        everybody: Engine,
        own: Engine,
        histories: Histories,
        targets: Targets,
        trials: Trials,
        V: NDArray[np.float32],
        epoch: int,
    ):
        mechanism = settings.build(histories.n_items)
        self._targets, self._trials = targets, trials
        true = report_densities(mechanism, settings, V, targets.true).astype(np.float64)
        other = report_densities(mechanism, settings, V, targets.other).astype(np.float64)
        self._ratio = np.log(true) - np.log(other)
        people = histories.n_users * settings.share * settings.reports
        uniform = settings.dummies / (people + settings.dummies)
        mean = mean_density(mechanism, settings, V, histories)
        self._weight = (true - other) / (uniform + (1 - uniform) * mean)
        # The others' expectation is minus the true victim's, who is among fbar but not among them,
        # for each who takes part; with it a score of 0 lies halfway between the two worlds.
        halfway = (true + other) / 2 - settings.share * true
        self._middle = (halfway * self._weight).mean(axis=1)
        # Epoch numbers beyond the training's own: nobody's words are used twice.
        beyond = settings.epochs
        self._own = own.list_reports(V, beyond + epoch)
        n_crowds = int(trials.crowd.max()) + 1
        self._crowds = [
            everybody.list_reports(V, (2 + crowd) * settings.epochs + epoch)
            for crowd in range(n_crowds)
        ]
        first = settings.epochs + epoch * n_crowds
        draws = [stream(settings.seed, "dummy", first + each) for each in range(n_crowds)]
        n_signed = self._weight.shape[1]
        self._dummies = [draw.integers(n_signed, size=settings.dummies) for draw in draws]
        self._covered = settings.dummies / settings.reports
        self._takes = takes_part(settings, epoch, n_crowds, histories.n_users)
        self._present = self._takes[trials.crowd, targets.victims[trials.victim]]

    def linked(self, reports: int) -> Float64:
        """Each trial's log-likelihood ratio from the victim's first reports in their turn."""
        return self._present * self._of_own(self._ratio, reports)

    def unlinked(self, reports: int) -> Float64:
        """Each trial's linear statistic over everybody's reports, the victim's among them.

        Nothing where it is not their turn: what others say then is noise, and the attacker knows.
        """
        each = zip(self._crowds, self._takes, self._dummies, strict=True)
        dummies = int(self._covered * reports)
        others = np.stack(
            [self._of_crowd(crowd[:, :reports], takes, of[:dummies]) for crowd, takes, of in each]
        )
        trials = self._trials
        total = others[trials.crowd, trials.victim] + self._of_own(self._weight, reports)
        return np.asarray(self._present * (total - reports * self._middle[trials.victim]))

    def _of_own(self, table: Float64, reports: int) -> Float64:
        rows = self._trials.victim[:, None]
        return np.asarray(table[rows, self._own[:, :reports]].sum(axis=1))

    def _of_crowd(
        self, reports: NDArray[np.uint32], takes: NDArray[np.bool_], dummies: Ints
    ) -> Float64:
        """For every victim in their turn, what all the others add: not the victim's own copy.

        And what the dummies add, beyond what so many are expected to.
        """
        n_signed = self._weight.shape[1]
        counts = np.bincount(reports[takes].ravel(), minlength=n_signed) - len(dummies) / n_signed
        counts += np.bincount(dummies, minlength=n_signed)
        own = reports[self._targets.victims]
        rows = np.arange(len(own))[:, None]
        return np.asarray(self._weight @ counts - self._weight[rows, own].sum(axis=1))


def takes_part(settings: Settings, epoch: int, n_crowds: int, people: int) -> NDArray[np.bool_]:
    """Who takes part in an epoch, in a row for each crowd: every crowd has turns of its own."""
    turns, epochs = settings.turns, settings.epochs
    seeds = range(settings.seed + 1, settings.seed + 1 + n_crowds)
    everybody = np.arange(people)
    return np.stack([draw_participants(seed, epoch, everybody, turns, epochs) for seed in seeds])
