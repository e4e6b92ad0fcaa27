"""The paper's Algorithm 2: epochs of reports, estimate, update."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.model import initial_items, rotate_factors, update

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism, Settings
    from sottovoce.simulation.interface import Collected, Engine


@dataclass(frozen=True)
class Trained:
    """The model after some epochs: everything that a continuation needs."""

    epochs_done: int
    V: NDArray[np.float32]
    seconds: float = 0.0
    """Of the last epoch."""


def begin(settings: Settings, n_items: int) -> Trained:
    """Before the first epoch."""
    V = initial_items(
        n_items, settings.factors, settings.initial_scale, settings.seed, settings.head_start
    )
    return Trained(0, _published(V, settings, 0))


def train(settings: Settings, engine: Engine, start: Trained) -> Iterator[Trained]:
    """One state after each epoch that is still to do."""
    mechanism = settings.build(start.V.shape[0])
    V = start.V
    for epoch in range(start.epochs_done, settings.epochs):
        began = time.perf_counter()
        collected = engine.collect(V, epoch)
        V = next_items(V, collected, epoch, settings, mechanism)
        yield Trained(epoch + 1, V, time.perf_counter() - began)


def next_items(
    V: NDArray[np.float32],
    collected: Collected,
    epoch: int,
    settings: Settings,
    mechanism: Mechanism,
) -> NDArray[np.float32]:
    """All that the server does at the end of an epoch (counted from 0)."""
    estimate = mechanism.estimate(collected.sums, collected.n_reports)
    V = update(
        V,
        estimate,
        rate=settings.rate,
        steps=settings.steps,
        regularization=settings.regularization,
    )
    return _published(V, settings, epoch + 1)


def _published(V: NDArray[np.float32], settings: Settings, epoch: int) -> NDArray[np.float32]:
    """What the devices are given for their next epoch."""
    return rotate_factors(V, settings.seed, epoch) if settings.rotate else V
