"""The same training in the simulator, from where the live one began: what noise alone does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.simulation import build_engine
from sottovoce.simulation.run import evaluate
from sottovoce.training import Settings, next_items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sottovoce.experiments.live.people import People
    from sottovoce.protocol import Manifest

APART = 1 << 20
"""Runs number their epochs so far from each other that no two ever use the same random words."""


@dataclass(frozen=True)
class Noise:
    """One metric over runs that differ in their reports' words alone."""

    mean: float
    sd: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Noise:
        """Mean and standard deviation; with one run the latter is 0.

        >>> Noise.of([1.0, 2.0, 3.0])
        Noise(mean=2.0, sd=1.0, runs=3)
        """
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), sd, len(values))

    def distance(self, value: float) -> float | None:
        """How far a further run lies off, in standard deviations; None where that is unknown."""
        return (value - self.mean) / self.sd if self.sd else None


def training_of(manifest: Manifest, epochs: int, known: Settings | None = None) -> Settings:
    """The settings behind a manifest; what it does not say is `known`, else the preset's.

    For some epochs of it: whose turn they are is not among them (`simulate_from`).
    """
    base = known or Settings.preset(manifest.terms.mechanism)
    return replace(manifest.training(base), epochs=epochs, lifetime=0)


def simulate_from(
    V: NDArray[np.float32],
    epochs_done: int,
    settings: Settings,
    people: People,
    runs: int,
    watch: Callable[[], None] = lambda: None,
    *,
    share: float = 1.0,
) -> list[list[dict[str, float]]]:
    """The metrics after each of the settings' epochs, for each run.

    Where people take turns, so large a `share` of them, drawn anew, takes part in an epoch.
    """
    return [_run(V, epochs_done, settings, people, run, watch, share) for run in range(runs)]


def _run(
    V: NDArray[np.float32],
    epochs_done: int,
    settings: Settings,
    people: People,
    run: int,
    watch: Callable[[], None],
    share: float,
) -> list[dict[str, float]]:
    everybody = build_engine("cpu", people.tested, settings)
    mechanism = settings.build(len(V))
    metrics = []
    for epoch in range(epochs_done, epochs_done + settings.epochs):
        drawn = np.random.default_rng((run, epoch)).random(people.train.n_users) < share
        some = people.train.take(np.flatnonzero(drawn))
        collected = build_engine("cpu", some, settings).collect(V, run * APART + epoch)
        n_reports = max(collected.n_reports, 1)
        V = next_items(V, collected.sums, n_reports, epoch + 1, settings, mechanism)
        metrics.append(evaluate(everybody, V))
        watch()
    return metrics
