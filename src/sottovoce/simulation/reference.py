"""The reference engine, which calls `sottovoce.core` for a few people at a time.

It needs no compiler and is slow. All other engines must give the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, count_reports, solve_user_vectors
from sottovoce.settings import setting
from sottovoce.simulation.interface import Engine, LocalEngine, ReportSums, build_local_engine
from sottovoce.simulation.population import Part, Parts
from sottovoce.simulation.random_words import draw_participants, draw_report_words
from sottovoce.training import Settings

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Options:
    people_at_once: int = setting(
        64, "number of people whose reports are computed together", min_value=1
    )


def build(parts: Parts, settings: Settings, options: Options) -> Engine:
    return build_local_engine(
        parts, settings, lambda part: ReferenceEngine(part, settings, options.people_at_once)
    )


class ReferenceEngine(LocalEngine):
    """An engine in plain numpy."""

    name: ClassVar[str] = "reference"

    def __init__(self, part: Part, settings: Settings, people_at_once: int):
        super().__init__(part, settings)
        self._people_at_once = people_at_once

    def collect(self, V: Float32, epoch: int) -> ReportSums:
        n_directions = self.mechanism.n_directions
        counts, n_reports = np.zeros(2 * n_directions, np.int64), 0
        for reports in self._make_reports(V, epoch):
            counts += count_reports(reports, n_directions)
            n_reports += reports.size
        return ReportSums(self.mechanism.to_sums(counts), n_reports)

    def list_reports(self, V: Float32, epoch: int) -> NDArray[np.uint32]:
        no_reports = np.empty((0, self.settings.reports), np.uint32)
        return np.concatenate([no_reports, *self._make_reports(V, epoch)])

    def solve_user_vectors(self, V: Float32) -> Float32:
        return self._solve(self.check_items(V), self.histories)

    def _solve(self, V: Float32, people: Histories) -> Float32:
        alpha, ridge = self.settings.alpha, self.settings.compute_user_ridge(V)
        return solve_user_vectors(V, people, alpha=alpha, regularization=ridge)

    def _make_reports(self, V: Float32, epoch: int) -> Iterator[NDArray[np.uint32]]:
        V = self.check_items(V)
        n, settings = len(self.people), self.settings
        for start in range(0, n, self._people_at_once):
            places = np.arange(start, min(start + self._people_at_once, n))
            numbers = self.people.get_numbers(places)
            # Draw the participants first: only they need a user vector.
            takes_part = draw_participants(
                settings.seed, epoch, numbers, settings.turns, settings.epochs
            )
            participants = numbers[takes_part]
            people = self.people.take(places[takes_part], settings.seed)
            random_words = draw_report_words(settings.seed, epoch, participants, settings.reports)
            yield self.mechanism.reports(V, self._solve(V, people), people, random_words)
