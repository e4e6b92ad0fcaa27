"""A process of the cluster that holds some people and answers for them."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import ray

from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.interface import Collected
from sottovoce.simulation.parts import Whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ray import ObjectRef

    from sottovoce.simulation.interface import Engine, LocalEngine
    from sottovoce.simulation.parts import Part, Parts
    from sottovoce.training import Settings

    Everybody = list[ObjectRef[Parts]]
    """Where all people are; in a list, since Ray would otherwise fetch them with every question."""


class Worker:
    """What it has follows from what it is made with and asked with: it can be made again."""

    def __init__(self, indices: list[int], settings: Settings):
        self._indices = indices
        self._settings = settings
        self._engines: dict[int, Engine] = {}

    def answers(
        self, stored: Everybody, question: Callable[[LocalEngine], Any]
    ) -> list[tuple[int, Any]]:
        """For each of its parts, with the part's index."""
        return [
            (index, answer)
            for index, engine in self._ready(stored).items()
            for answer in engine.each(question)
        ]

    def collect(self, stored: Everybody, question: Callable[[LocalEngine], Collected]) -> Collected:
        """What its people say, added up."""
        return added(*(answer for _, answer in self.answers(stored, question)))

    def _ready(self, stored: Everybody) -> dict[int, Engine]:
        """Made when they are first asked: what fails here is an answer, and not a lost worker."""
        if not self._engines:
            parts = ray.get(stored[0])
            made = {index: _engine(parts[index], self._settings) for index in self._indices}
            self._engines = made
        return self._engines


def added(*collected: Collected) -> Collected:
    """Of different people; whole numbers, so any order gives the same."""
    sums = np.sum([each.sums for each in collected], axis=0)
    return Collected(sums, sum(each.n_reports for each in collected))


def _engine(part: Part, settings: Settings) -> Engine:
    # Compiled loops are for arrays that may be written to; those of the object store may not.
    own = part if part.histories.indices.flags.writeable else deepcopy(part)
    return build_engine("cpu", Whole(own), settings, threads=1)
