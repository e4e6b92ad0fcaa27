"""An attack on one person, by an attacker who knows everything except one thing about them.

The attacker has every epoch's V and everybody's history, and guesses one thing: whether the victim
touched one item, or which of two histories is the victim's. Reports tell two histories apart more
easily than one item. In each case there are two possible worlds: the true one and the other.

If reports are *linked*, the attacker knows which reports are the victim's, and adds up their
log-likelihood ratios: no test is better. If they are *unlinked*, the proxy shows all reports of an
epoch in random order. Each of them is the victim's with probability 1 / people, so to first order
the log-likelihood ratio grows with the sum of `(f1 - f0) / fbar` over all reports. f1 and f0 are
the victim's densities of the report in the two worlds (`sottovoce_lab.audit.densities`), and fbar
is the average density of everybody.

If people take part in only some epochs, the attacker knows the victim's turns, in both attacks.
Turns do not depend on histories, so they reveal nothing by themselves. A real server does not know
them.

One interaction of one person hardly changes V, so V is trained once and used in both worlds.
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
from sottovoce.privacy import gaussian_mu
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Settings
from sottovoce_lab.audit.knowledge import Knowledge
from sottovoce_lab.audit.trials import (
    Auc,
    Question,
    choose_targets,
    compute_auc,
    list_trials,
    list_victim_histories,
)


@dataclass(frozen=True)
class AttackPlan:
    """How often the attack is tried, on which question, and for which numbers of reports."""

    trials: int = 4000
    """Number of trials: victims times crowds times two worlds."""
    crowds: int = 40
    """Number of times that the reports of all others are drawn. All victims are attacked in each
    crowd, so its noise is the same for all of them."""
    question: Question = "interaction"
    points: tuple[tuple[int, int], ...] = ()
    """Pairs (k, T) to evaluate: k reports in each of T epochs. If empty, `list_points` chooses
    pairs from one report to all reports of the settings."""
    seed: int = 0
    """Seed of victims, items and worlds."""
    threads: int | None = None
    """Threads of the engines; None: one for each core."""

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
        """Number of people who are attacked, each in every crowd and in both worlds."""
        return -(-self.trials // (2 * self.crowds))


@dataclass(frozen=True)
class AttackPoint:
    """The result after `epochs` epochs with `reports` reports of each person."""

    reports: int
    epochs: int
    linked: Auc
    unlinked: Auc
    bound: float
    """Upper bound for every attack on unlinked reports, in the limit of many people."""

    @property
    def total_reports(self) -> int:
        """Reports of a person who takes part in all of these epochs, k T."""
        return self.reports * self.epochs


@dataclass(frozen=True)
class Attack:
    """The result of an attack."""

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
    """Train once, then attack, and return the AUC of linked and of unlinked reports.

    Raises:
        SettingsError: A point is beyond the settings' own k or T.
        DataError: Nobody has two interactions.
    """
    points = plan.points or list_points(settings.reports, settings.epochs)
    _check_points(points, settings)
    rng = np.random.default_rng(plan.seed)
    targets = choose_targets(histories, plan.victims, plan.question, rng)
    trials = list_trials(plan.victims, plan.crowds)
    # In the engines `everybody` and `own` all people report in every epoch. The scores leave out
    # the reports of people who do not take part.
    always = replace(settings, lifetime=0)
    training, everybody, own = (
        build_engine("cpu", people, engine_settings, threads=plan.threads)
        for people, engine_settings in (
            (histories, settings),
            (histories, always),
            (list_victim_histories(targets, trials), always),
        )
    )
    # For every k: the sums over epochs of linked scores, and of unlinked ones.
    totals = {reports: np.zeros((2, len(trials.victim))) for reports, _ in points}
    attack_points: dict[tuple[int, int], AttackPoint] = {}
    n_epochs = max(epochs for _, epochs in points)
    for epoch, V in enumerate(list_models(settings, training, histories.n_items, n_epochs)):
        watch(f"attack on {settings.mechanism}: epoch {epoch + 1} of {n_epochs}")
        knowledge = Knowledge(settings, everybody, own, histories, targets, trials, V, epoch)
        # A point with T epochs adds up the scores of the first T epochs.
        for reports in sorted({k for k, epochs in points if epochs > epoch}):
            totals[reports][0] += knowledge.score_linked(reports)
            totals[reports][1] += knowledge.score_unlinked(reports)
        for reports, epochs in points:
            if epochs == epoch + 1:
                linked, unlinked = (compute_auc(scores, trials) for scores in totals[reports])
                bound = _compute_bound(settings, histories, reports, epochs)
                attack_points[reports, epochs] = AttackPoint(
                    reports, epochs, linked, unlinked, bound
                )
    return Attack(
        settings,
        plan.question,
        histories.n_users,
        len(trials.victim),
        tuple(attack_points[point] for point in points),
    )


def list_points(reports: int, epochs: int) -> tuple[tuple[int, int], ...]:
    """Return pairs (k, T) from one report to all; k T grows tenfold in about three pairs."""
    steps = [scale * 10**power for power in range(6) for scale in (1, 2, 5)]
    first = [(k, 1) for k in steps if k < reports]
    later = [(reports, t) for t in steps if t < epochs]
    return (*first, *later, (reports, epochs))


def list_models(
    settings: Settings, engine: Engine, n_items: int, epochs: int
) -> list[NDArray[np.float32]]:
    """Return V at the start of each of the first epochs."""
    start = start_training(settings, n_items)
    # Devices report about the model at the start of an epoch, so the last epoch is not trained.
    later = train(replace(settings, epochs=epochs - 1), engine, start) if epochs > 1 else []
    return [start.V, *(state.V for state in later)]


def compute_gaussian_bound(
    mechanism: Mechanism, reports: int, epochs: int, clients: int, dummies: int = 0
) -> float:
    """Return `Phi(mu / sqrt 2)`, the AUC of shuffled reports in the limit of many people."""
    event = mechanism.event(reports, epochs, dummies)
    return float(special.ndtr(gaussian_mu(event, clients) / sqrt(2)))


def _compute_bound(settings: Settings, histories: Histories, reports: int, epochs: int) -> float:
    mechanism = settings.build(histories.n_items)
    turns, crowd = min(epochs, settings.turns), max(settings.estimate_crowd(histories.n_users), 1)
    # The dummies of an epoch are for all of its reports. An attack on only some of the reports
    # meets the same share of the dummies.
    dummies = settings.dummies * reports // settings.reports
    return compute_gaussian_bound(mechanism, reports, turns, crowd, dummies)


def _check_points(points: Sequence[tuple[int, int]], settings: Settings) -> None:
    for reports, epochs in points:
        if not (1 <= reports <= settings.reports and 1 <= epochs <= settings.epochs):
            raise SettingsError(
                f"points must be within k = {settings.reports}, T = {settings.epochs}, "
                f"not k = {reports}, T = {epochs}"
            )
