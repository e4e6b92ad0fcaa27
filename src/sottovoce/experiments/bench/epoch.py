"""One federated epoch as a contender: everybody's reports, the estimate and the update."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.loop import begin, train
from sottovoce.training import next_items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.simulation.interface import Engine
    from sottovoce.training import Settings


@dataclass(frozen=True, eq=False)
class TimedEpoch:
    """The second epoch of a training, which can be run any number of times."""

    engine: Engine
    mechanism: Mechanism
    settings: Settings
    V: NDArray[np.float32]

    @classmethod
    def warmed_up(cls, histories: Histories, settings: Settings, threads: int) -> TimedEpoch:
        """Compiled, and with the V of one trained epoch: a fresh V is all noise, later ones not."""
        engine = build_engine("cpu", histories, settings, threads=threads)
        start = begin(settings, histories.n_items)
        trained = next(iter(train(replace(settings, epochs=1), engine, start)))
        return cls(engine, settings.build(histories.n_items), settings, trained.V)

    def run(self) -> float:
        """Seconds of one epoch, without evaluation."""
        began = time.perf_counter()
        collected = self.engine.collect(self.V, 1)
        next_items(self.V, collected.sums, collected.n_reports, 2, self.settings, self.mechanism)
        return time.perf_counter() - began
