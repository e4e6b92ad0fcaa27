"""What an attacker learns from the reports of one epoch."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data.streams import stream
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.random_words import draw_participants
from sottovoce.training import Settings
from sottovoce_lab.audit.densities import compute_mean_density, compute_report_densities
from sottovoce_lab.audit.trials import Targets, Trials

Ints = NDArray[np.int64]
Float64 = NDArray[np.float64]


class Knowledge:
    """The attacker's scores of all trials, from the reports of one epoch.

    The engine `everybody` makes the reports of the crowds, `own` those of each trial's victim. In
    both engines all people report in every epoch. The scores leave out the reports of people who do
    not take part.
    """

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
        true, other = (
            compute_report_densities(mechanism, settings, V, world).astype(np.float64)
            for world in (targets.true, targets.other)
        )
        # By Neyman and Pearson no test of linked reports is better than their likelihood ratio.
        self._ratio = np.log(true) - np.log(other)
        people = histories.n_users * settings.share * settings.reports
        # The share of dummies among all reports. The density of a dummy is 1.
        uniform = settings.dummies / (people + settings.dummies)
        mean = compute_mean_density(mechanism, settings, V, histories)
        self._weight = (true - other) / (uniform + (1 - uniform) * mean)
        # From each score, subtract the middle between its expectations in the two worlds. The crowd
        # has a copy of the victim, which is a part of the mean density. The score leaves out the
        # copy's reports, so also subtract their expectation.
        halfway = (true + other) / 2 - settings.share * true
        self._middle = (halfway * self._weight).mean(axis=1)
        # Epoch numbers that the training does not use, so that no random words are used twice.
        self._own = own.list_reports(V, settings.epochs + epoch)
        n_crowds = int(trials.crowd.max()) + 1
        self._crowds = [
            everybody.list_reports(V, (2 + crowd) * settings.epochs + epoch)
            for crowd in range(n_crowds)
        ]
        first = settings.epochs + epoch * n_crowds
        # Each crowd has its own stream in each epoch.
        draws = [stream(settings.seed, "dummy", first + crowd) for crowd in range(n_crowds)]
        n_signed = self._weight.shape[1]
        self._dummies = [draw.integers(n_signed, size=settings.dummies) for draw in draws]
        self._dummies_per_report = settings.dummies / settings.reports
        self._takes = draw_crowd_participants(settings, epoch, n_crowds, histories.n_users)
        # Whether the victim of each trial takes part in this epoch.
        self._present = self._takes[trials.crowd, targets.victims[trials.victim]]

    def score_linked(self, reports: int) -> Float64:
        """Return the log-likelihood ratio of the victim's first `reports` reports, for each trial.

        It is 0 if the victim does not take part in this epoch.
        """
        return self._present * self._sum_own(self._ratio, reports)

    def score_unlinked(self, reports: int) -> Float64:
        """Return each trial's linear statistic of all reports, including the victim's.

        It is 0 if the victim does not take part in this epoch. The attacker knows the victim's
        turns, and that all reports of other epochs are noise.
        """
        n_dummies = int(self._dummies_per_report * reports)
        crowds = zip(self._crowds, self._takes, self._dummies, strict=True)
        others = np.stack(
            [
                self._sum_others(crowd[:, :reports], takes, dummies[:n_dummies])
                for crowd, takes, dummies in crowds
            ]
        )
        trials = self._trials
        total = others[trials.crowd, trials.victim] + self._sum_own(self._weight, reports)
        return np.asarray(self._present * (total - reports * self._middle[trials.victim]))

    def _sum_own(self, table: Float64, reports: int) -> Float64:
        rows = self._trials.victim[:, None]
        return np.asarray(table[rows, self._own[:, :reports]].sum(axis=1))

    def _sum_others(
        self, reports: NDArray[np.uint32], takes: NDArray[np.bool_], dummies: Ints
    ) -> Float64:
        """Return for each victim the sum of the scores of all others who take part.

        The copy of the victim in the crowd is left out. Scores of dummies count, too: weights are
        such that the scores of all reports and dummies together have the expectation 0.
        """
        n_signed = self._weight.shape[1]
        counts = np.bincount(reports[takes].ravel(), minlength=n_signed)
        counts += np.bincount(dummies, minlength=n_signed)
        own = reports[self._targets.victims]
        rows = np.arange(len(own))[:, None]
        return np.asarray(self._weight @ counts - self._weight[rows, own].sum(axis=1))


def draw_crowd_participants(
    settings: Settings, epoch: int, n_crowds: int, people: int
) -> NDArray[np.bool_]:
    """Draw who takes part in an epoch, separately for every crowd: n_crowds x people."""
    seeds = range(settings.seed + 1, settings.seed + 1 + n_crowds)
    everybody = np.arange(people)
    return np.stack(
        [
            draw_participants(seed, epoch, everybody, settings.turns, settings.epochs)
            for seed in seeds
        ]
    )
