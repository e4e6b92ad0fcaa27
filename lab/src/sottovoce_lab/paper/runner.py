"""Compute the cells that are missing, one after the other; whatever is known stays known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.data import Interactions
from sottovoce_lab.paper.aside import METHODS as ASIDE
from sottovoce_lab.paper.aside import Aside, Subsets
from sottovoce_lab.paper.cells import OURS, TRAINED, Cell
from sottovoce_lab.paper.methods import CellContext, run_cell
from sottovoce_lab.paper.sharing import Shared
from sottovoce_lab.paper.store import CellStore

Compute = Callable[[Cell, CellContext], dict[str, Any]]


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
