"""One federated epoch to be timed: with which settings, on which engine, in how many rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import MECHANISMS, Histories
from sottovoce.data import Interactions
from sottovoce.errors import SettingsError
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import Engine
from sottovoce.simulation.training import begin
from sottovoce.training import Settings, next_items
from sottovoce_lab.bench.timing import Contender


@dataclass(frozen=True)
class TimedPlan:
    """What every benchmark of an epoch is told."""

    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    factors: int = 5
    epsilon: float = 2.5
    reports: int = 100
    repeats: int = setting(5, "rounds", least=1)
    seed: int = 0

    def __post_init__(self) -> None:
        check(self)
        unknown = set(self.mechanisms) - set(MECHANISMS)
        if unknown or not self.mechanisms:
            raise SettingsError(
                f"mechanisms must be some of {', '.join(MECHANISMS)}; got {list(self.mechanisms)}"
            )

    def settings(self) -> list[Settings]:
        """One for each mechanism, in order and without repeats."""
        return [
            Settings.preset(
                name,
                factors=self.factors,
                epsilon=self.epsilon,
                reports=self.reports,
                seed=self.seed,
            )
            for name in dict.fromkeys(self.mechanisms)
        ]


def about(data: Interactions) -> dict[str, Any]:
    """What a result says of the data that it was measured on."""
    return {key: data.summary()[key] for key in ("name", "users", "items", "interactions")}


@dataclass(frozen=True, eq=False)
class TimedEpoch:
    """The second epoch of a training, which can be run any number of times."""

    histories: Histories
    engine: Engine
    V: NDArray[np.float32]

    @classmethod
    def warmed_up(cls, histories: Histories, settings: Settings, threads: int) -> TimedEpoch:
        """Compiled, and with the V of one trained epoch."""
        return cls.of(histories, build_engine("cpu", histories, settings, threads=threads))

    @classmethod
    def of(cls, histories: Histories, engine: Engine) -> TimedEpoch:
        """On an engine over these people."""
        return cls(histories, engine, after_one_epoch(engine))

    def run(self) -> float:
        """Seconds of one epoch, without evaluation."""
        return sum(self.parts(self.engine))

    def parts(self, engine: Engine) -> tuple[float, float]:
        """Seconds for the devices and for the server, with the devices of this engine."""
        began = time.perf_counter()
        found = engine.collect(self.V, 1)
        reported = time.perf_counter()
        next_items(self.V, found.sums, found.n_reports, 2, engine.settings, engine.mechanism)
        return reported - began, time.perf_counter() - reported


@dataclass(frozen=True, eq=False)
class ReferenceEpoch:
    """The same epoch by the numpy reference: of a few users, extrapolated to all."""

    epoch: TimedEpoch
    """What it is compared with: the same V and settings."""
    users: NDArray[np.int64]
    """The sample."""

    @classmethod
    def drawn(cls, epoch: TimedEpoch, most: int, seed: int) -> ReferenceEpoch:
        """With so many users at most, drawn at random."""
        order = np.random.default_rng(seed).permutation(epoch.histories.n_users)
        return cls(epoch, np.sort(order[:most]))

    def run(self) -> float:
        """Seconds of everybody's epoch: the devices' part grows with users, the server's not."""
        everybody = self.epoch.histories
        some, settings = everybody.take(self.users), self.epoch.engine.settings
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
