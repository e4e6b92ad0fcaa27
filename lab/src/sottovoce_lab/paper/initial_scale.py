"""The search for the scale of the paper's first item matrix, which the paper does not state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce_lab.paper.cell_rows import CellRow, list_cell_rows, read_metric, select_rows
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.grid import PAPER_EPSILON, Family
from sottovoce_lab.paper.paper_numbers import FIGURE2, FIGURE2_NOTE, FIGURE3, TABLE4, TABLE5
from sottovoce_lab.paper.plots import draw_crowd_panels, draw_curve
from sottovoce_lab.paper.tables import (
    MAIN_METRIC,
    NO_VALUE,
    Experiment,
    Table,
    format_interval,
    format_number,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Settings that the paper states roughly or not at all. Each entry has the setting, other values of
# it than the preset's, and the initial scales with which every value is tried. They are tried on
# the splits of the search, but only on as many as there are reported splits.
OTHER_SETTINGS: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = (
    ("learning_rate", (5e-4, 2e-3), (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)),
    ("alpha", (4.0, 40.0), (0.01, 0.1, 0.3, 1.0)),
)
# Values of the preset. Rows of cells that lack these columns have these values.
PRESET_SETTINGS = {"learning_rate": 1e-3, "alpha": 1.0}
# Epochs of figure 3 in the table; the file of cells has all of them.
EPOCHS_SHOWN = (1, 5, 10, 20, 30)
# Colours of the curves, one for each number of items.
CURVE_COLOURS = ("#1b6ca8", "#b3402a", "#2a7d4f")
SEARCH_NOTE = (
    "Distance: the mean absolute difference of HR@10 from the nine cells of the paper's Table 4. A "
    "search by HR@10 would choose the initial scale with the largest mean; the preset has the one "
    "with the least distance on the splits of the search."
)


@dataclass(frozen=True)
class Crowds:
    """The parameters of a run that the tables need."""

    sizes: Sequence[tuple[int | None, int | None]]
    """Users and items of Table 4, in its order."""
    reports: int
    """k of Table 4."""
    initial_scales: Sequence[float]
    seeds: range
    """Seeds of the reported splits."""
    search_seeds: range
    """Seeds of the splits on which the initial scale is searched."""
    paper_users: Mapping[int | None, int | None]
    """For each number of users in this run, the number of the paper that it stands for."""


class InitialScaleSearch(Experiment):
    """Scale of the paper's first item matrix, chosen so that its Table 4 is reproduced."""

    name = "initial-scale"
    title = "The scale at which the paper begins"
    figure_size = (9.0, 3.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells of the search, and of the experiments with each initial scale."""
        grid, cells = self.grid, []
        for initial_scale in grid.initial_scales:
            table4 = [self._build(size, initial_scale) for size in self._list_sizes()]
            figure2 = [
                self._build(grid.make_small_size(users), initial_scale, epsilon, k)
                for users, epsilon, k in product(grid.users, grid.epsilons, grid.reports)
            ]
            figure3 = [
                self._build(
                    grid.make_small_size(users),
                    initial_scale,
                    k=k,
                    epochs=grid.curve_epochs,
                    curve=True,
                )
                for users, k in product(grid.curve_users, grid.curve_reports)
            ]
            full = [
                self._build(grid.full, initial_scale, k=k, split=grid.splits[-1])
                for k in grid.full_reports
            ]
            cells += [family(seed) for family in table4 for seed in grid.search_seeds]
            cells += grid.list_cells([*table4, *figure2, *figure3, *full])
        for setting, values, initial_scales in OTHER_SETTINGS:
            for value, initial_scale in product(values, initial_scales):
                if initial_scale in grid.initial_scales:
                    cells += [
                        self._build(size, initial_scale, **dict[str, Any]({setting: value}))(seed)
                        for size in self._list_sizes()
                        for seed in _shorten(grid.search_seeds, grid.seeds)
                    ]
        return list(dict.fromkeys(cells))

    def build_tables(self) -> list[Table]:
        """Build the tables of the search, of experiments by initial scale, and of other values."""
        rows, crowds = list_cell_rows(self.list_cells(), self.store), self._describe_crowds()
        return build_tables(rows, crowds)

    def draw(self, figure: Figure) -> None:
        """Draw HR@10 of Table 4 by initial scale, in a panel for each crowd."""
        sizes, k = self._list_sizes(), self.grid.table4_reports

        def draw_panel(axes: Any, users: int, _: int) -> None:
            for size, colour in zip(
                (size for size in sizes if size.users == users), CURVE_COLOURS, strict=False
            ):
                points = [
                    (initial_scale, self.reader.read_interval(self._build(size, initial_scale)))
                    for initial_scale in self.grid.initial_scales
                ]
                draw_curve(axes, points, f"{self.grid.format_items(size)} items", colour)
                paper = TABLE4.get((self.grid.find_paper_users(size), size.items))
                if paper is not None:
                    axes.axhline(paper, linestyle="--", linewidth=1, color=colour)
            axes.set(xscale="log")

        crowds = {users: f"{users:,}" for users in self.grid.users}
        draw_crowd_panels(figure, crowds, [k], "initial_scale (dashed: the paper)", draw_panel)

    def _build(
        self,
        size: Size,
        initial_scale: float,
        epsilon: float = PAPER_EPSILON,
        k: int | None = None,
        **changes: Any,
    ) -> Family:
        k = self.grid.table4_reports if k is None else k
        return self.grid.build_training(
            "paper", size, epsilon, k, initial_scale=initial_scale, **changes
        )

    def _list_sizes(self) -> list[Size]:
        return [Size(*size) for size in product(self.grid.users, self.grid.items)]

    def _describe_crowds(self) -> Crowds:
        sizes, grid = self._list_sizes(), self.grid
        return Crowds(
            [(size.users, size.items) for size in sizes],
            grid.table4_reports,
            grid.initial_scales,
            grid.seeds,
            grid.search_seeds,
            {size.users: grid.find_paper_users(size) for size in sizes},
        )


def _shorten(seeds: range, others: range) -> range:
    """Return the first seeds, as many as `others` has."""
    return seeds[: len(others)]


def build_tables(rows: Sequence[CellRow], crowds: Crowds) -> list[Table]:
    """Build all tables from raw results."""
    # A setting with the same value in all cells has no column in the rows, so add it.
    rows = [{**{k: f"{v:.9g}" for k, v in PRESET_SETTINGS.items()}, **row} for row in rows]
    usual = select_rows(rows, **PRESET_SETTINGS)
    return [
        _tabulate_search(usual, crowds),
        _tabulate_table4(usual, crowds),
        _tabulate_figure2(usual, crowds),
        _tabulate_figure3(usual, crowds),
        _tabulate_full(usual, crowds),
        _tabulate_other_settings(rows, crowds),
    ]


def _select_table4(
    rows: Iterable[CellRow], crowds: Crowds, size: tuple[int | None, int | None]
) -> list[CellRow]:
    """Return the rows of one size that have the number of reports of Table 4."""
    users, items = size
    own = select_rows(rows, users=users, items=items, split="random")
    return [
        row
        for row in select_rows(own, epsilon=PAPER_EPSILON, reports=crowds.reports)
        if not row.get(f"{MAIN_METRIC} epoch 1")
    ]


def _measure_distance(
    rows: Sequence[CellRow], crowds: Crowds
) -> tuple[float | None, float | None, int]:
    """Return the distance from the paper's Table 4, the mean of HR@10, and the number of cells."""
    means, distances = [], []
    for users, items in crowds.sizes:
        interval = read_metric(_select_table4(rows, crowds, (users, items)))
        if interval is not None:
            means.append(interval.mean)
            paper = TABLE4.get((crowds.paper_users[users], items))
            if paper is not None:
                distances.append(abs(interval.mean - paper))
    distance = float(np.mean(distances)) if distances else None
    return distance, float(np.mean(means)) if means else None, len(means)


def _tabulate_search(rows: Sequence[CellRow], crowds: Crowds) -> Table:
    table_rows, records = [], []
    for initial_scale in crowds.initial_scales:
        numbers = []
        for seeds in (crowds.search_seeds, crowds.seeds):
            own = select_rows(rows, initial_scale=initial_scale, seed=seeds)
            distance, mean, _ = _measure_distance(own, crowds)
            numbers += [format_number(distance), format_number(mean)]
            if mean is not None:
                about = {
                    "initial_scale": initial_scale,
                    "first_seed": seeds[0],
                    "seeds": len(seeds),
                }
                records.append({**about, "distance": distance, "mean": mean})
        table_rows.append((f"{initial_scale:g}", *numbers))
    headings = (
        "initial_scale", "distance, search", "mean HR@10, search", "distance, reported",
        "mean HR@10, reported",
    )  # fmt: skip
    title = (
        f"Search: Table 4 by initial scale; splits of seeds {crowds.search_seeds[0]} "
        f"to {crowds.search_seeds[-1]}, and those that are reported"
    )
    return Table("initial-scale", title, headings, table_rows, records, [SEARCH_NOTE])


def _tabulate_by_scale(
    name: str,
    title: str,
    headings: tuple[str, ...],
    places: Iterable[tuple[tuple[str, ...], float | None, Sequence[CellRow], str]],
    crowds: Crowds,
    notes: Sequence[str] = (),
    show: Callable[..., str] = format_interval,
) -> Table:
    """Build a table with a column for each initial scale.

    Args:
        name: Name of the table.
        title: Its title.
        headings: Headings of the columns that come before the column of the paper's numbers.
        places: For each row: the values of these columns, the paper's number, the cells at all
            initial scales, and the metric.
        crowds: The initial scales and seeds.
        notes: Sentences below the table.
        show: Formats an interval.
    """
    table_rows, records = [], []
    for labels, paper, cells, metric in places:
        intervals = [
            read_metric(select_rows(cells, initial_scale=initial_scale, seed=crowds.seeds), metric)
            for initial_scale in crowds.initial_scales
        ]
        table_rows.append((*labels, format_number(paper), *map(show, intervals)))
        about = {**dict(zip(headings, labels, strict=True)), "paper": paper}
        for initial_scale, interval in zip(crowds.initial_scales, intervals, strict=True):
            records += make_records(interval, **about, initial_scale=initial_scale)
    scales = (f"{initial_scale:g}" for initial_scale in crowds.initial_scales)
    return Table(name, title, (*headings, "paper", *scales), table_rows, records, list(notes))


def _format_mean(interval: Any) -> str:
    return NO_VALUE if interval is None else f"{interval.mean:.3f}"


def _format_items(items: int | None) -> str:
    return "all" if items is None else f"{items:,}"


def _tabulate_table4(rows: Sequence[CellRow], crowds: Crowds) -> Table:
    places = [
        (
            (f"{users:,}", _format_items(items)),
            TABLE4.get((crowds.paper_users[users], items)),
            _select_table4(rows, crowds, (users, items)),
            MAIN_METRIC,
        )
        for users, items in crowds.sizes
    ]
    title = "Table 4 by initial_scale: HR@10"
    return _tabulate_by_scale("initial-scale-table4", title, ("users", "items"), places, crowds)


def _tabulate_figure2(rows: Sequence[CellRow], crowds: Crowds) -> Table:
    small = crowds.sizes[0][1]
    own = [
        row
        for row in select_rows(rows, users=tuple(users for users, _ in crowds.sizes), items=small)
        if not row.get(f"{MAIN_METRIC} epoch 1")
    ]
    settings = dict.fromkeys((row["users"], row["epsilon"], row["reports"]) for row in own)
    places = []
    for users, epsilon, k in sorted(settings, key=lambda s: tuple(float(v or 0) for v in s)):
        paper_users = crowds.paper_users.get(int(users))
        paper = FIGURE2.get((paper_users, float(epsilon or 0), int(k or 0)))
        cells = select_rows(own, users=users, epsilon=epsilon, reports=k)
        places.append(((f"{int(users):,}", epsilon, k), paper, cells, MAIN_METRIC))
    return _tabulate_by_scale(
        "initial-scale-fig2",
        "Figure 2 by initial_scale: mean HR@10, the smallest set of items",
        ("users", "eps", "k"),
        places,
        crowds,
        [FIGURE2_NOTE],
        _format_mean,
    )


def _tabulate_figure3(rows: Sequence[CellRow], crowds: Crowds) -> Table:
    own = [row for row in rows if row.get(f"{MAIN_METRIC} epoch 1")]
    curves = dict.fromkeys((row["users"], row["reports"]) for row in own)
    places = []
    for users, k in sorted(curves, key=lambda curve: tuple(float(v or 0) for v in curve)):
        in_paper = FIGURE3.get((crowds.paper_users.get(int(users)), int(k or 0)), {})
        cells = select_rows(own, users=users, reports=k)
        for epoch in EPOCHS_SHOWN:
            metric = f"{MAIN_METRIC} epoch {epoch}"
            if cells[0].get(metric):
                label = (f"{int(users):,}", k, str(epoch))
                places.append((label, in_paper.get(epoch), cells, metric))
    return _tabulate_by_scale(
        "initial-scale-fig3",
        "Figure 3 by initial_scale: HR@10",
        ("users", "k", "epoch"),
        places,
        crowds,
        ["The paper's column has what the description of its picture says, roughly."],
        _format_mean,
    )


def _tabulate_full(rows: Sequence[CellRow], crowds: Crowds) -> Table:
    sizes = {(users, items) for users, items in crowds.sizes}
    own = [
        row for row in rows if (_parse_count(row["users"]), _parse_count(row["items"])) not in sizes
    ]
    places = []
    for k in dict.fromkeys(row["reports"] for row in own):
        cells = select_rows(own, reports=k)
        paper = TABLE5.get(f"FMF-LDP-{k}")
        for place, metric in enumerate(("hr@2", "hr@5", MAIN_METRIC)):
            number = paper[place] if paper else None
            places.append(((k, metric.upper()), number, cells, metric))
    title = "Table 5 by initial_scale: everybody and everything"
    return _tabulate_by_scale("initial-scale-table5", title, ("k", "metric"), places, crowds)


def _parse_count(count: str) -> int | None:
    return None if count == "all" else int(count)


def _tabulate_other_settings(rows: Sequence[CellRow], crowds: Crowds) -> Table:
    table_rows, records = [], []
    seeds = _shorten(crowds.search_seeds, crowds.seeds)
    for setting, values, _ in OTHER_SETTINGS:
        for value in sorted({*values, PRESET_SETTINGS[setting]}):
            distances = []
            others = {name: v for name, v in PRESET_SETTINGS.items() if name != setting}
            for initial_scale in crowds.initial_scales:
                own = select_rows(
                    rows, initial_scale=initial_scale, seed=seeds, **others, **{setting: value}
                )
                distance, mean, _ = _measure_distance(own, crowds)
                distances.append(format_number(distance, 3))
                if mean is not None:
                    about = {"setting": setting, "value": value, "initial_scale": initial_scale}
                    records.append({**about, "distance": distance, "mean": mean})
            table_rows.append((setting, f"{value:g}", *distances))
    headings = (
        "setting",
        "value",
        *(f"{initial_scale:g}" for initial_scale in crowds.initial_scales),
    )
    title = f"Other settings: distance from Table 4 by initial_scale, {len(seeds)} splits"
    return Table("initial-scale-others", title, headings, table_rows, records)
