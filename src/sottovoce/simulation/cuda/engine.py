"""The kernels in `source/` behind the engine's interface."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.model import build_diverged_error, compute_max_entry, draw_factor_basis
from sottovoce.errors import SettingsError
from sottovoce.simulation.cuda.card import CudaCard
from sottovoce.simulation.cuda.kernels import kernel_of
from sottovoce.simulation.cuda.memory import (
    COUNTS,
    Memory,
    gram_bytes,
    solve_bytes,
    solve_threads,
    source,
)
from sottovoce.simulation.evaluation.ranking import Candidates, Ranks, select_tested
from sottovoce.simulation.interface import LocalEngine, ReportSums
from sottovoce.simulation.population import Part
from sottovoce.simulation.random_words import draw_participants
from sottovoce.training import Settings

Float32 = NDArray[np.float32]

AT_ONCE = 1 << 20
"""People whose vectors lie on the card at the same time."""
THREADS = 2048
"""Of one processor at the same time."""


class CudaEngine(LocalEngine):
    """One card."""

    name: ClassVar[str] = "cuda"

    def __init__(self, part: Part, settings: Settings, card: CudaCard):
        super().__init__(part, settings)
        people, histories, factors = part.people, self.histories, settings.factors
        self._kernel = kernel_of(self.mechanism)
        self._ranked: Candidates | None = None
        self._model: Float32 | None = None
        self._has_vectors = False
        """Whether those of everybody in the data lie on the card, for this model."""
        self._solve = solve_bytes(factors)
        if self._solve > card.shared_bytes:
            raise SettingsError(f"{factors} factors do not fit this card's memory: use fewer")
        card.load(source(factors, self._kernel.SOURCE))
        self._at_once = min(AT_ONCE, max(len(people), histories.n_users, 1))
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
            made=people.resampled is not None,
            longest=max(int(np.diff(histories.indptr).max(initial=0)), 1),
            n_directions=self.mechanism.n_directions,
            n_signed=2 * self.mechanism.n_directions,
        )
        memory.put("indptr", histories.indptr)
        memory.put("indices", histories.indices)
        memory.make("G", factors * factors, np.float64)
        memory.make("X", self._at_once * factors, np.float32)
        memory.make("looking", self._at_once, np.int32)
        memory.make("quiet", self._at_once, np.int32)
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
        memory.make("kept", n * settings.reports, np.uint32)
        self._report(V, epoch)
        kept = memory.get("kept")[: n * settings.reports].reshape(n, settings.reports)
        memory.drop("kept")
        numbers = self.people.numbers(np.arange(n))
        return kept[
            draw_participants(settings.seed, epoch, numbers, settings.turns, settings.epochs)
        ]

    def solve_user_vectors(self, V: Float32) -> Float32:
        self._set_model(V)
        found = [self._memory.get("X")[: n * V.shape[1]] for n in self._solved_rows()]
        nobody = np.empty(0, np.float32)
        return np.concatenate([nobody, *found]).reshape(-1, V.shape[1])

    def _rank_by_factors(self, V: Float32, candidates: Candidates) -> Ranks:
        memory, n = self._memory, self.histories.n_users
        if self._ranked is not candidates:
            memory.put("tests", candidates.split.test.astype(np.int32))
            memory.put("candidates", candidates.items)
            memory.make("ranks", 2 * n, np.int32)
            memory.numbers["n_candidates"] = candidates.items.shape[1]
            self._ranked = candidates
        self._set_model(V)
        for _ in self._solved_rows():
            memory.run("rank_rows", threads=128)
        found = memory.get("ranks")[: 2 * n].reshape(n, 2).astype(np.int64)
        return select_tested(candidates, found[:, 0], found[:, 1])

    def learn(self, V: Float32, epoch: int, *, row_limit: float = 0.0) -> tuple[Float32, int]:
        """Run one epoch, with `training.compute_next_items` on the card where it can."""
        if self.settings.dummies or row_limit:
            return super().learn(V, epoch, row_limit=row_limit)
        n_reports, settings, memory = self._report(V, epoch), self.settings, self._memory
        memory.make("wide", V.size, np.float64)
        memory.make("next_V", V.size, np.float32)
        memory.numbers |= {
            "scale": self._kernel.sums_by_item(memory, self.mechanism, max(n_reports, 1)),
            "rate": settings.rate,
            "steps": settings.steps,
            "ridge": settings.regularization,
            "fade": settings.fade,
            "most_entry": compute_max_entry(V.shape[1]),
        }
        if settings.rotate:
            memory.put("basis", draw_factor_basis(V.shape[1], settings.seed, epoch + 1))
        memory.run("next_items")
        if memory.count("DIVERGED"):
            raise build_diverged_error(settings.rate)
        return memory.get("next_V").reshape(V.shape), n_reports

    def _report(self, V: Float32, epoch: int) -> int:
        """Everybody's reports, into `sums`; how many there are."""
        memory, people, crowd = self._memory, len(self.people), 0
        memory.numbers["epoch"] = epoch
        self._set_model(V)
        self._kernel.prepare(memory, self.mechanism, V)
        memory.make("sums", self.mechanism.n_directions, np.int32)
        for _ in self._pieces(people):
            memory.run("gather")
            if not (self._has_vectors and self.people.resampled is None):
                self._has_vectors = False
                memory.run("solve_looking", **self._solving())
            self._kernel.report(memory)
            crowd += memory.count("CROWD")
        return crowd * self.settings.reports

    def _set_model(self, V: Float32) -> None:
        """Put V on the card, unless it is there: a matrix is evaluated, and then learnt from."""
        V = self.check_items(V)
        if self._model is not None and np.array_equal(V, self._model):
            return
        memory, factors = self._memory, V.shape[1]
        self._model, self._has_vectors = V.copy(), False
        memory.put("V", V)
        memory.numbers["regularization"] = self.settings.compute_user_ridge(V)
        threads = memory.card.threads
        memory.run("gram", blocks=factors, shared=gram_bytes(factors, threads), threads=threads)

    def _solved_rows(self) -> Iterator[int]:
        """Solve the vectors of everybody in the data, some at a time; how many."""
        everybody = self.histories.n_users
        for n in self._pieces(everybody):
            if not self._has_vectors:
                self._memory.run("solve_rows", **self._solving())
            self._has_vectors = n == everybody
            yield n

    def _solving(self) -> dict[str, int]:
        """A block for each person, and as many as a card has room for."""
        threads = solve_threads(self.settings.factors)
        blocks = self._memory.card.processors * max(THREADS // threads, 1)
        return {"shared": self._solve, "threads": threads, "blocks": blocks}

    def _pieces(self, people: int) -> Iterator[int]:
        """So many at a time as there is room for, with their counters at 0."""
        for begin in range(0, people, self._at_once):
            end = min(begin + self._at_once, people)
            self._memory.numbers |= {"begin": begin, "end": end}
            self._memory.make("counts", len(COUNTS), np.int32)
            yield end - begin
