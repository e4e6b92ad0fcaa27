"""Figures 2 and 3 and Table 4 of the paper: small item sets and subsets of the users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import COMPARED_METHODS, Cell, Size, TrainedMethod
from sottovoce_lab.paper.contests import compare_methods, summarize_contests
from sottovoce_lab.paper.grid import PAPER_EPSILON, Family, Grid
from sottovoce_lab.paper.paper_numbers import FIGURE2, FIGURE2_NOTE, FIGURE3, TABLE4
from sottovoce_lab.paper.plots import (
    METHOD_COLOURS,
    draw_bars,
    draw_crowd_panels,
    draw_curve,
    draw_level,
)
from sottovoce_lab.paper.tables import (
    METHOD_LABELS,
    Experiment,
    Table,
    format_budget,
    format_difference,
    format_interval,
    format_number,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Epochs in the table of figure 3, besides the last one; its CSV and JSON files have all epochs.
EPOCHS_SHOWN = (1, 10, 20, 30)
# Methods of Table 4.
TABLE4_METHODS = (*COMPARED_METHODS, "mf", "popularity")


def _label_crowds(grid: Grid, users: Iterable[int]) -> dict[int, str]:
    return {count: grid.format_users(grid.make_small_size(count)) for count in users}


class Figure2(Experiment):
    """HR@10 by epsilon and number of reports, for three numbers of people (Figure 2)."""

    name = "fig2"
    title = "Figure 2: privacy and utility"
    figure_size = (10.0, 10.0)

    def list_cells(self) -> list[Cell]:
        """Return the cells of the grid, and popularity for each crowd."""
        families = [
            family
            for point in self._list_grid()
            for family in self.grid.build_comparison(*point).values()
        ]
        families += [
            self.grid.build_popularity(self.grid.make_small_size(users))
            for users in self.grid.users
        ]
        return self.grid.list_cells(families)

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each point of the grid."""
        rows, records, contests = [], [], []
        for size, epsilon, k in self._list_grid():
            where = f"{size.users:,} users, eps {epsilon:g}, k {k}"
            about = {"users": size.users, "items": size.items, "epsilon": epsilon, "reports": k}
            families = self.grid.build_comparison(size, epsilon, k)
            comparison = compare_methods(self.reader, families, where, **about)
            records += comparison.records
            contests += comparison.contests
            paper_number = FIGURE2.get((self.grid.find_paper_users(size), epsilon, k))
            popularity = self.reader.read_interval(self.grid.build_popularity(size))
            rows.append(
                (
                    self.grid.format_users(size), f"{epsilon:g}", str(k),
                    format_budget(epsilon * k * self.grid.epochs), format_number(paper_number),
                    *comparison.format_intervals(), format_difference(comparison.gain),
                    format_interval(popularity),
                )
            )  # fmt: skip
        headings = (
            "users", "eps", "k", "local budget", "paper",
            *(METHOD_LABELS[method] for method in COMPARED_METHODS), "loudest - preset paper",
            "popularity",
        )  # fmt: skip
        items = self.grid.small_items
        items_text = "all items" if items is None else f"{items:,} items"
        title = f"{self.title}: HR@10 after {self.grid.epochs} epochs, {items_text}"
        notes = [FIGURE2_NOTE, *summarize_contests(contests)]
        return [Table(self.name, title, headings, rows, records, notes)]

    def draw(self, figure: Figure) -> None:
        """Draw HR@10 by epsilon, in a panel for each crowd and number of reports."""

        def draw_panel(axes: Any, users: int, k: int) -> None:
            size, epsilons = self.grid.make_small_size(users), self.grid.epsilons
            for method in COMPARED_METHODS:
                points = []
                for epsilon in epsilons:
                    family = self.grid.build_training(method, size, epsilon, k)
                    points.append((epsilon, self.reader.read_interval(family)))
                draw_curve(axes, points, METHOD_LABELS[method], METHOD_COLOURS[method])
            popularity = self.reader.read_interval(self.grid.build_popularity(size))
            draw_level(axes, popularity, "popularity")
            axes.set(xscale="log")
            axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axes.set_xticks([], minor=True)

        crowds = _label_crowds(self.grid, self.grid.users)
        x_label = "epsilon of one report"
        draw_crowd_panels(figure, crowds, self.grid.reports, x_label, draw_panel)

    def _list_grid(self) -> Iterator[tuple[Size, float, int]]:
        grid = product(self.grid.users, self.grid.epsilons, self.grid.reports)
        return ((self.grid.make_small_size(users), epsilon, k) for users, epsilon, k in grid)


