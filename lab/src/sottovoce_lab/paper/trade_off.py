"""Figure 2: HR@10 by budget of a report and number of reports, for three sizes of the crowd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sottovoce_lab.paper import published
from sottovoce_lab.paper.cells import COMPARED, Cell, Size
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import COLOURS, crowd_panels, level, lines
from sottovoce_lab.paper.tables import (
    NAMES,
    Reader,
    Table,
    budget,
    compare,
    number,
    shown,
    signed,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "fig2"
TITLE = "Figure 2: privacy and utility"


def cells(scale: Scale) -> list[Cell]:
    families = [family for cell in _grid(scale) for family in scale.all_trained(*cell).values()]
    families += [scale.popularity(scale.small(users)) for users in scale.users]
    return scale.all_of(families)


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    rows, records, won = [], [], []
    for size, epsilon, k in _grid(scale):
        where = f"{size.users:,} users, eps {epsilon:g}, k {k}"
        about = {"users": size.users, "items": size.items, "epsilon": epsilon, "reports": k}
        found = compare(reader, scale.all_trained(size, epsilon, k), where, **about)
        records += found.records
        won += found.contests
        known = (epsilon, k, scale.epochs) == (2.5, 100, 20)
        said = published.TABLE4.get((size.users or 0, size.items)) if known else None
        rows.append(
            (
                f"{size.users:,}", f"{epsilon:g}", str(k), budget(epsilon * k * scale.epochs),
                number(said), *found.shown(), signed(found.gain),
                shown(reader.interval(scale.popularity(size))),
            )
        )  # fmt: skip
    headings = (
        "users", "eps", "k", "local budget", "paper", *(NAMES[method] for method in COMPARED),
        "loudest - preset paper", "popularity",
    )  # fmt: skip
    title = f"{TITLE}: HR@10 after {scale.epochs} epochs, {_items(scale)}"
    return [Table(NAME, title, headings, rows, records, [published.FIG2_WORDS, *verdict(won)])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader = Reader(store, scale)

    def draw_panel(axes: Any, users: int, k: int) -> None:
        size = scale.small(users)
        for method in COMPARED:
            points = [
                (epsilon, reader.interval(scale.trained(method, size, epsilon, k)))
                for epsilon in scale.epsilons
            ]
            lines(axes, points, NAMES[method], COLOURS[method])
        level(axes, reader.interval(scale.popularity(size)), "popularity")
        axes.set(xscale="log")
        axes.set_xticks(scale.epsilons, [f"{epsilon:g}" for epsilon in scale.epsilons])
        axes.set_xticks([], minor=True)

    crowd_panels(figure, scale.users, scale.reports, "epsilon of one report", draw_panel)


def _grid(scale: Scale) -> Iterator[tuple[Size, float, int]]:
    for users in scale.users:
        for epsilon in scale.epsilons:
            for k in scale.reports:
                yield scale.small(users), epsilon, k


def _items(scale: Scale) -> str:
    return "all items" if scale.smallest_items is None else f"{scale.smallest_items:,} items"
