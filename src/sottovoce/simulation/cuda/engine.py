"""The cuda engine, which runs the kernels in `source/`."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.model import build_diverged_error, compute_max_entry, draw_factor_basis
from sottovoce.errors import SettingsError
from sottovoce.simulation.cuda.card import CudaCard
from sottovoce.simulation.cuda.memory import (
    COUNTER_NAMES,
    Memory,
    choose_solve_threads,
    compute_gram_bytes,
    compute_solve_bytes,
    render_source,
)
from sottovoce.simulation.engines import import_kernel_module
from sottovoce.simulation.interface import LocalEngine, ReportSums
from sottovoce.simulation.population import Part
from sottovoce.simulation.random_words import draw_participants
from sottovoce.training import Settings

Float32 = NDArray[np.float32]

# The largest number of people whose vectors are on the card at the same time.
MAX_PEOPLE_ON_CARD = 1 << 20
# Number of threads that one processor of the card runs at the same time.
THREADS_PER_PROCESSOR = 2048


class CudaEngine(LocalEngine):
    """An engine that computes on one graphics card."""

    name: ClassVar[str] = "cuda"

    def __init__(self, part: Part, settings: Settings, card: CudaCard):
        super().__init__(part, settings)
        people, histories, factors = part.people, self.histories, settings.factors
        self._kernel = import_kernel_module(f"{__package__}.kernels", self.mechanism.name)
        self._model: Float32 | None = None
        # Whether the card has the vectors of all people of the data set for the present V.
        self._has_vectors = False
        self._solve_bytes = compute_solve_bytes(factors)
        if self._solve_bytes > card.shared_bytes:
            raise SettingsError(f"{factors} factors do not fit the memory of this card: use fewer")
        card.load(render_source(factors, self._kernel.SOURCE))
        # The same buffer is used for the people who report and for the people of the data set, so
        # it must be large enough for either.
        self._people_per_piece = min(MAX_PEOPLE_ON_CARD, max(len(people), histories.n_users, 1))
        self._memory = memory = Memory(
            card,
            seed=settings.seed,
            epochs=settings.epochs,
            turns=settings.turns,
            reports=settings.reports,
            alpha=settings.alpha,
            factors=factors,
            n_items=histories.n_items,
            n_rows=histories.n_users,
            first=people.first,
            resampled=people.resampled is not None,
            longest=max(int(np.diff(histories.indptr).max(initial=0)), 1),
            n_directions=self.mechanism.n_directions,
            n_signed=2 * self.mechanism.n_directions,
        )
        memory.put("indptr", histories.indptr)
        memory.put("indices", histories.indices)
        memory.make("G", factors * factors, np.float64)
        memory.make("X", self._people_per_piece * factors, np.float32)
        memory.make("with_history", self._people_per_piece, np.int32)
        memory.make("without_history", self._people_per_piece, np.int32)
        if people.chosen is not None:
            memory.put("chosen", people.chosen)
        self._kernel.allocate(memory, self.mechanism, histories)

    def close(self) -> None:
        self._memory.clear()

    def collect(self, V: Float32, epoch: int) -> ReportSums:
        n_reports = self._report(V, epoch)
        return ReportSums(self._memory.get("sums").astype(np.int64), n_reports)

    def list_reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        n, settings, memory = len(self.people), self.settings, self._memory
        memory.make("reports_out", n * settings.reports, np.uint32)
        self._report(V, epoch)
        reports = memory.get("reports_out")[: n * settings.reports].reshape(n, settings.reports)
        memory.drop("reports_out")
        numbers = self.people.get_numbers(np.arange(n))
        # The card has a row for every person; rows of people who do not take part are dropped here.
        takes = draw_participants(settings.seed, epoch, numbers, settings.turns, settings.epochs)
        return reports[takes]

    def solve_user_vectors(self, V: Float32) -> Float32:
        self._set_model(self.check_items(V))
        vectors = [self._memory.get("X")[: n * V.shape[1]] for n in self._solve_all()]
        return np.concatenate([np.empty(0, np.float32), *vectors]).reshape(-1, V.shape[1])

    def learn(
        self, V: Float32, epoch: int, *, row_limit: float = 0.0, has_start: bool = False
    ) -> tuple[Float32, int]:
        """Run one epoch, and compute `training.compute_next_items` on the card if possible."""
        # The kernel supports neither dummies, a limit of row lengths nor a start. With these, the
        # host computes the next items from the sums.
        if self.settings.dummies or row_limit or has_start:
            return super().learn(V, epoch, row_limit=row_limit, has_start=has_start)
        n_reports, settings, memory = self._report(V, epoch), self.settings, self._memory
        memory.make("wide", V.size, np.float64)
        memory.make("next_V", V.size, np.float32)
        memory.numbers |= {
            "scale": self._kernel.sum_by_item(memory, self.mechanism, max(n_reports, 1)),
            "rate": settings.rate,
            "steps": settings.steps,
            "ridge": settings.regularization,
            "fade": settings.fade,
            "max_entry": compute_max_entry(V.shape[1]),
        }
        if settings.rotate:
            memory.put("basis", draw_factor_basis(V.shape[1], settings.seed, epoch + 1))
        memory.run("compute_next_items")
        if memory.get_count("DIVERGED"):
            raise build_diverged_error(settings.rate)
        return memory.get("next_V").reshape(V.shape), n_reports

    def _report(self, V: Float32, epoch: int) -> int:
        """Add all reports of an epoch to `sums` on the card, and return their number."""
        V = self.check_items(V)
        memory, people, crowd = self._memory, len(self.people), 0
        memory.numbers["epoch"] = epoch
        self._set_model(V)
        self._kernel.prepare(memory, self.mechanism, V)
        memory.make("sums", self.mechanism.n_directions, np.int32)
        for _ in self._split_people(people):
            memory.run("gather")
            # If an evaluation of the same V has solved the vectors, they are used again, unless the
            # people who report are resampled.
            if not (self._has_vectors and self.people.resampled is None):
                self._has_vectors = False
                memory.run("solve_with_history", **self._get_solve_launch())
            self._kernel.report(memory)
            crowd += memory.get_count("CROWD")
        return crowd * self.settings.reports

    def _set_model(self, V: Float32) -> None:
        """Put V on the card, unless it is there already."""
        # The same V is often used twice: for an evaluation, and for the next epoch.
        if self._model is not None and np.array_equal(V, self._model):
            return
        memory, factors = self._memory, V.shape[1]
        self._model, self._has_vectors = V.copy(), False
        memory.put("V", V)
        memory.numbers["regularization"] = self.settings.compute_user_ridge(V)
        threads = memory.card.threads
        shared = compute_gram_bytes(factors, threads)
        memory.run("compute_gram", blocks=factors, shared=shared, threads=threads)

    def _solve_all(self) -> Iterator[int]:
        """Solve the vectors of all people of the data set in pieces; yield the sizes of pieces."""
        n_users = self.histories.n_users
        for n in self._split_people(n_users):
            if not self._has_vectors:
                self._memory.run("solve_rows", **self._get_solve_launch())
            # If there are several pieces, the card keeps only the vectors of the last one.
            self._has_vectors = n == n_users
            yield n

    def _get_solve_launch(self) -> dict[str, int]:
        """Return the launch arguments of a kernel whose blocks solve one vector at a time."""
        threads = choose_solve_threads(self.settings.factors)
        blocks = self._memory.card.processors * max(THREADS_PER_PROCESSOR // threads, 1)
        return {"shared": self._solve_bytes, "threads": threads, "blocks": blocks}

    def _split_people(self, people: int) -> Iterator[int]:
        """Split people into pieces that fit the card, reset the counters, and yield the sizes."""
        for begin in range(0, people, self._people_per_piece):
            end = min(begin + self._people_per_piece, people)
            self._memory.numbers |= {"begin": begin, "end": end}
            self._memory.make("counts", len(COUNTER_NAMES), np.int32)
            yield end - begin
