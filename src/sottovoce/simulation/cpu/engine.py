"""The engine for one machine: compiled loops on all its cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

from sottovoce.errors import NotFiniteError
from sottovoce.evaluation.threads import checked_threads, on_threads
from sottovoce.simulation.cpu.epoch import run_epoch
from sottovoce.simulation.cpu.prepared import prepare
from sottovoce.simulation.cpu.solve import normal_equations, solve_users
from sottovoce.simulation.interface import Collected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.model import Histories
    from sottovoce.training import Settings

_NOTHING_KEPT = np.empty((0, 0), np.uint32)


class CpuEngine:
    """`threads` None: all that numba has. `first_user` numbers a shard of a larger population."""

    def __init__(
        self,
        histories: Histories,
        settings: Settings,
        *,
        threads: int | None = None,
        first_user: int = 0,
    ):
        self.histories = histories
        self.settings = settings
        self.mechanism = settings.build(histories.n_items)
        self.threads = checked_threads(threads)
        self.first_user = first_user

    def collect(self, V: NDArray[np.float32], epoch: int) -> Collected:
        """See `Engine.collect`."""
        sums = self._run(V, epoch, _NOTHING_KEPT)
        return Collected(sums, self.histories.n_users * self.settings.reports)

    def reports(self, V: NDArray[np.float32], epoch: int) -> NDArray[np.uint32]:
        """See `Engine.reports`."""
        kept = np.empty((self.histories.n_users, self.settings.reports), np.uint32)
        self._run(V, epoch, kept)
        return kept

    def user_vectors(self, V: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `Engine.user_vectors`."""
        G, table = normal_equations(V)
        X = np.empty((self.histories.n_users, V.shape[1]), np.float32)
        with on_threads(self.threads):
            solve_users(
                self.histories.indptr,
                self.histories.indices,
                G,
                table,
                float(self.settings.alpha),
                self.settings.regularization,
                X,
            )
        if not np.isfinite(X).all():
            raise NotFiniteError("a user vector is not finite: the item matrix is broken")
        return X

    def _run(
        self, V: NDArray[np.float32], epoch: int, kept: NDArray[np.uint32]
    ) -> NDArray[np.int64]:
        prepared = prepare(
            self.mechanism,
            np.ascontiguousarray(V),
            seed=self.settings.seed,
            epoch=epoch,
            reports=self.settings.reports,
            regularization=self.settings.regularization,
        )
        sums = np.zeros(
            (int(numba.config.NUMBA_NUM_THREADS), self.mechanism.n_directions), np.int32
        )
        with on_threads(self.threads):
            broken = run_epoch(
                self.histories.indptr,
                self.histories.indices,
                self.first_user,
                prepared,
                sums,
                kept,
            )
        if broken:
            raise NotFiniteError(f"{broken} users have values that are not finite; nothing is sent")
        return sums.sum(axis=0, dtype=np.int64)
