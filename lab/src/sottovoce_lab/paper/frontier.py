"""The least budget that reaches a given quality, and the settings that reach it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import COMPARED_METHODS, Cell, Method, Size
from sottovoce_lab.paper.grid import (
    TUNING_SEED,
    Family,
    Grid,
    compute_delta,
    get_subset_seed,
)
from sottovoce_lab.paper.plots import MAX_HIT_RATIO_SHOWN, METHOD_COLOURS, draw_curve, draw_level
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.tables import (
    METHOD_LABELS,
    Experiment,
    Table,
    format_budget,
    format_interval,
    get_budget,
    get_metric,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The two views of a budget: local, if reports can be traced to people, or central, after a shuffle.
View = Literal["local", "central"]
VIEWS: tuple[View, ...] = ("local", "central")
# Two ways to learn popularity privately. A report has a sign that depends on the whole history
# (`sottovoce_lab.baselines.counting`), or names one item (`sottovoce_lab.baselines.naming`).
SIGN_COUNTING: Method = "private-popularity"
NAME_COUNTING: Method = "named-counts"
# Counting signs is tried with up to this many reports of a person.
MAX_SIGN_REPORTS = 100
# Epsilons of a report that names an item. With smaller ones, nearly all reports are noise.
NAMED_EPSILONS = (4.0, 5.0, 6.0, 7.0, 8.0, 10.0)
FRONTIER_METHODS: tuple[Method, ...] = (*COMPARED_METHODS, SIGN_COUNTING, NAME_COUNTING)
# HR@10 for which the least budget is sought.
TARGET_QUALITIES = (0.4, 0.5, 0.6, 0.65, 0.7, 0.72, 0.74, 0.76, 0.78)


@dataclass(frozen=True)
class Option:
    """One way to spend a budget: a method at some setting."""

    tuning_cell: Cell
    """The cell on the split on which options are chosen."""

    @property
    def method(self) -> Method:
        """Name of the method."""
        return self.tuning_cell.method

    def make_cell(self, seed: int) -> Cell:
        """Return the cell of this option on the split of another seed."""
        return replace(self.tuning_cell, seed=seed, draw=get_subset_seed(seed))

    def describe(self) -> dict[str, float]:
        """Return the option's setting; popularity has no factors and one epoch."""
        options = self.tuning_cell.options
        return {
            "epsilon": options["epsilon"],
            "reports": options["reports"],
            "epochs": options.get("epochs", 1),
            "factors": options.get("factors", 0),
            "alpha": options.get("alpha", 0.0),
        }


@dataclass(frozen=True)
class BudgetPoint:
    """The budget and the quality of an option."""

    option: Option
    local: float
    central: float
    quality: float

    def get_cost(self, view: View) -> float:
        """Return the local or the central budget."""
        return self.local if view == "local" else self.central


def find_frontier(points: Iterable[BudgetPoint], view: View) -> list[BudgetPoint]:
    """Return the points that are better than all others that cost no more, cheapest first."""
    frontier: list[BudgetPoint] = []
    # The best of several points with equal costs comes first, so the others are left out.
    for point in sorted(points, key=lambda point: (point.get_cost(view), -point.quality)):
        if not frontier or point.quality > frontier[-1].quality:
            frontier.append(point)
    return frontier


def list_options(grid: Grid) -> list[Option]:
    """Return all options that are tried, for the largest crowd of figure 2.

    They are the trainings of figure 2, trainings with one report in an epoch, and popularity that
    is counted privately.
    """
    size = get_largest_size(grid)
    trainings = [
        grid.build_training(method, size, epsilon, k)(TUNING_SEED)
        for method, epsilon, k in product(COMPARED_METHODS, grid.epsilons, grid.reports)
        if k > 1
    ]
    trainings += [
        grid.build_training(method, size, epsilon, 1, epochs=epochs)(TUNING_SEED)
        for method, epsilon, epochs in product(
            COMPARED_METHODS, grid.small_epsilons, grid.frontier_epochs
        )
    ]
    return [Option(cell) for cell in (*trainings, *_list_counting_cells(grid))]


