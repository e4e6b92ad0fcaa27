"""What the attacker makes of one epoch's reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.experiments.audit.densities import mean_density, report_densities
from sottovoce.experiments.audit.worlds import victims_reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.experiments.audit.worlds import Targets, Trials
    from sottovoce.model import Histories
    from sottovoce.simulation.interface import Engine
    from sottovoce.training import Settings

    Float64 = NDArray[np.float64]


class Knowledge:
    """What the attacker makes of one epoch."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
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
        # The others' expectation is minus the true victim's, who is among fbar but not among them;
        # with it a score of 0 lies halfway between the two worlds.
        self._middle = -((true - other) * self._weight).mean(axis=1) / 2
        # Epoch numbers beyond the training's own: nobody's words are used twice.
        beyond = settings.epochs
        self._own = victims_reports(mechanism, settings, V, targets, trials, beyond + epoch)
        n_crowds = int(trials.crowd.max()) + 1
        self._crowds = [
            engine.reports(V, (2 + crowd) * settings.epochs + epoch) for crowd in range(n_crowds)
        ]

    def linked(self, reports: int) -> Float64:
        """Each trial's log-likelihood ratio from the victim's first reports."""
        return self._of_own(self._ratio, reports)

    def unlinked(self, reports: int) -> Float64:
        """Each trial's linear statistic over everybody's reports, the victim's among them."""
        others = np.stack([self._of_crowd(crowd[:, :reports]) for crowd in self._crowds])
        trials = self._trials
        total = others[trials.crowd, trials.victim] + self._of_own(self._weight, reports)
        return np.asarray(total - reports * self._middle[trials.victim])

    def _of_own(self, table: Float64, reports: int) -> Float64:
        rows = self._trials.victim[:, None]
        return np.asarray(table[rows, self._own[:, :reports]].sum(axis=1))

    def _of_crowd(self, reports: NDArray[np.uint32]) -> Float64:
        """For every victim, what all the others add: the crowd without the victim's own copy."""
        counts = np.bincount(reports.ravel(), minlength=self._weight.shape[1])
        own = reports[self._targets.victims]
        rows = np.arange(len(own))[:, None]
        return np.asarray(self._weight @ counts - self._weight[rows, own].sum(axis=1))