class Figure3(Experiment):
    """Learning curves over 30 epochs (the paper's Figure 3)."""

    name = "fig3"
    title = "Figure 3: learning curves"
    figure_size = (9.0, 6.5)

    def list_cells(self) -> list[Cell]:
        """Return the trainings, tested after every epoch, and the methods drawn as levels."""
        families = [
            self._build_family(method, users, k)
            for users, k in self._list_grid()
            for method in COMPARED_METHODS
        ]
        for users in self.grid.curve_users:
            families += self._build_levels(users).values()
        return self.grid.list_cells(families)

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each crowd, k and method."""
        rows, records = [], []
        shown = [epoch for epoch in EPOCHS_SHOWN if epoch < self.grid.curve_epochs]
        shown.append(self.grid.curve_epochs)
        for users, k in self._list_grid():
            in_paper = self._get_paper_numbers(users, k)
            where = (self.grid.format_users(self.grid.make_small_size(users)), str(k))
            if in_paper:
                numbers = (format_number(in_paper.get(epoch), 2) for epoch in shown)
                rows.append((*where, "paper", *numbers))
            for method in COMPARED_METHODS:
                curve = self._read_curve(method, users, k)
                intervals = (format_interval(curve[epoch]) for epoch in shown)
                rows.append((*where, METHOD_LABELS[method], *intervals))
                about = {"users": users, "reports": k, "method": method}
                for epoch, interval in curve.items():
                    records += make_records(interval, **about, epoch=epoch)
            for name, family in self._build_levels(users).items():
                level = self.reader.read_interval(family)
                gap = [""] * (len(shown) - 1)
                rows.append((*where, name, *gap, format_interval(level)))
                records += make_records(level, users=users, reports=k, method=name)
        headings = ("users", "k", "method", *(f"epoch {epoch}" for epoch in shown))
        items = self.grid.small_items or "all"
        title = f"{self.title}: HR@10, eps {PAPER_EPSILON:g}, {items} items"
        note = "The paper's row is what the description of its picture says, roughly."
        return [Table(self.name, title, headings, rows, records, [note])]

    def draw(self, figure: Figure) -> None:
        """Draw HR@10 by epoch, in a panel for each crowd and number of reports."""

        def draw_panel(axes: Any, users: int, k: int) -> None:
            for method in COMPARED_METHODS:
                curve = self._read_curve(method, users, k)
                points = [(float(epoch), interval) for epoch, interval in curve.items()]
                draw_curve(axes, points, METHOD_LABELS[method], METHOD_COLOURS[method])
            for name, family in self._build_levels(users).items():
                draw_level(axes, self.reader.read_interval(family), name)
            in_paper = self._get_paper_numbers(users, k)
            if in_paper:
                x, y = list(in_paper), list(in_paper.values())
                axes.plot(x, y, "x", color="black", label="paper (ML-20M)")

        crowds = _label_crowds(self.grid, self.grid.curve_users)
        draw_crowd_panels(figure, crowds, self.grid.curve_reports, "epoch", draw_panel)

    def _list_grid(self) -> Iterator[tuple[int, int]]:
        return product(self.grid.curve_users, self.grid.curve_reports)

    def _get_paper_numbers(self, users: int, k: int) -> dict[int, float]:
        """Return the paper's HR@10 by epoch."""
        paper_users = self.grid.find_paper_users(self.grid.make_small_size(users))
        return FIGURE3.get((paper_users, k), {})

    def _build_family(self, method: TrainedMethod, users: int, k: int) -> Family:
        size, epochs = self.grid.make_small_size(users), self.grid.curve_epochs
        return self.grid.build_training(method, size, PAPER_EPSILON, k, epochs=epochs, curve=True)

    def _read_curve(self, method: TrainedMethod, users: int, k: int) -> dict[int, Interval | None]:
        family = self._build_family(method, users, k)
        epochs = range(1, self.grid.curve_epochs + 1)
        return {epoch: self.reader.read_interval(family, epoch=epoch) for epoch in epochs}

    def _build_levels(self, users: int) -> dict[str, Family]:
        size = self.grid.make_small_size(users)
        popularity = self.grid.build_popularity(size)
        return {"MF-NP": self.grid.build_mf(size), "popularity": popularity}


class Table4(Experiment):
    """HR@10 for three numbers of users and three of items (the paper's Table 4)."""

    name = "table4"
    title = "Table 4: users and items"
    figure_size = (8.0, 7.0)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all methods and sizes."""
        return self.grid.list_cells(
            family for size in self._list_sizes() for family in self._build_families(size).values()
        )

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each size."""
        rows, records, contests = [], [], []
        for size in self._list_sizes():
            items = size.items or self.grid.about.items
            comparison = compare_methods(
                self.reader,
                self._build_families(size),
                f"{size.users:,} x {items:,}",
                users=size.users,
                items=items,
            )
            records += comparison.records
            contests += comparison.contests
            paper_number = TABLE4.get((self.grid.find_paper_users(size), size.items))
            rows.append(
                (
                    self.grid.format_users(size), self.grid.format_items(size),
                    format_number(paper_number), *comparison.format_intervals(),
                    format_difference(comparison.gain),
                    *comparison.format_intervals(("mf", "popularity")),
                )
            )  # fmt: skip
        headings = (
            "users", "items", "paper", *(METHOD_LABELS[method] for method in COMPARED_METHODS),
            "loudest - preset paper", "MF-NP", "popularity",
        )  # fmt: skip
        reports, epochs = self.grid.table4_reports, self.grid.epochs
        title = f"{self.title}: HR@10, eps {PAPER_EPSILON:g}, k {reports}, {epochs} epochs"
        return [Table(self.name, title, headings, rows, records, summarize_contests(contests))]

    def draw(self, figure: Figure) -> None:
        """Draw a bar for each size and method."""
        sizes = self._list_sizes()
        series = {
            METHOD_LABELS[name]: [
                self.reader.read_interval(self._build_families(size)[name]) for size in sizes
            ]
            for name in TABLE4_METHODS
        }
        labels = [
            f"{self.grid.format_users(size)} x {size.items or self.grid.about.items:,}"
            for size in sizes
        ]
        axes = figure.subplots()
        draw_bars(axes, labels, series, [METHOD_COLOURS[name] for name in TABLE4_METHODS])
        axes.set(xlabel="HR@10", ylabel="users x items")
        axes.legend(loc="lower right", fontsize=8)

    def _list_sizes(self) -> list[Size]:
        return [Size(users, items) for users in self.grid.users for items in self.grid.items]

    def _build_families(self, size: Size) -> dict[str, Family]:
        trained = self.grid.build_comparison(size, PAPER_EPSILON, self.grid.table4_reports)
        popularity = self.grid.build_popularity(size)
        return {**trained, "mf": self.grid.build_mf(size), "popularity": popularity}
