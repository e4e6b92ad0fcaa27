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

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.core import Histories, Mechanism
from sottovoce.errors import SettingsError
from sottovoce.privacy import Reporting, gaussian_mu
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.training import begin, train
from sottovoce.training import Settings
from sottovoce_lab.audit.knowledge import Knowledge
from sottovoce_lab.audit.roc import Auc, area
from sottovoce_lab.audit.worlds import Question, Trials, all_trials, choose_targets, victims_of

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
            raise SettingsError(
                f"the question is about an interaction or a history, not {self.question!r}"
            )

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


def sweep(histories: Histories, of: Sequence[Settings], plan: AttackPlan) -> list[Attack]:
    """The same attack under several settings: mechanisms, epsilons, alphas."""
    return [run_attack(histories, settings, plan) for settings in of]


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
    start = begin(settings, n_items)
    later = train(replace(settings, epochs=epochs - 1), engine, start) if epochs > 1 else []
    return [start.V, *(state.V for state in later)]


def shuffled_bound(mechanism: Mechanism, reports: int, epochs: int, clients: int) -> float:
    """`Phi(mu / sqrt 2)`: the AUC between two normals that lie mu apart."""
    event = Reporting(mechanism.epsilon, reports, epochs, mechanism.loud_fraction)
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
    turns, crowd = min(epochs, settings.turns), max(settings.crowd(histories.n_users), 1)
    bound = shuffled_bound(mechanism, reports, turns, crowd)
    return AttackPoint(reports, epochs, linked, unlinked, bound)


def _check_points(points: Sequence[tuple[int, int]], settings: Settings) -> None:
    for reports, epochs in points:
        if not (1 <= reports <= settings.reports and 1 <= epochs <= settings.epochs):
            raise SettingsError(
                f"cannot look at k = {reports}, T = {epochs} in a training of "
                f"k = {settings.reports}, T = {settings.epochs}"
            )
