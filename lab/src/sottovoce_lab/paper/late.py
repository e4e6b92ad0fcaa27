"""People who never reported: what the published model is worth to a device that comes late."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sottovoce.simulation.evaluation import Interval
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.measures import how_many_late
from sottovoce_lab.paper.scale import EPSILON, Family, Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import bars
from sottovoce_lab.paper.tables import NAMES, Reader, Table, budget, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "late"
TITLE = "People who never reported"
FULL = Size()
METRICS = {"recall@20": "Recall@20", "recall@50": "Recall@50", "ndcg@100": "NDCG@100"}
DRAWN = ("recall@20", "ndcg@100")
WAYS = {"alone": "", "tags": ", tags"}
COLOURS = ["#1b6ca8", "#dd9c6b"]
CENTRAL = 1.0
"""Budget of the trusted party."""


@dataclass(frozen=True)
class Row:
    label: str
    family: Family


def cells(scale: Scale) -> list[Cell]:
    return scale.all_of(row.family for row in _rows(scale))


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader, rows, records = Reader(store, scale), [], []
    for row in _rows(scale):
        spent, found = reader.budget(row.family), _found(reader, row.family)
        for (way, metric), interval in found.items():
            records += record(interval, method=row.label, known=way, metric=metric, **spent)
        spending = budget(spent["local"]), budget(spent["central"])
        rows.append((row.label, *map(shown, found.values()), *spending))
    numbers = [f"{name}{said}" for said in WAYS.values() for name in METRICS.values()]
    headings = ("method", *numbers, "local budget", "central budget")
    return [Table(NAME, TITLE, headings, rows, records, [_note(scale)])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, rows = Reader(store, scale), _rows(scale)
    found = [_found(reader, row.family) for row in rows]
    panels = figure.subplots(1, len(DRAWN), sharey=True)
    for axes, metric in zip(panels, DRAWN, strict=True):
        series = {
            name: [None if (known := each[way, metric]) is None else known.mean for each in found]
            for way, name in (("alone", "without tags"), ("tags", "with tags"))
        }
        bars(axes, [row.label for row in rows], series, COLOURS)
        axes.set(xlabel=METRICS[metric])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    panels[-1].invert_yaxis()  # both panels share the axis, and each call turned it


def _found(reader: Reader, family: Family) -> dict[tuple[str, str], Interval | None]:
    """By what devices know, and by metric."""
    return {
        (way, metric): reader.interval(family, metric)
        if way == "alone"
        else reader.known(family, way, metric)
        for way in WAYS
        for metric in METRICS
    }


def _rows(scale: Scale) -> list[Row]:
    """Settings are for those who report: all but the late."""
    users = scale.about.users
    fewer = replace(scale, about=replace(scale.about, users=users - how_many_late(users)))
    k = fewer.full_reports[0]
    trained = {
        f"{NAMES['paper']}, k {k}": fewer.trained("paper", FULL, EPSILON, k),
        f"loudest, k {k}": fewer.trained("loudest", FULL, EPSILON, k),
    }
    families = {
        "popularity": fewer.popularity(FULL),
        "MF-NP": fewer.ceiling(FULL),
        "FCF": fewer.fcf(FULL),
        f"DP-ALS, central {CENTRAL:g}": fewer.trusted(FULL, CENTRAL),
        **trained,
        **{
            f"loudest, budget {local:g}": fewer.planned(FULL, Budget(local=local))
            for local in fewer.lifetimes[:2]
        },
    }
    return [Row(label, _late(family)) for label, family in families.items()]


def _late(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="late")


def _note(scale: Scale) -> str:
    late = how_many_late(scale.about.users)
    return (
        f"{late:,} people, drawn by the seed, are in no training. A device that has 80% of its "
        "history solves its vector for the published model and ranks the whole catalogue without "
        "what it has, to find the other 20%. It sends nothing: budgets are of the "
        f"{scale.about.users - late:,} others. Recall@k is divided by min(k, hidden items), "
        "NDCG@100 by the best possible."
    )
