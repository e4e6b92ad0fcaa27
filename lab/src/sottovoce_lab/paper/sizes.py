"""Table 4: nine subsets, three numbers of users and three of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce_lab.paper import published
from sottovoce_lab.paper.cells import COMPARED, Cell, Size
from sottovoce_lab.paper.scale import EPSILON, Family, Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import COLOURS, bars
from sottovoce_lab.paper.tables import NAMES, Reader, Table, compare, number, signed, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "table4"
TITLE = "Table 4: users and items"


def cells(scale: Scale) -> list[Cell]:
    return scale.all_of(
        family for size in _sizes(scale) for family in _families(scale, size).values()
    )


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    rows, records, won = [], [], []
    for size in _sizes(scale):
        items = size.items or scale.about.items
        where = f"{size.users:,} x {items:,}"
        found = compare(reader, _families(scale, size), where, users=size.users, items=items)
        records += found.records
        won += found.contests
        said = published.TABLE4.get((size.users or 0, size.items))
        rows.append(
            (
                f"{size.users:,}", f"{items:,}", number(said), *found.shown(),
                signed(found.gain), *found.shown(("mf", "popularity")),
            )
        )  # fmt: skip
    headings = (
        "users", "items", "paper", *(NAMES[method] for method in COMPARED),
        "loudest - preset paper", "MF-NP", "popularity",
    )  # fmt: skip
    how = f"eps {EPSILON:g}, k {scale.table4_reports}, {scale.epochs} epochs"
    return [Table(NAME, f"{TITLE}: HR@10, {how}", headings, rows, records, verdict(won))]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, sizes = Reader(store, scale), _sizes(scale)
    series = {}
    for name in (*COMPARED, "mf", "popularity"):
        found = [reader.interval(_families(scale, size)[name]) for size in sizes]
        series[NAMES[name]] = [None if each is None else each.mean for each in found]
    axes = figure.subplots()
    labels = [f"{size.users:,} x {size.items or scale.about.items:,}" for size in sizes]
    bars(axes, labels, series, [COLOURS[name] for name in (*COMPARED, "mf", "popularity")])
    axes.set(xlabel="HR@10", ylabel="users x items")
    axes.legend(loc="lower right", fontsize=8)


def _sizes(scale: Scale) -> list[Size]:
    return [Size(users, items) for users in scale.users for items in scale.items]


def _families(scale: Scale, size: Size) -> dict[str, Family]:
    trained = scale.all_trained(size, EPSILON, scale.table4_reports)
    return {**trained, "mf": scale.ceiling(size), "popularity": scale.popularity(size)}
