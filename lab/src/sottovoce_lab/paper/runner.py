"""The list of experiments, and how missing cells are computed."""

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sottovoce.data import Interactions
from sottovoce_lab.paper.attacker import AttackerExperiment, compute_attack
from sottovoce_lab.paper.cells import Cell, Method, Size
from sottovoce_lab.paper.communication import Communication
from sottovoce_lab.paper.equal_budgets import EqualBudgets
from sottovoce_lab.paper.fifths import FifthsExperiment
from sottovoce_lab.paper.figures import Figure2, Figure3, Table4
from sottovoce_lab.paper.frontier import Frontier
from sottovoce_lab.paper.grid import Grid
from sottovoce_lab.paper.initial_scale import InitialScaleSearch
from sottovoce_lab.paper.late_people import LatePeopleExperiment
from sottovoce_lab.paper.law_experiment import LawExperiment
from sottovoce_lab.paper.main_table import MainTable
from sottovoce_lab.paper.methods import (
    COMPUTE_BY_METHOD,
    COMPUTE_BY_TEST,
    CellContext,
    Compute,
    SharedResults,
    compute_baseline,
)
from sottovoce_lab.paper.poisoning.cell import compute_poisoning
from sottovoce_lab.paper.poisoning.experiment import PoisoningExperiment
from sottovoce_lab.paper.side_information import SideInformationExperiment
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.table5 import Table5
from sottovoce_lab.paper.tables import Experiment
from sottovoce_lab.paper.tuning import Tuning

# Called with each cell before it is computed.
CellCallback = Callable[[Cell], None]
# Called with the number of cells of a stage. The context manager returns the callback for a cell.
StageCallback = Callable[[int], AbstractContextManager[CellCallback]]

# All experiments, in the order of the report.
EXPERIMENTS: dict[str, type[Experiment]] = {
    experiment.name: experiment
    for experiment in (
        MainTable,
        Tuning,
        Figure2,
        Figure3,
        Table4,
        InitialScaleSearch,
        Table5,
        Communication,
        EqualBudgets,
        SideInformationExperiment,
        LatePeopleExperiment,
        FifthsExperiment,
        Frontier,
        LawExperiment,
        PoisoningExperiment,
        AttackerExperiment,
    )
}
_COMPUTE_BY_METHOD: dict[Method, Compute] = {
    **COMPUTE_BY_METHOD,
    "poisoning": compute_poisoning,
    "attacker": compute_attack,
}
# Number of users or items that stands for all, so that subsets are sorted before the whole data.
_ALL_ROWS = 1 << 40


def run_cell(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Compute a cell's result: metrics, and the lifetime budget of a private method."""
    compute = COMPUTE_BY_TEST.get(cell.measured) or _COMPUTE_BY_METHOD.get(
        cell.method, compute_baseline
    )
    return compute(cell, context)


class SubsetCache:
    """Draws subsets of a data set, and keeps the last one."""

    def __init__(self, data: Interactions):
        self._data = data
        self._last: tuple[tuple[Size, int], Interactions] | None = None

    def get(self, cell: Cell) -> Interactions:
        """Return the subset that a cell is computed on."""
        if cell.size.users is None and cell.size.items is None:
            return self._data
        key = cell.size, cell.draw
        if self._last is None or self._last[0] != key:
            users, items = cell.size.users, cell.size.items
            self._last = key, self._data.subset(users=users, items=items, seed=cell.draw)
        return self._last[1]


@dataclass(frozen=True, eq=False)
class Runner:
    """Computes the missing cells of one data set, and stores their results."""

    data: Interactions
    store: CellStore
    threads: int | None = None
    compute: Compute = run_cell
    engine: str = "cpu"
    card: int | None = None
    """Number of the graphics card of the `cuda` engine."""

    def list_missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells without a result, sorted by subset and split."""
        missing = {cell.key: cell for cell in cells if self.store.get(cell) is None}
        return sorted(missing.values(), key=_get_order)

    def run(self, cells: Iterable[Cell], on_cell: CellCallback = lambda *_: None) -> int:
        """Compute the cells without a result, and return how many there were.

        An interruption loses only the cell that is being computed.
        """
        # `subsets` is a local variable, so that a subset of ML-20M does not stay in memory.
        missing, subsets = self.list_missing(cells), SubsetCache(self.data)
        shared = SharedResults(missing)
        for cell in missing:
            on_cell(cell)
            self._compute_cell(cell, subsets.get(cell), shared)
        return len(missing)

    def _compute_cell(self, cell: Cell, data: Interactions, shared: SharedResults) -> None:
        started = time.perf_counter()
        result = self.compute(cell, CellContext(data, self.threads, self.engine, self.card, shared))
        self.store.put(cell, result, time.perf_counter() - started)


def _get_order(cell: Cell) -> tuple[int, int, int, int, str]:
    users, items = cell.size.users or _ALL_ROWS, cell.size.items or _ALL_ROWS
    return users * items, cell.draw, cell.seed, users, cell.split


def run_experiments(
    experiments: Iterable[type[Experiment]],
    grid: Grid,
    runner: Runner,
    methods: Collection[str],
    on_stage: StageCallback,
) -> int:
    """Compute all missing cells, stage after stage, and return how many there were.

    Args:
        experiments: The experiments that need the cells.
        grid: The values of all settings.
        runner: Computes the cells.
        methods: Methods to compute; all of them if it is empty.
        on_stage: Called with the number of cells of each stage.
    """
    instances = [experiment(grid, runner.store) for experiment in experiments]
    cells = [cell for experiment in instances for cell in experiment.list_cells()]
    computed = _run_stage(cells, runner, methods, on_stage)
    # Which cells an experiment needs may depend on earlier results.
    while True:
        cells = [cell for experiment in instances for cell in experiment.list_next_cells()]
        further = _run_stage(cells, runner, methods, on_stage)
        if not further:
            return computed
        computed += further


def _run_stage(
    cells: list[Cell], runner: Runner, methods: Collection[str], on_stage: StageCallback
) -> int:
    missing = runner.list_missing(cell for cell in cells if not methods or cell.method in methods)
    if not missing:
        return 0
    with on_stage(len(missing)) as on_cell:
        return runner.run(missing, on_cell)
