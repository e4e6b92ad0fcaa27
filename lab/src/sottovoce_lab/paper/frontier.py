"""The least lifetime budget that reaches a quality, for each mechanism.

Many trainings are tried, few are shown, so the choice must not be made on what is shown: the
settings on the frontier are chosen on the subset and split of seed 1000, and reported on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from sottovoce.simulation.evaluation import Interval
from sottovoce_lab.paper.cells import Cell, Method
from sottovoce_lab.paper.options import (
    SHOWN,
    VIEWS,
    BudgetPoint,
    Option,
    View,
    best,
    choose,
    largest,
    least_budget,
    options,
    point_of,
    tried,
)
from sottovoce_lab.paper.scale import CHOOSING, Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import COLOURS, level, lines
from sottovoce_lab.paper.tables import NAMES, Reader, Table, budget, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "frontier"
TITLE = "The least budget for a quality"
TARGETS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.72, 0.74, 0.76, 0.78)


def cells(scale: Scale) -> list[Cell]:
    """All that the choice needs; what is reported follows from it: `reported`."""
    return list(dict.fromkeys(option.chosen_by for option in options(scale)))


def reported(scale: Scale, store: CellStore) -> list[Cell]:
    """The chosen options on the reported splits, and what they are to be read against."""
    size = largest(scale)
    chosen = [option.cell(seed) for option in choose(scale, store) for seed in scale.seeds]
    return [*chosen, *scale.all_of([scale.ceiling(size), scale.popularity(size)])]


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    points = _points(scale, reader)
    return [_points_table(scale, reader, points), _targets_table(points)]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader = Reader(store, scale)
    points = _points(scale, reader)
    panels = figure.subplots(1, len(VIEWS), sharey=True)
    for axes, view in zip(panels, VIEWS, strict=True):
        for method in SHOWN:
            mine = _on_frontier(scale, reader, points, method, view)
            lines(axes, mine, NAMES[method], COLOURS[method])
        level(axes, reader.interval(scale.ceiling(largest(scale))), "MF-NP")
        level(axes, reader.interval(scale.popularity(largest(scale))), "popularity")
        axes.set(xscale="log", ylim=(0, 0.85), xlabel=f"lifetime budget, {view} (epsilon)")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("HR@10")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5)


def _points(scale: Scale, reader: Reader) -> list[BudgetPoint]:
    """Chosen before, measured on the reported splits."""
    found = []
    for option in choose(scale, reader.store):
        interval = _interval(reader, option)
        if interval is not None:
            spent = reader.budget(option.cell)
            found.append(point_of(option, spent, interval.mean))
    return found


def _interval(reader: Reader, option: Option) -> Interval | None:
    return reader.interval(option.cell)


def _on_frontier(
    scale: Scale, reader: Reader, points: Sequence[BudgetPoint], method: Method, view: View
) -> list[tuple[float, Interval | None]]:
    """The curve of one view: what was chosen for it, even where the report then says otherwise."""
    mine = [option for option in options(scale) if option.method == method]
    known = [point for option in mine if (point := tried(option, reader.store))]
    chosen = {point.option for point in best(known, view)}
    return [
        (point.cost(view), _interval(reader, point.option))
        for point in sorted(points, key=lambda point: point.cost(view))
        if point.option in chosen
    ]


def _points_table(scale: Scale, reader: Reader, points: Sequence[BudgetPoint]) -> Table:
    rows, records = [], []
    for point in sorted(points, key=lambda p: (SHOWN.index(p.option.method), p.local)):
        interval, about = _interval(reader, point.option), point.option.about()
        name = NAMES[point.option.method]
        records += record(
            interval, method=point.option.method, **about, local=point.local, central=point.central
        )
        spent = (budget(point.local), budget(point.central))
        rows.append((name, *(f"{value:g}" for value in about.values()), *spent, shown(interval)))
    headings = ("method", "eps", "k", "T", "F", "alpha", "local", "central", "HR@10")
    chosen = (
        f"Settings were chosen on the subset and split of seed {CHOOSING}; these numbers are of "
        "other splits of another subset. Central: delta 1e-6, everybody takes part in every epoch; "
        "reports that name items have no central figure here and stand at their local one."
    )
    against = (
        f"Popularity {shown(reader.interval(scale.popularity(largest(scale))))}, "
        f"MF-NP {shown(reader.interval(scale.ceiling(largest(scale))))}; neither is private."
    )
    return Table(NAME, f"{TITLE}: {largest(scale)}", headings, rows, records, [chosen, against])


def _targets_table(points: Sequence[BudgetPoint]) -> Table:
    rows, records = [], []
    for target in TARGETS:
        row = [f"{target:.2f}"]
        for view, method in product(VIEWS, SHOWN):
            least = least_budget(points, method, view, target)
            row.append("not reached" if least is None else budget(least))
            if least is not None:
                records.append({"hr@10": target, "view": view, "method": method, "budget": least})
        rows.append(tuple(row))
    headings = ("HR@10", *(f"{NAMES[method]}, {view}" for view, method in product(VIEWS, SHOWN)))
    title = f"{TITLE}: lifetime budget of the cheapest point above whose mean is as good"
    return Table(f"{NAME}-targets", title, headings, rows, records)
