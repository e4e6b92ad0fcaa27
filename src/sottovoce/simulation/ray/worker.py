"""A process of the cluster that holds some people and answers for them."""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
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


class Worker:
    """Everything that it has follows from what it was made with: it can be made again."""

    def __init__(self, stored: list[ObjectRef[Parts]], indices: list[int], settings: Settings):
        self._stored = stored
        self._indices = indices
        self._settings = settings

    @cached_property
    def _engines(self) -> dict[int, Engine]:
        """Made when they are first asked: what fails here is an answer, and not a lost worker."""
        parts: Parts = ray.get(self._stored[0])
        return {index: _engine(parts[index], self._settings) for index in self._indices}

    def answers(self, question: Callable[[LocalEngine], Any]) -> list[tuple[int, Any]]:
        """For each of its parts, with the part's index."""
        return [
            (index, answer)
            for index, engine in self._engines.items()
            for answer in engine.each(question)
        ]

    def collect(self, question: Callable[[LocalEngine], Collected]) -> Collected:
        """What its people say, added up."""
        return added(*(answer for _, answer in self.answers(question)))


def added(*collected: Collected) -> Collected:
    """Of different people; whole numbers, so any order gives the same."""
    sums = np.sum([each.sums for each in collected], axis=0)
    return Collected(sums, sum(each.n_reports for each in collected))


def _engine(part: Part, settings: Settings) -> Engine:
    # Compiled loops are for arrays that may be written to; those of the object store may not.
    own = part if part.histories.indices.flags.writeable else deepcopy(part)
    return build_engine("cpu", Whole(own), settings, threads=1)
