"""The experiments, and how they are run: cells that are missing first, then all that shows them."""

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sottovoce.data import Interactions
from sottovoce_lab.paper.attacker import AttackerAgain, attack
from sottovoce_lab.paper.budgets import Equal, Frontier
from sottovoce_lab.paper.cells import Cell, CellStore, Method, Size
from sottovoce_lab.paper.estimate import Estimate
from sottovoce_lab.paper.law import LawChecked
from sottovoce_lab.paper.liars import LiarsShown
from sottovoce_lab.paper.lying import lie
from sottovoce_lab.paper.main import Main, Tuned
from sottovoce_lab.paper.methods import HOW, MEASURED, CellContext, Compute, Shared, compared
from sottovoce_lab.paper.people import LatePeople, SideInformationWorth, WhoPays
from sottovoce_lab.paper.published import Cost, Figure2, Figure3, Table4, Table5
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.tables import Experiment

Begin = Callable[[Cell, float | None], None]
"""Told of each cell that begins, and of the seconds that are left, once they can be estimated."""
Watch = Callable[[int], AbstractContextManager[Begin]]
"""Told how many cells a stage has, it gives what is told of each that begins."""


def run_cell(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Metrics, and for private methods the lifetime budget: ready for JSON."""
    how = MEASURED.get(cell.measured) or _HOW.get(cell.method, compared)
    return how(cell, context)


_HOW: dict[Method, Compute] = {**HOW, "liars": lie, "attacker": attack}


class Subsets:
    """Parts of a data set; the last one is kept."""

    def __init__(self, data: Interactions):
        self._data = data
        self._last: tuple[tuple[Size, int], Interactions] | None = None

    def of(self, cell: Cell) -> Interactions:
        if cell.size.users is None and cell.size.items is None:
            return self._data
        which = cell.size, cell.draw
        if self._last is None or self._last[0] != which:
            users, items = cell.size.users, cell.size.items
            self._last = which, self._data.subset(users=users, items=items, seed=cell.draw)
        return self._last[1]


@dataclass(frozen=True, eq=False)
class Runner:
    """Computes the cells of one data set into one folder."""

    data: Interactions
    store: CellStore
    threads: int | None = None
    compute: Compute = run_cell
    engine: str = "cpu"
    card: int | None = None

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Each once, those of one subset and of one split together."""
        absent = {cell.key: cell for cell in cells if self.store.get(cell) is None}
        return sorted(absent.values(), key=self._order)

    def run(self, cells: Iterable[Cell], begin: Begin = lambda *_: None) -> int:
        """How many were computed. An interruption loses the cell in hand and nothing else."""
        # Local and not on the class: a subset of ML-20M is not worth keeping when this ends.
        todo, subsets = self.missing(cells), Subsets(self.data)
        shared, estimate = Shared(todo), Estimate(todo, self.store.about)
        for cell in todo:
            begin(cell, estimate.left)
            with estimate.watch(cell):
                self._one(cell, subsets.of(cell), shared)
        return len(todo)

    def _order(self, cell: Cell) -> tuple[int, int, int, int, str]:
        users, items = cell.size.users or 1 << 40, cell.size.items or 1 << 40
        return users * items, cell.draw, cell.seed, users, cell.split

    def _one(self, cell: Cell, data: Interactions, shared: Shared) -> None:
        began = time.perf_counter()
        result = self.compute(cell, CellContext(data, self.threads, self.engine, self.card, shared))
        self.store.put(cell, result, time.perf_counter() - began)


EXPERIMENTS: dict[str, type[Experiment]] = {
    each.name: each
    for each in (
        Main,
        Tuned,
        Figure2,
        Figure3,
        Table4,
        Table5,
        Cost,
        Equal,
        SideInformationWorth,
        LatePeople,
        WhoPays,
        Frontier,
        LawChecked,
        LiarsShown,
        AttackerAgain,
    )
}


def compute(
    experiments: Iterable[type[Experiment]],
    scale: Scale,
    runner: Runner,
    methods: Collection[str],
    watch: Watch,
) -> int:
    """Everything that is missing, stage after stage, until none asks for more."""
    chosen = [each(scale, runner.store) for each in experiments]
    done = _stage([cell for each in chosen for cell in each.cells()], runner, methods, watch)
    while more := _stage([cell for each in chosen for cell in each.then()], runner, methods, watch):
        done += more
    return done


def _stage(
    cells: list[Cell],
    runner: Runner,
    methods: Collection[str],
    watch: Watch,
) -> int:
    missing = runner.missing(cell for cell in cells if not methods or cell.method in methods)
    if not missing:
        return 0
    with watch(len(missing)) as begin:
        return runner.run(missing, begin)
