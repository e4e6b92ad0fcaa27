"""The compiled loops behind the engine's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numba
import numpy as np

from sottovoce.evaluation.threads import checked_threads, on_threads
from sottovoce.model import gram
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.epoch import loop_for, run_epoch
from sottovoce.simulation.cpu.kernels import kernel_of
from sottovoce.simulation.cpu.solve import solve_users
from sottovoce.simulation.interface import Collected, Engine
from sottovoce.simulation.preparation import prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.simulation.cpu import Options
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]

drop_stale(run_epoch)
_NOTHING_KEPT = np.empty((0, 0), np.uint32)


class CpuEngine(Engine):
    """numba on all cores, or on as many threads as the options say."""

    name: ClassVar[str] = "cpu"

    def __init__(self, histories: Histories, settings: Settings, options: Options, first_user: int):
        super().__init__(histories, settings, first_user)
        self.threads = checked_threads(options.threads)
        kernel_of(self.mechanism)

    def _collect(self, V: Float32, epoch: int) -> Collected:
        sums = self._run(V, epoch, _NOTHING_KEPT)
        return Collected(sums, self.histories.n_users * self.settings.reports)

    def _reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        kept = np.empty((self.histories.n_users, self.settings.reports), np.uint32)
        self._run(V, epoch, kept)
        return kept

    def _user_vectors(self, V: Float32) -> Float32:
        X = np.empty((self.histories.n_users, V.shape[1]), np.float32)
        with on_threads(self.threads):
            solve_users(
                self.histories.indptr,
                self.histories.indices,
                gram(V),
                V.astype(np.float64),
                float(self.settings.alpha),
                self.settings.regularization,
                X,
            )
        return X

    def _run(self, V: Float32, epoch: int, kept: NDArray[np.uint32]) -> NDArray[np.int64]:
        constants = prepare(self.settings, self.mechanism, V, epoch)
        threads = int(numba.config.NUMBA_NUM_THREADS)
        sums = np.zeros((threads, self.mechanism.n_directions), np.int32)
        own = self.mechanism.constants(V)
        with on_threads(self.threads):
            loop_for(own)(
                self.histories.indptr,
                self.histories.indices,
                self.first_user,
                constants,
                own,
                sums,
                kept,
            )
        return sums.sum(axis=0, dtype=np.int64)
