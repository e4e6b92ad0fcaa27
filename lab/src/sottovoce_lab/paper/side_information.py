"""The gain of every method from tags and time on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.data.split import SplitRule
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell, SideKind
from sottovoce_lab.paper.grid import PAPER_EPSILON, Family, add_side_information
from sottovoce_lab.paper.plots import draw_bars
from sottovoce_lab.paper.tables import (
    Experiment,
    Table,
    format_budget,
    format_interval,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SIDE_LABELS: dict[SideKind, str] = {"tags": "with tags", "time": "with time", "both": "with both"}
BAR_COLOURS = ["#aaaaaa", "#1b6ca8", "#dd9c6b", "#2a7d4f"]
SIDE_NOTE = (
    "Tags (genres, years) and the order of a history are used on the device when it recommends; "
    "nothing of them is sent, and budgets are the same in a row. A random item is of any time, so "
    "that the order says nothing about it. DPLCF has no vectors to which tags could be added."
)


@dataclass(frozen=True)
class Row:
    """One method with one rule by which an interaction is left out."""

    label: str
    family: Family
    split: SplitRule


def _list_kinds(split: SplitRule) -> tuple[SideKind, ...]:
    # A randomly drawn test item may be from any time, so the order says nothing about it.
    return ("tags",) if split == "random" else tuple(SIDE_LABELS)


class SideInformationExperiment(Experiment):
    """Gain of every method from tags and from the order of histories, known on the device."""

    name = "known"
    title = "What devices know for free"
    figure_size = (9.0, 5.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all methods and splits."""
        return self.grid.list_cells(row.family for row in self._list_rows())

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each method and split."""
        rows, records = [], []
        for row in self._list_rows():
            spent, intervals = self.reader.read_budget(row.family), self._read_intervals(row)
            for kind, interval in intervals.items():
                records += make_records(
                    interval, method=row.label, split=row.split, known=kind, **spent
                )
            rows.append(
                (row.label, row.split, *map(format_interval, intervals.values()),
                 format_budget(spent["local"]), format_budget(spent["central"]))
            )  # fmt: skip
        labels = SIDE_LABELS.values()
        headings = ("method", "left out", "alone", *labels, "local budget", "central budget")
        return [Table(self.name, f"{self.title}: HR@10", headings, rows, records, [SIDE_NOTE])]

    def draw(self, figure: Figure) -> None:
        """Draw a bar for each row and kind of side information."""
        rows = self._list_rows()
        intervals = [self._read_intervals(row) for row in rows]
        series = {
            kind: [by_kind[kind] for by_kind in intervals] for kind in ("alone", *SIDE_LABELS)
        }
        axes = figure.subplots()
        draw_bars(axes, [f"{row.label}, {row.split}" for row in rows], series, BAR_COLOURS)
        axes.set(xlabel="HR@10")
        axes.legend(loc="lower right", fontsize=8)

    def _read_intervals(self, row: Row) -> dict[str, Interval | None]:
        """Return the intervals without and with each kind of side information."""
        intervals: dict[str, Interval | None] = dict.fromkeys(("alone", *SIDE_LABELS))
        intervals["alone"] = self.reader.read_interval(row.family)
        for kind in _list_kinds(row.split):
            intervals[kind] = self.reader.read_side_interval(row.family, kind)
        return intervals

    def _list_rows(self) -> list[Row]:
        return [
            Row(label, add_side_information(family, *_list_kinds(split)), split)
            for split in self.grid.splits
            for label, family in self._build_families(split).items()
        ]

    def _build_families(self, split: SplitRule) -> dict[str, Family]:
        k, full = self.grid.full_reports[0], self.grid.full
        families = {
            "popularity": self.grid.build_popularity(full, split),
            "MF-NP": self.grid.build_mf(full, split),
        }
        # DPLCF can use the order, but no tags.
        if split != "random":
            families[f"DPLCF, {PAPER_EPSILON:g} an item"] = self.grid.build_dplcf(
                full, PAPER_EPSILON, split
            )
        for local in self.grid.local_budgets[:2]:
            families[f"loudest, budget {local:g}"] = self.grid.build_for_budget(
                full, Budget(local=local), split=split
            )
        families[f"loudest, k {k}"] = self.grid.build_training(
            "loudest", full, PAPER_EPSILON, k, split=split
        )
        return families
