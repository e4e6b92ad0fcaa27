"""What the attacker makes of one epoch's reports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.people import take_part
from sottovoce.training import Settings
from sottovoce_lab.audit.densities import mean_density, report_densities
from sottovoce_lab.audit.worlds import Targets, Trials

Float64 = NDArray[np.float64]


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
        self._weight = (true - other) / mean_density(mechanism, settings, V, histories)
        # The others' expectation is minus the true victim's, who is among fbar but not among them,
        # for each who takes part; with it a score of 0 lies halfway between the two worlds.
        halfway = (true + other) / 2 - settings.share * true
        self._middle = (halfway * self._weight).mean(axis=1)
        # Epoch numbers beyond the training's own: nobody's words are used twice.
        beyond = settings.epochs
        self._own = own.reports(V, beyond + epoch)
        n_crowds = int(trials.crowd.max()) + 1
        self._crowds = [
            everybody.reports(V, (2 + crowd) * settings.epochs + epoch) for crowd in range(n_crowds)
        ]
        self._takes = takes_part(settings, epoch, n_crowds, histories.n_users)
        self._present = self._takes[trials.crowd, targets.victims[trials.victim]]

    def linked(self, reports: int) -> Float64:
        """Each trial's log-likelihood ratio from the victim's first reports in their turn."""
        return self._present * self._of_own(self._ratio, reports)

    def unlinked(self, reports: int) -> Float64:
        """Each trial's linear statistic over everybody's reports, the victim's among them.

        Nothing where it is not their turn: what others say then is noise, and the attacker knows.
        """
        each = zip(self._crowds, self._takes, strict=True)
        others = np.stack([self._of_crowd(crowd[:, :reports], takes) for crowd, takes in each])
        trials = self._trials
        total = others[trials.crowd, trials.victim] + self._of_own(self._weight, reports)
        return np.asarray(self._present * (total - reports * self._middle[trials.victim]))

    def _of_own(self, table: Float64, reports: int) -> Float64:
        rows = self._trials.victim[:, None]
        return np.asarray(table[rows, self._own[:, :reports]].sum(axis=1))

    def _of_crowd(self, reports: NDArray[np.uint32], takes: NDArray[np.bool_]) -> Float64:
        """For every victim in their turn, what all the others add: not the victim's own copy."""
        counts = np.bincount(reports[takes].ravel(), minlength=self._weight.shape[1])
        own = reports[self._targets.victims]
        rows = np.arange(len(own))[:, None]
        return np.asarray(self._weight @ counts - self._weight[rows, own].sum(axis=1))


def takes_part(settings: Settings, epoch: int, n_crowds: int, people: int) -> NDArray[np.bool_]:
    """Who takes part in an epoch, in a row for each crowd: every crowd has turns of its own."""
    turns, epochs = settings.turns, settings.epochs
    seeds = range(settings.seed + 1, settings.seed + 1 + n_crowds)
    everybody = np.arange(people)
    return np.stack([take_part(seed, epoch, everybody, turns, epochs) for seed in seeds])
