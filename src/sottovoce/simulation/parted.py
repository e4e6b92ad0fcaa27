"""Engines over people in several parts: what each part gives, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sottovoce.evaluation import Ranks
from sottovoce.simulation.interface import Collected, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from sottovoce.simulation.interface import LocalEngine, T
    from sottovoce.simulation.parts import Part, Parts
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]


class PartedEngine(Engine):
    """Reports, vectors and ranks are those of all parts, one after the other; sums are added."""

    def _collect(self, V: Float32, epoch: int) -> Collected:
        sums, n_reports = np.zeros(self.mechanism.n_directions, np.int64), 0
        for found in self._each_who_reports(lambda engine: engine.collect(V, epoch)):
            sums += found.sums
            n_reports += found.n_reports
        return Collected(sums, n_reports)

    def _reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        nobody = np.empty((0, self.settings.reports), np.uint32)
        found = self._each_who_reports(lambda engine: engine.reports(V, epoch))
        return np.concatenate([nobody, *found])

    def _user_vectors(self, V: Float32) -> Float32:
        return np.concatenate(list(self.each(lambda engine: engine.user_vectors(V))))

    def _ranks(self, V: Float32, *, known: bool) -> Ranks:
        return Ranks.joined(self.each(lambda engine: engine.ranks(V, known=known)))

    def _each_who_reports(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        """The same for those who report, where these are made out of the others."""
        return self.each(question)


class StreamedEngine(PartedEngine):
    """One part in memory at a time: any number of people, with any engine for one machine."""

    name: ClassVar[str] = "streamed"

    def __init__(self, parts: Parts, settings: Settings, make: Callable[[Part], LocalEngine]):
        super().__init__(parts.n_items, settings)
        self._parts = parts
        self._make = make

    def each(self, question: Callable[[LocalEngine], T]) -> Iterable[T]:
        for part in self._parts:
            with self._make(part) as engine:
                yield question(engine)


def one_by_one(parts: Parts, settings: Settings, make: Callable[[Part], LocalEngine]) -> Engine:
    """The engine of the only part, or one that goes through all of them."""
    return make(parts[0]) if len(parts) == 1 else StreamedEngine(parts, settings, make)
