"""What devices know for free, tags and time, and what it is worth to every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.experiments.paper.cells import Size
from sottovoce.experiments.paper.scale import EPSILON, knowing
from sottovoce.experiments.paper.style import bars
from sottovoce.experiments.paper.tables import Reader, Table, budget, record, shown
from sottovoce.training import Budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sottovoce.data.split import SplitRule
    from sottovoce.evaluation import Interval
    from sottovoce.experiments.paper.cells import Cell
    from sottovoce.experiments.paper.scale import Family, Scale
    from sottovoce.experiments.paper.store import CellStore

NAME = "known"
TITLE = "What devices know for free"
FULL = Size()
WAYS = {"tags": "with tags", "time": "with time", "both": "with both"}
COLOURS = ["#aaaaaa", "#1b6ca8", "#dd9c6b", "#2a7d4f"]
NOTE = (
    "Tags (genres, years) and the order of a history are used on the device when it recommends; "
    "nothing of them is sent, and budgets are the same in a row. A random item is of any time, so "
    "that the order says nothing about it. DPLCF has no vectors that tags could stand beside."
)


@dataclass(frozen=True)
class Row:
    label: str
    split: SplitRule
    family: Family


def cells(scale: Scale) -> list[Cell]:
    return scale.all_of(row.family for row in _rows(scale))


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader, rows, records = Reader(store, scale), [], []
    for row in _rows(scale):
        spent = reader.budget(row.family)
        found = {"alone": reader.interval(row.family), **_known(reader, row)}
        for way, interval in found.items():
            records += record(interval, method=row.label, split=row.split, known=way, **spent)
        rows.append(
            (row.label, row.split, *(shown(each) for each in found.values()),
             budget(spent["local"]), budget(spent["central"]))
        )  # fmt: skip
    headings = ("method", "left out", "alone", *WAYS.values(), "local budget", "central budget")
    return [Table(NAME, f"{TITLE}: HR@10", headings, rows, records, [NOTE])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, rows = Reader(store, scale), _rows(scale)
    found = [{"alone": reader.interval(row.family), **_known(reader, row)} for row in rows]
    series = {
        way: [None if (known := each[way]) is None else known.mean for each in found]
        for way in ("alone", *WAYS)
    }
    axes = figure.subplots()
    bars(axes, [f"{row.label}, {row.split}" for row in rows], series, COLOURS)
    axes.set(xlabel="HR@10")
    axes.legend(loc="lower right", fontsize=8)


def _known(reader: Reader, row: Row) -> dict[str, Interval | None]:
    """A random item is of any time: there the order is not asked."""
    return {
        way: None if row.split == "random" and way != "tags" else reader.known(row.family, way)
        for way in WAYS
    }


def _rows(scale: Scale) -> list[Row]:
    return [row for split in scale.splits for row in _of_split(scale, split)]


def _of_split(scale: Scale, split: SplitRule) -> list[Row]:
    found = [
        Row("popularity", split, knowing(scale.popularity(FULL, split))),
        Row("MF-NP", split, knowing(scale.ceiling(FULL, split))),
    ]
    if split != "random":
        dplcf = knowing(scale.dplcf(FULL, EPSILON, split))
        found.append(Row(f"DPLCF, {EPSILON:g} an item", split, dplcf))
    usual = scale.trained("loudest", FULL, EPSILON, scale.full_reports[0], split=split)
    found += [
        Row(
            f"loudest, budget {local:g}",
            split,
            knowing(scale.planned(FULL, Budget(local=local), split=split)),
        )
        for local in scale.lifetimes[:2]
    ]
    return [*found, Row(f"loudest, k {scale.full_reports[0]}", split, knowing(usual))]
