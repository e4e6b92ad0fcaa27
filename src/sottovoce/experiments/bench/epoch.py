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

    histories: Histories
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
        return cls(histories, engine, settings.build(histories.n_items), settings, trained.V)

    def run(self) -> float:
        """Seconds of one epoch, without evaluation."""
        return sum(self.parts(self.engine))

    def parts(self, engine: Engine) -> tuple[float, float]:
        """Seconds for the devices and for the server, with the devices of this engine."""
        began = time.perf_counter()
        collected = engine.collect(self.V, 1)
        reported = time.perf_counter()
        next_items(self.V, collected.sums, collected.n_reports, 2, self.settings, self.mechanism)
        return reported - began, time.perf_counter() - reported


@dataclass(frozen=True, eq=False)
class ReferenceEpoch:
    """The same epoch by the numpy reference: of a few users, extrapolated to all."""

    epoch: TimedEpoch
    """What it is compared with: the same V, mechanism and settings."""
    users: NDArray[np.int64]
    """The sample."""

    def run(self) -> float:
        """Seconds of everybody's epoch: the devices' part grows with users, the server's not."""
        everybody = self.epoch.histories
        with build_engine("reference", everybody.take(self.users), self.epoch.settings) as engine:
            devices, server = self.epoch.parts(engine)
        return devices * everybody.n_users / len(self.users) + server
