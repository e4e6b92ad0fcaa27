"""The compiled loops behind the engine's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numba
import numpy as np

from sottovoce.evaluation.threads import checked_threads, on_threads
from sottovoce.model import gram
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.epoch import run_epoch
from sottovoce.simulation.cpu.gathering import Gathering
from sottovoce.simulation.cpu.kernels import kernel_of
from sottovoce.simulation.cpu.solve import solve_users
from sottovoce.simulation.interface import Collected, LocalEngine
from sottovoce.simulation.preparation import prepare
from sottovoce.simulation.words import take_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.simulation.cpu import Options
    from sottovoce.simulation.parts import Part
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]

drop_stale(run_epoch, solve_users)
_NOTHING_KEPT = np.empty((0, 0), np.uint32)
_CONSECUTIVE = np.empty(0, np.int64)


class CpuEngine(LocalEngine):
    """numba on all cores, or on as many threads as the options say."""

    name: ClassVar[str] = "cpu"

    def __init__(self, part: Part, settings: Settings, options: Options):
        super().__init__(part, settings)
        self.threads = checked_threads(options.threads)
        kernel_of(self.mechanism)

    def _collect(self, V: Float32, epoch: int) -> Collected:
        return self._run(V, epoch, _NOTHING_KEPT)

    def _reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        n, settings = len(self.people), self.settings
        kept = np.empty((n, settings.reports), np.uint32)
        self._run(V, epoch, kept)
        numbers = self.people.numbers(np.arange(n))
        return kept[take_part(settings.seed, epoch, numbers, settings.turns, settings.epochs)]

    def _user_vectors(self, V: Float32) -> Float32:
        X = np.empty((self.histories.n_users, V.shape[1]), np.float32)
        with on_threads(self.threads):
            solve_users(
                self.histories.indptr,
                self.histories.indices,
                V,
                gram(V),
                float(self.settings.alpha),
                self.settings.user_ridge(V),
                X,
            )
        return X

    def _run(self, V: Float32, epoch: int, kept: NDArray[np.uint32]) -> Collected:
        settings, people = self.settings, self.people
        constants = prepare(settings, self.mechanism, V, epoch)
        who = Gathering(
            people.first,
            _CONSECUTIVE if people.chosen is None else people.chosen,
            len(people),
            people.resampled is not None,
            settings.turns,
            settings.epochs,
        )
        threads = int(numba.config.NUMBA_NUM_THREADS)
        sums = np.zeros((threads, self.mechanism.n_directions), np.int32)
        crowd = np.zeros(threads, np.int64)
        with on_threads(self.threads):
            run_epoch(
                self.histories.indptr,
                self.histories.indices,
                who,
                constants,
                self.mechanism.constants(V),
                sums,
                crowd,
                kept,
            )
        return Collected(sums.sum(axis=0, dtype=np.int64), int(crowd.sum()) * settings.reports)
