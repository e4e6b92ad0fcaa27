"""The experiments, and how they are run: cells that are missing first, then all that shows them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, Self

from sottovoce.data import Interactions
from sottovoce_lab.paper.attacker import AttackerAgain, attack
from sottovoce_lab.paper.budgets import Equal, Frontier
from sottovoce_lab.paper.cells import OURS, TRAINED, Cell, CellStore, Method, Size
from sottovoce_lab.paper.law import LawChecked
from sottovoce_lab.paper.liars import LiarsShown
from sottovoce_lab.paper.lying import lie
from sottovoce_lab.paper.methods import HOW, MEASURED, CellContext, Compute, Shared, compared
from sottovoce_lab.paper.people import LatePeople, SideInformationWorth, WhoPays
from sottovoce_lab.paper.published import Cost, Figure2, Figure3, Table4, Table5
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.tables import Experiment

Done = tuple[Cell, dict[str, Any], float]
"""A cell, its result and the seconds that it took."""
ASIDE: tuple[Method, ...] = (
    "popularity", "private-popularity", "named-counts", "fcf", "dplcf", "dp-als", "liars",
    "attacker",
)  # fmt: skip
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Variables that libraries read when they are loaded."""


def run_cell(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Metrics, and for private methods the lifetime budget: ready for JSON."""
    how = MEASURED.get(cell.measured) or _HOW.get(cell.method, compared)
    return how(cell, context)


_HOW: dict[Method, Compute] = {**HOW, "liars": lie, "attacker": attack}


class Aside:
    """So many processes, each with its share of the cores; close it, or use it in a `with`."""

    def __init__(self, data: Interactions, cells: Iterable[Cell], jobs: int):
        threads = max((os.cpu_count() or 1) // jobs, 1)
        self._pool = ProcessPoolExecutor(
            jobs, get_context("spawn"), _begin, (Subsets(data), threads)
        )
        with _environment(dict.fromkeys(THREADS, str(threads))):
            self._running: dict[Future[tuple[dict[str, Any], float]], Cell] = {
                self._pool.submit(_compute, cell): cell for cell in cells
            }

    def done(self, *, wait: bool = False) -> Iterator[Done]:
        """Those that are ready and were not told of before, or all; then what failed first."""
        failed: BaseException | None = None
        for future, cell in list(self._running.items()):
            if not (wait or future.done()):
                continue
            del self._running[future]
            error = future.exception()
            if error is None:
                yield cell, *future.result()
            failed = failed or error
        if failed is not None:
            raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What is in hand is finished, what waits is not begun."""
        self._pool.shutdown(cancel_futures=True)


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


_mine: list[tuple[Subsets, int, Shared]] = []
"""What a process was given when it began."""


def _begin(subsets: Subsets, threads: int) -> None:
    _mine.append((subsets, threads, Shared()))


def _compute(cell: Cell) -> tuple[dict[str, Any], float]:
    subsets, threads, shared = _mine[0]
    began = time.perf_counter()
    result = run_cell(cell, CellContext(subsets.of(cell), threads, shared=shared))
    return result, time.perf_counter() - began


@contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """For the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class CellProgress(Protocol):
    """Is told how far the work is."""

    def begin(self, cell: Cell) -> None:
        """The computation of this cell starts."""

    def advance(self, work: float) -> None:
        """So much more is done, in units of `work_of`."""


@dataclass(frozen=True, eq=False)
class Runner:
    """Computes the cells of one data set into one folder."""

    data: Interactions
    store: CellStore
    threads: int | None = None
    compute: Compute = run_cell
    engine: str = "cpu"
    card: int | None = None
    jobs: int = 1
    """With more than one, so many processes compute what needs no engine."""

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Each once, those of one subset and of one split together, the quick ones first."""
        absent = {cell.key: cell for cell in cells if self.store.get(cell) is None}
        return sorted(absent.values(), key=self._order)

    def run(self, cells: Iterable[Cell], watch: CellProgress) -> int:
        """How many were computed. An interruption loses the cell in hand and nothing else."""
        # Local and not on the class: a subset of ML-20M is not worth keeping when this ends.
        todo, subsets = self.missing(cells), Subsets(self.data)
        if self.jobs == 1:
            self._in_turn(todo, subsets, watch)
            return len(todo)
        aside = [cell for cell in todo if cell.method in ASIDE]
        with Aside(self.data, sorted(aside, key=self.work_of, reverse=True), self.jobs) as others:

            def keep(*, wait: bool = False) -> None:
                for cell, result, seconds in others.done(wait=wait):
                    self.store.put(cell, result, seconds)
                    watch.advance(self.work_of(cell))

            own = [cell for cell in todo if cell.method not in ASIDE]
            self._in_turn(own, subsets, watch, after=keep)
            keep(wait=True)
        return len(todo)

    def _in_turn(
        self,
        cells: list[Cell],
        subsets: Subsets,
        watch: CellProgress,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        shared = Shared(cells)
        for cell in cells:
            watch.begin(cell)
            self._one(cell, subsets.of(cell), shared, watch)
            after()

    def work_of(self, cell: Cell) -> float:
        """About how many seconds it takes, on two cores of 2023; only proportions matter."""
        users = cell.resample or cell.size.users or self.data.histories.n_users
        items = cell.size.items or self.data.histories.n_items
        each = _seconds_per_user(cell, items) + _measuring(cell, items)
        return _overhead(items) + float(users) * each

    def _order(self, cell: Cell) -> tuple[float, int, int, int, str, float]:
        users, items = cell.size.users or 1 << 40, cell.size.items or 1 << 40
        return users * items, cell.draw, cell.seed, users, cell.split, self.work_of(cell)

    def _one(self, cell: Cell, data: Interactions, shared: Shared, watch: CellProgress) -> None:
        began, work, told = time.perf_counter(), self.work_of(cell), 0.0

        def on_part(part: float) -> None:
            nonlocal told
            watch.advance((part - told) * work)
            told = part

        context = CellContext(data, self.threads, self.engine, self.card, shared, on_part)
        result = self.compute(cell, context)
        self.store.put(cell, result, time.perf_counter() - began)
        on_part(1.0)


def _overhead(items: int) -> float:
    """Split, negatives, server's transforms."""
    return 0.2 + 2e-5 * items


def _measuring(cell: Cell, items: int) -> float:
    """Of one user, where more than an item that was left out is ranked."""
    return {"left-out": 0.0, "late": 1e-8, "people": 2e-8}[cell.measured] * items


def _seconds_per_user(cell: Cell, items: int) -> float:
    """From timings of each method at 1,000 and at 9,781 items."""
    named = cell.named
    if cell.method in TRAINED:
        every_item = 2.5e-9 + 2.4e-10 * named["factors"] if cell.method in OURS else 0.0
        reporting = 1e-6 + every_item * items + 5e-8 * named["reports"]
        evaluation = 2e-6 * named["epochs"] if cell.curve else 0.0
        return float(cell.settings.turns * reporting + evaluation)
    if cell.method == "liars":
        fixed = {"loudest": 1e-8 * items}.get(named["attacked"], 2e-6)
        adapting = 1e-5 if named["attacker"] == "adaptive" else 0.0
        return float(named["epochs"]) * (fixed + adapting)
    if cell.method == "attacker":
        crowd = 4.5e-9 * items + 5e-8 * named["reports"]
        return float(named["epochs"] * (named["crowds"] * crowd + 1e-7 * items))
    if cell.method in ("mf", "named-als"):
        return float(named["iterations"] * named["factors"]) * 1.5e-10 * items
    if cell.method == "fcf":
        return float(named["epochs"]) * 1.5e-9 * items
    if cell.method == "dp-als":
        factors, steps = float(named["factors"]), float(named["steps"])
        return 1e-9 * items * factors * (steps + factors / 2)
    if cell.method == "dplcf":
        return 6e-12 * items**2
    if cell.method == "named-counts":
        return 1e-7 * float(named["reports"])
    if cell.method == "private-popularity":
        return 1.5e-8 * items + 4e-8 * float(named["reports"])
    return 2e-6


EXPERIMENTS: dict[str, type[Experiment]] = {
    each.name: each
    for each in (
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
    watch: Callable[[float], AbstractContextManager[CellProgress]],
) -> int:
    """Everything that is missing; a watch is made for each of the two stages, from its work."""
    chosen = [each(scale, runner.store) for each in experiments]
    done = _stage([cell for each in chosen for cell in each.cells()], runner, methods, watch)
    later = [cell for each in chosen for cell in each.then()]
    return done + _stage(later, runner, methods, watch)


def _stage(
    cells: list[Cell],
    runner: Runner,
    methods: Collection[str],
    watch: Callable[[float], AbstractContextManager[CellProgress]],
) -> int:
    missing = runner.missing(cell for cell in cells if not methods or cell.method in methods)
    if not missing:
        return 0
    with watch(sum(map(runner.work_of, missing))) as looking_on:
        return runner.run(missing, looking_on)
