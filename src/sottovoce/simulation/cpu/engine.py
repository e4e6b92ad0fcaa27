"""The cpu engine, which runs loops compiled by numba."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import compute_gram
from sottovoce.simulation.cpu.cache import drop_stale, mark_loaded
from sottovoce.simulation.cpu.epoch import run_epoch
from sottovoce.simulation.cpu.philox import Roster
from sottovoce.simulation.cpu.solve import USERS_PER_BLOCK, solve_users
from sottovoce.simulation.engines import import_kernel_module
from sottovoce.simulation.evaluation.kernels import check_threads, run_in_threads, use_threads
from sottovoce.simulation.interface import LocalEngine, ReportSums, make_epoch_constants
from sottovoce.simulation.population import Part
from sottovoce.simulation.random_words import draw_participants
from sottovoce.training import Settings

Float32 = NDArray[np.float32]

drop_stale(run_epoch, solve_users)
# Passed to `run_epoch` if only the sums are needed and not each report.
_NO_REPORTS = np.empty((0, 0), np.uint32)
# Passed to `run_epoch` if people are numbered consecutively.
_NO_CHOSEN_NUMBERS = np.empty(0, np.int64)


class CpuEngine(LocalEngine):
    """An engine with compiled loops, on all cores or on the given number of threads."""

    name: ClassVar[str] = "cpu"

    def __init__(self, part: Part, settings: Settings, threads: int | None):
        super().__init__(part, settings)
        self.threads = check_threads(threads)
        # Importing the module plugs its kernel into `run_epoch`.
        import_kernel_module(f"{__package__}.kernels", self.mechanism.name)

    def collect(self, V: Float32, epoch: int) -> ReportSums:
        return self._run(V, epoch, _NO_REPORTS)

    def list_reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        n, settings = len(self.people), self.settings
        reports = np.empty((n, settings.reports), np.uint32)
        self._run(V, epoch, reports)
        numbers = self.people.get_numbers(np.arange(n))
        takes = draw_participants(settings.seed, epoch, numbers, settings.turns, settings.epochs)
        return reports[takes]

    def solve_user_vectors(self, V: Float32) -> Float32:
        V = self.check_items(V)
        h, settings = self.histories, self.settings
        X = np.empty((h.n_users, V.shape[1]), np.float32)
        G, alpha, ridge = compute_gram(V), float(settings.alpha), settings.compute_user_ridge(V)

        def solve_block(begin: int, end: int, _: int) -> None:
            solve_users(begin, end, h.indptr, h.indices, V, G, alpha, ridge, X)

        with use_threads(self.threads):
            run_in_threads(h.n_users, solve_block, USERS_PER_BLOCK)
        return X

    def _run(self, V: Float32, epoch: int, reports: NDArray[np.uint32]) -> ReportSums:
        V = self.check_items(V)
        settings, people = self.settings, self.people
        c = make_epoch_constants(settings, self.mechanism, V, epoch)
        roster = Roster(
            people.first,
            _NO_CHOSEN_NUMBERS if people.chosen is None else people.chosen,
            len(people),
            people.resampled is not None,
            settings.turns,
            settings.epochs,
        )
        h, m = self.histories, self.mechanism.constants(V)
        longest = int(np.diff(h.indptr).max(initial=0))
        sums = np.zeros((self.threads, self.mechanism.n_directions), np.int32)
        crowds = np.zeros(self.threads, np.int64)

        def run_block(begin: int, end: int, thread: int) -> None:
            crowds[thread] += run_epoch(
                begin, end, h.indptr, h.indices, longest, roster, c, m, sums[thread], reports
            )

        # Each call allocates memory, so it should have many people. But there must be enough calls
        # that all threads are busy.
        per_call = len(people) // (16 * self.threads)
        min_people = USERS_PER_BLOCK * (settings.epochs // settings.turns)
        with use_threads(self.threads):
            run_in_threads(len(people), run_block, max(min_people, min(per_call, 1024)))
        mark_loaded(self.mechanism.name, run_epoch)
        return ReportSums(sums.sum(axis=0, dtype=np.int64), int(crowds.sum()) * settings.reports)