def _list_counting_cells(grid: Grid) -> Iterator[Cell]:
    # Private popularity shows what a budget achieves without personal recommendations.
    size = get_largest_size(grid)
    sign_reports = (*grid.frontier_epochs, MAX_SIGN_REPORTS)
    signs = product([SIGN_COUNTING], grid.small_epsilons, sign_reports)
    names = product([NAME_COUNTING], NAMED_EPSILONS, grid.frontier_epochs)
    for method, epsilon, reports in (*signs, *names):
        yield Cell.from_parameters(
            method, size, TUNING_SEED, draw=TUNING_SEED, epsilon=epsilon, reports=reports
        )


def choose_options(grid: Grid, store: CellStore) -> list[Option]:
    """Return each method's options on its local or central frontier, by the tuning split."""
    options = list_options(grid)
    chosen: list[Option] = []
    for method in FRONTIER_METHODS:
        points = [
            point
            for option in options
            if option.method == method and (point := read_tuning_point(option, store))
        ]
        frontiers = [point for view in VIEWS for point in find_frontier(points, view)]
        # An option on both frontiers is reported once; the order stays that of the frontiers.
        chosen += dict.fromkeys(point.option for point in frontiers)
    return chosen


def find_min_budget(
    points: Iterable[BudgetPoint], method: Method, view: View, target: float
) -> float | None:
    """Return the least budget with which a method reaches a quality, or None."""
    costs = [
        point.get_cost(view)
        for point in points
        if point.option.method == method and point.quality >= target
    ]
    return min(costs, default=None)


def get_largest_size(grid: Grid) -> Size:
    """Return the size of the largest crowd of figure 2."""
    return grid.make_small_size(grid.users[-1])


def read_tuning_point(option: Option, store: CellStore) -> BudgetPoint | None:
    """Return cost and quality on the split on which options are chosen, or None."""
    result = store.get(option.tuning_cell)
    if result is None:
        return None
    return make_point(option, get_budget(result), get_metric(result))


def make_point(option: Option, spent: dict[str, float | None], quality: float) -> BudgetPoint:
    """Return the point of an option; if it has no central budget, the local one stands for it."""
    local, central = spent["local"], spent["central"]
    assert local is not None
    return BudgetPoint(option, local, local if central is None else central, quality)


