"""Table 5 of the paper: every method on the full set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sottovoce.data.split import SplitRule
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import (
    COMPARED_METHODS,
    PAPER_METHODS,
    TRAINED_METHODS,
    Cell,
    TrainedMethod,
)
from sottovoce_lab.paper.contests import list_contests, summarize_contests
from sottovoce_lab.paper.grid import (
    PAPER_EPSILON,
    PAPER_FACTORS,
    Family,
    add_side_information,
    compute_delta,
)
from sottovoce_lab.paper.paper_numbers import TABLE5
from sottovoce_lab.paper.plots import draw_bars
from sottovoce_lab.paper.tables import (
    METHOD_LABELS,
    Experiment,
    Table,
    format_budget,
    format_interval,
    format_number,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LIST_LENGTHS = (2, 5, 10)
BAR_COLOURS = ["#1b6ca8", "#cccccc"]
TIME_NOTE = (
    "Latest: the last thing of each person is left out, and others' later ones are learnt from. "
    "Date: training ends at a date, before which nine tenths of all interactions lie; who has "
    "touched something before it and after it is tested on the first thing after it. With time: "
    "the device gives later interactions more weight when it recommends, and sends nothing."
)


@dataclass(frozen=True)
class Row:
    """One method of the table."""

    label: str
    build: Callable[[SplitRule], Family]
    """Returns the family for a split rule."""
    paper_label: str | None = None
    """Name of the row in the paper's table; None if that table lacks it."""
    private: bool = False
    method: TrainedMethod | None = None
    reports: int | None = None


