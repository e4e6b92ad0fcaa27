"""What several cells ask for: item matrices are trained once, tests prepared once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Interactions, leave_one_out
from sottovoce.simulation.evaluation import Candidates, SideInformation, sample_candidates
from sottovoce_lab.paper.cells import Cell, Way

Float32 = NDArray[np.float32]


class Shared:
    """By the cells that are still to be computed; gone with this object."""

    def __init__(self, cells: Iterable[Cell] = ()):
        self._wanted = Counter(cell.trained_as.key for cell in cells)
        self._kept: dict[str, Float32] = {}
        self._last: tuple[object, Prepared] | None = None

    def model(self, cell: Cell, train: Callable[[], Float32]) -> Float32:
        """The cell's V, trained unless another cell has trained the same; kept for the last one."""
        key = cell.trained_as.key
        V = self._kept.pop(key) if key in self._kept else train()
        self._wanted[key] -= 1
        if self._wanted[key] > 0:
            self._kept[key] = V
        return V

    def prepared(self, cell: Cell, data: Interactions) -> Prepared:
        """The last one is kept: cells of one split follow each other."""
        which = (data, cell.split, cell.negatives, cell.seed)
        if self._last is None or self._last[0] != which:
            split = leave_one_out(data, cell.split, cell.seed)
            candidates = sample_candidates(split, cell.negatives, cell.seed)
            self._last = which, Prepared(data, candidates)
        return self._last[1]


@dataclass(frozen=True)
class Prepared:
    """A test, and what devices may know of it."""

    data: Interactions
    candidates: Candidates

    def known(self, ways: Iterable[Way]) -> dict[Way, SideInformation]:
        """Each way that is asked for and that the data has."""
        known: dict[Way, SideInformation | None] = {way: getattr(self, f"_{way}") for way in ways}
        return {way: each for way, each in known.items() if each is not None}

    @cached_property
    def _tags(self) -> SideInformation | None:
        if self.data.tags is None:
            return None
        return SideInformation.of(self.data, self.candidates.split, tags=True, time=False)

    @cached_property
    def _time(self) -> SideInformation | None:
        if self.candidates.split.times is None:
            return None
        return SideInformation.of(self.data, self.candidates.split, tags=False, time=True)

    @cached_property
    def _both(self) -> SideInformation | None:
        tags, time = self._tags, self._time
        return None if tags is None or time is None else SideInformation(tags.tags, time.weights)