class Frontier(Experiment):
    """Smallest lifetime budget with which a quality is reached, local and central.

    Many settings are tried, and those with the best results on a split owe a part of this to
    chance. So settings are chosen on the subset and split of `TUNING_SEED`, and their quality is
    reported on other splits.
    """

    name = "frontier"
    title = "The least budget for a quality"
    figure_size = (10.0, 4.6)

    def list_cells(self) -> list[Cell]:
        """Return the cells of the split on which options are chosen."""
        return list(dict.fromkeys(option.tuning_cell for option in list_options(self.grid)))

    def list_next_cells(self) -> list[Cell]:
        """Return the cells of chosen options and of non-private methods, on the reported splits."""
        chosen = [option.make_cell for option in choose_options(self.grid, self.store)]
        return self.grid.list_cells([*chosen, *self._public_families])

    @property
    def _public_families(self) -> tuple[Family, Family]:
        size = get_largest_size(self.grid)
        return self.grid.build_mf(size), self.grid.build_popularity(size)

    def build_tables(self) -> list[Table]:
        """Build a table of the chosen options, and one of the budgets for each quality."""
        points = self._read_points()
        return [self._build_points_table(points), self._build_targets_table(points)]

    def draw(self, figure: Figure) -> None:
        """Draw the frontier of each method, in a panel for each view."""
        points = self._read_points()
        panels = figure.subplots(1, len(VIEWS), sharey=True)
        for axes, view in zip(panels, VIEWS, strict=True):
            for method in FRONTIER_METHODS:
                frontier = self._read_frontier(points, method, view)
                draw_curve(axes, frontier, METHOD_LABELS[method], METHOD_COLOURS[method])
            for label, family in zip(("MF-NP", "popularity"), self._public_families, strict=True):
                draw_level(axes, self.reader.read_interval(family), label)
            x_label = f"lifetime budget, {view} (epsilon)"
            axes.set(xscale="log", ylim=(0, MAX_HIT_RATIO_SHOWN), xlabel=x_label)
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("HR@10")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=5)

    def _read_points(self) -> list[BudgetPoint]:
        """Return the chosen options with their qualities on the reported splits."""
        points = []
        for option in choose_options(self.grid, self.store):
            interval = self.reader.read_interval(option.make_cell)
            if interval is not None:
                spent = self.reader.read_budget(option.make_cell)
                points.append(make_point(option, spent, interval.mean))
        return points

    def _read_frontier(
        self, points: Sequence[BudgetPoint], method: Method, view: View
    ) -> list[tuple[float, Interval | None]]:
        """Return the points chosen for a view, even if others are better on the reported splits."""
        options = [option for option in list_options(self.grid) if option.method == method]
        # Repeat the choice on the tuning split. The reported qualities must not decide which points
        # are drawn.
        tried = [point for option in options if (point := read_tuning_point(option, self.store))]
        chosen = {point.option for point in find_frontier(tried, view)}
        return [
            (point.get_cost(view), self.reader.read_interval(point.option.make_cell))
            for point in sorted(points, key=lambda point: point.get_cost(view))
            if point.option in chosen
        ]

    def _build_points_table(self, points: Sequence[BudgetPoint]) -> Table:
        rows, records = [], []
        for point in sorted(
            points, key=lambda point: (FRONTIER_METHODS.index(point.option.method), point.local)
        ):
            method, setting = point.option.method, point.option.describe()
            interval = self.reader.read_interval(point.option.make_cell)
            records += make_records(
                interval, method=method, **setting, local=point.local, central=point.central
            )
            rows.append(
                (
                    METHOD_LABELS[method], *(f"{value:g}" for value in setting.values()),
                    format_budget(point.local), format_budget(point.central),
                    format_interval(interval),
                )
            )  # fmt: skip
        headings = ("method", "eps", "k", "T", "F", "alpha", "local", "central", "HR@10")
        size = get_largest_size(self.grid)
        users, _ = self.grid.count_users_and_items(size)
        chosen = (
            f"Settings were chosen on the subset and split of seed {TUNING_SEED}; these numbers "
            "are of other splits of another subset. Central: delta "
            f"{compute_delta(users):g}, everybody takes part in every epoch; reports that name "
            "items have no central budget here, so their local one is shown."
        )
        ceiling, popularity = (
            format_interval(self.reader.read_interval(family)) for family in self._public_families
        )
        notes = [chosen, f"Popularity {popularity}, MF-NP {ceiling}; neither is private."]
        return Table(self.name, f"{self.title}: {size}", headings, rows, records, notes)

    def _build_targets_table(self, points: Sequence[BudgetPoint]) -> Table:
        rows, records = [], []
        columns = list(product(VIEWS, FRONTIER_METHODS))
        for target in TARGET_QUALITIES:
            row = [f"{target:.2f}"]
            for view, method in columns:
                budget = find_min_budget(points, method, view, target)
                row.append("not reached" if budget is None else format_budget(budget))
                if budget is not None:
                    records.append(
                        {"hr@10": target, "view": view, "method": method, "budget": budget}
                    )
            rows.append(tuple(row))
        headings = ("HR@10", *(f"{METHOD_LABELS[method]}, {view}" for view, method in columns))
        title = f"{self.title}: lifetime budget of the cheapest point above whose mean is as good"
        return Table(f"{self.name}-targets", title, headings, rows, records)
