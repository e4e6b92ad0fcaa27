"""One federated epoch as a contender: everybody's reports, the estimate and the update."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.experiments.bench.timing import Contender
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.loop import begin
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
        """Compiled, and with the V of one trained epoch."""
        engine = build_engine("cpu", histories, settings, threads=threads)
        return cls.of(histories, engine)

    @classmethod
    def of(cls, histories: Histories, engine: Engine) -> TimedEpoch:
        """On an engine over these people."""
        return cls(histories, engine, engine.mechanism, engine.settings, after_one_epoch(engine))

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
        some, settings = everybody.take(self.users), self.epoch.settings
        with build_engine("reference", some, settings, numbers=self.users) as engine:
            devices, server = self.epoch.parts(engine)
        return devices * everybody.n_users / len(self.users) + server


def learning(name: str, engine: Engine, V: NDArray[np.float32]) -> Contender:
    """The second epoch on any engine, up to the next item matrix; warmed up."""

    def run() -> float:
        began = time.perf_counter()
        engine.learn(V, 1)
        return time.perf_counter() - began

    run()
    return Contender(name, run)


def after_one_epoch(engine: Engine) -> NDArray[np.float32]:
    """V as a later epoch meets it: a fresh one is all noise."""
    V, _ = engine.learn(begin(engine.settings, engine.n_items).V, 0)
    return V
