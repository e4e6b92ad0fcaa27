"""The list of experiments, and how they are run: cells first, then everything that shows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce_lab.paper import (
    attacker,
    benchmarks,
    curves,
    equal,
    frontier,
    known,
    late,
    law,
    liars,
    people,
    sizes,
    trade_off,
    traffic,
)
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.runner import CellProgress, Runner
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper, or one of ours."""

    name: str
    title: str
    cells: Callable[[Scale], list[Cell]]
    tables: Callable[[Scale, CellStore], list[Table]]
    draw: Callable[[Scale, CellStore, Figure], None]
    picture: tuple[float, float]
    """In inches."""
    then: Callable[[Scale, CellStore], list[Cell]] = lambda _scale, _store: []
    """Cells that are only known once the others are."""


EXPERIMENTS = {
    of.NAME: Experiment(of.NAME, of.TITLE, of.cells, of.tables, of.draw, *more)
    for of, *more in (
        (trade_off, (10.0, 10.0)),
        (curves, (9.0, 6.5)),
        (sizes, (8.0, 7.0)),
        (benchmarks, (8.0, 6.5)),
        (traffic, (8.0, 3.5)),
        (equal, (9.0, 4.2)),
        (known, (9.0, 5.5)),
        (late, (10.0, 6.5)),
        (people, (10.0, 5.0)),
        (frontier, (10.0, 4.6), frontier.reported),
        (law, (8.0, 5.0)),
        (liars, (12.0, 6.5)),
        (attacker, (9.0, 4.5)),
    )
}


def compute(
    experiments: Iterable[Experiment],
    scale: Scale,
    runner: Runner,
    methods: Collection[str],
    watch: Callable[[float], AbstractContextManager[CellProgress]],
) -> int:
    """Everything that is missing; a watch is made for each of the two stages, from its work."""
    chosen = list(experiments)
    done = _stage([cell for each in chosen for cell in each.cells(scale)], runner, methods, watch)
    later = [cell for each in chosen for cell in each.then(scale, runner.store)]
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
