"""The paper's Algorithm 2: epochs of reports, estimate, update."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.training import first_items

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.simulation.interface import Engine
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Trained:
    """The model after some epochs: everything that a continuation needs."""

    epochs_done: int
    V: NDArray[np.float32]
    seconds: float = 0.0
    """Of the last epoch."""
    n_reports: int = 0
    """In the last epoch."""


def begin(settings: Settings, n_items: int) -> Trained:
    return Trained(0, first_items(settings, n_items))


def train(settings: Settings, engine: Engine, start: Trained) -> Iterator[Trained]:
    """One state after each epoch that is still to do."""
    V = start.V
    for epoch in range(start.epochs_done, settings.epochs):
        began = time.perf_counter()
        V, n_reports = engine.learn(V, epoch)
        yield Trained(epoch + 1, V, time.perf_counter() - began, n_reports)
