"""What devices know for free, tags and time, and what it is worth to every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.data.split import SplitRule
from sottovoce.simulation.evaluation import Interval
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell, Size, Way
from sottovoce_lab.paper.scale import EPSILON, Family, Scale, knowing
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import bars
from sottovoce_lab.paper.tables import Reader, Table, budget, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "known"
TITLE = "What devices know for free"
FULL = Size()
WAYS: dict[Way, str] = {"tags": "with tags", "time": "with time", "both": "with both"}
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
    return {way: reader.known(row.family, way) if way in _ways(row.split) else None for way in WAYS}


def _ways(split: SplitRule) -> tuple[Way, ...]:
    """A random item is of any time: there the order says nothing."""
    return ("tags",) if split == "random" else tuple(WAYS)


def _rows(scale: Scale) -> list[Row]:
    return [row for split in scale.splits for row in _of_split(scale, split)]


def _of_split(scale: Scale, split: SplitRule) -> list[Row]:
    k = scale.full_reports[0]
    families = {"popularity": scale.popularity(FULL, split), "MF-NP": scale.ceiling(FULL, split)}
    if split != "random":
        families[f"DPLCF, {EPSILON:g} an item"] = scale.dplcf(FULL, EPSILON, split)
    for local in scale.lifetimes[:2]:
        spend = Budget(local=local)
        families[f"loudest, budget {local:g}"] = scale.planned(FULL, spend, split=split)
    families[f"loudest, k {k}"] = scale.trained("loudest", FULL, EPSILON, k, split=split)
    return [Row(label, split, knowing(family, *_ways(split))) for label, family in families.items()]