class Table5(Experiment):
    """Quality and privacy cost of every method on the whole data set (the paper's Table 5)."""

    name = "table5"
    title = "Table 5: all methods on the full set"
    figure_size = (8.0, 6.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells of the paper's table, and those of the table of all splits."""
        # The paper's table has the first split only. The other table compares all splits.
        first, *further = self._list_splits()
        paper_families = [row.build(first) for row in self._list_rows(self.grid.full_reports)]
        time_rows = self._list_rows(self._get_usual_reports())
        time_families = [row.build(split) for split in further for row in time_rows]
        return self.grid.list_cells([*paper_families, *time_families])

    def build_tables(self) -> list[Table]:
        """Build the paper's table, and one that compares rules for leaving out interactions."""
        return [self._build_paper_table(), self._build_time_table()]

    def _build_paper_table(self) -> Table:
        split, rows, records = self._list_splits()[0], [], []
        for row in self._list_rows(self.grid.full_reports):
            paper_numbers = TABLE5.get(row.paper_label or "", (None, None, None))
            family = row.build(split)
            intervals = {n: self.reader.read_interval(family, f"hr@{n}") for n in LIST_LENGTHS}
            spent = self.reader.read_budget(family)
            for n, interval in intervals.items():
                records += make_records(interval, method=row.label, metric=f"hr@{n}", **spent)
            local = format_budget(spent["local"]) if row.private else "none"
            rows.append(
                (
                    row.label, *(format_number(value) for value in paper_numbers),
                    *(format_interval(interval) for interval in intervals.values()),
                    local, format_budget(spent["central"]),
                )
            )  # fmt: skip
        headings = (
            "method", *(f"paper HR@{n}" for n in LIST_LENGTHS), *(f"HR@{n}" for n in LIST_LENGTHS),
            "local budget", "central budget",
        )  # fmt: skip
        title = (
            f"{self.title}: {self.grid.format_users(self.grid.full)} users, {split} interaction "
            f"left out, eps {PAPER_EPSILON:g}, {self.grid.epochs} epochs"
        )
        notes = [*self._list_notes(), *self._summarize_contests()]
        return Table(self.name, title, headings, rows, records, notes)

    def _build_time_table(self) -> Table:
        """Build the table of HR@10 by rule, without and with the order known on the device."""
        splits, rows, records = self._list_splits(), [], []
        for row in self._list_rows(self._get_usual_reports()):
            numbers: list[str] = []
            for split in splits:
                family = row.build(split)
                intervals = {
                    "alone": self.reader.read_interval(family),
                    "time": self.reader.read_side_interval(family, "time"),
                }
                for kind, interval in intervals.items():
                    records += make_records(interval, method=row.label, split=split, known=kind)
                    numbers.append(format_interval(interval))
            rows.append((row.label, *numbers))
        headings = (
            "method", *(f"{split}{more}" for split in splits for more in ("", ", with time"))
        )  # fmt: skip
        title = f"{self.title}: HR@10 by what is left out"
        return Table(f"{self.name}-time", title, headings, rows, records, [TIME_NOTE])

    def draw(self, figure: Figure) -> None:
        """Draw HR@10 of every method next to the paper's."""
        rows, split = self._list_rows(self.grid.full_reports), self._list_splits()[0]
        series: dict[str, list[Interval | float | None]] = {
            "here": [self.reader.read_interval(row.build(split)) for row in rows],
            "paper (ML-20M)": [
                TABLE5[row.paper_label][-1] if row.paper_label else None for row in rows
            ],
        }
        axes = figure.subplots()
        draw_bars(axes, [row.label for row in rows], series, BAR_COLOURS)
        axes.set(xlabel="HR@10")
        axes.legend(loc="lower right", fontsize=8)

    def _get_usual_reports(self) -> tuple[int, ...]:
        """Return the number of reports of rows that are shown for one number only, as a tuple."""
        return self.grid.full_reports[:1]

    def _list_rows(self, report_counts: tuple[int, ...]) -> list[Row]:
        rows = [
            Row("Random", self._build_random, "Random"),
            Row("Popularity", partial(self._add_time, self.grid.build_popularity)),
            Row("MF-NP", partial(self._add_time, self.grid.build_mf), "MF-NP"),
            Row("FCF (federated, not private)", partial(self.grid.build_fcf, self.grid.full)),
            Row(
                f"DPLCF, {PAPER_EPSILON:g} an item",
                partial(self._build_dplcf, PAPER_EPSILON),
                "DPLCF",
                private=True,
            ),
        ]
        for k in report_counts:
            rows += self._list_rows_with_reports(k)
        return rows

    def _list_rows_with_reports(self, k: int) -> list[Row]:
        """Return the rows of methods with the local budget of `k` reports in an epoch."""
        # DPLCF randomises every item of the catalogue, so its budget is its epsilon for one item
        # times the number of items.
        item_epsilon = k * PAPER_EPSILON * self.grid.epochs / self.grid.about.items
        rows = [
            Row(f"DPLCF, budget of k {k}", partial(self._build_dplcf, item_epsilon), private=True),
            Row(
                f"private popularity, budget of k {k}",
                partial(self._build_private_popularity, k * self.grid.epochs),
                private=True,
            ),
        ]
        # Other numbers of reports are shown for the compared methods only.
        is_usual = k in self._get_usual_reports()
        for method in TRAINED_METHODS if is_usual else COMPARED_METHODS:
            label = METHOD_LABELS[method]
            paper_label = f"FMF-LDP-{k}" if method == "paper" else None
            rows.append(
                Row(
                    f"FMF-LDP ({label}), k {k}" if method in PAPER_METHODS else f"{label}, k {k}",
                    partial(self._build_training, method, k),
                    paper_label if paper_label in TABLE5 else None,
                    private=True,
                    method=method,
                    reports=k,
                )
            )
        if is_usual:
            build = partial(self._build_training, "loudest", k, factors=PAPER_FACTORS)
            rows.append(Row(f"loudest, {PAPER_FACTORS} factors, k {k}", build, private=True))
        return rows

    def _build_random(self, split: SplitRule) -> Family:
        full = self.grid.full
        return lambda seed: Cell.from_parameters("random", full, seed, split=split)

    def _add_time(self, build: Callable[..., Family], split: SplitRule) -> Family:
        return add_side_information(build(self.grid.full, split), "time")

    def _build_training(
        self, method: TrainedMethod, k: int, split: SplitRule, factors: int | None = None
    ) -> Family:
        training = self.grid.build_training(
            method, self.grid.full, PAPER_EPSILON, k, split=split, factors=factors
        )
        return add_side_information(training, "time")

    def _build_private_popularity(self, reports: int, split: SplitRule) -> Family:
        return lambda seed: Cell.from_parameters(
            "private-popularity",
            self.grid.full,
            seed,
            split=split,
            epsilon=PAPER_EPSILON,
            reports=reports,
        )

    def _build_dplcf(self, epsilon: float, split: SplitRule) -> Family:
        return add_side_information(self.grid.build_dplcf(self.grid.full, epsilon, split), "time")

    def _list_splits(self) -> list[SplitRule]:
        # The paper leaves out the latest interaction, which is not known without timestamps.
        return ["latest", "date"] if self.grid.about.timestamps else ["random"]

    def _list_notes(self) -> list[str]:
        users, items = self.grid.people, self.grid.about.items
        budgets = (
            "Budgets are of one person, for the whole training. Local: reports can be traced to "
            f"them. Central: an honest proxy shuffles {users:,} people, delta "
            f"{compute_delta(users):g}; given where this project has the analysis."
        )
        dplcf = (
            f"DPLCF randomises each of {items:,} items, so its budget is that many times its "
            "epsilon; `budget of k` gives it the same local budget as the trainings with that k."
        )
        return [budgets, dplcf]

    def _summarize_contests(self) -> list[str]:
        split, contests = self._list_splits()[0], []
        rows = self._list_rows(self.grid.full_reports)
        for k in self.grid.full_reports:
            families = {
                row.method: row.build(split) for row in rows if row.method and row.reports == k
            }
            contests += list_contests(self.reader, families, f"k {k}")
        return summarize_contests(contests)
