"""Figure 3: learning curves, for two sizes of the crowd and two numbers of reports."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce_lab.paper import published
from sottovoce_lab.paper.cells import COMPARED, Cell, Trained
from sottovoce_lab.paper.scale import EPSILON, Family, Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import COLOURS, crowd_panels, level, lines
from sottovoce_lab.paper.tables import NAMES, Reader, Table, number, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "fig3"
TITLE = "Figure 3: learning curves"
SHOWN = (1, 10, 20, 30)
"""Epochs that are in the table; all are in its CSV and JSON files."""


def cells(scale: Scale) -> list[Cell]:
    """Every training with every epoch evaluated, and what it is to be read against."""
    families = [
        _family(scale, method, users, k)
        for users, k in product(scale.curve_users, scale.curve_reports)
        for method in COMPARED
    ]
    for users in scale.curve_users:
        families += [scale.ceiling(scale.small(users)), scale.popularity(scale.small(users))]
    return scale.all_of(families)


def tables(scale: Scale, store: CellStore) -> list[Table]:
    """A row for each crowd, k and method; the paper's numbers are read off its description."""
    reader = Reader(store, scale)
    rows, records = [], []
    epochs = _shown(scale)
    for users, k in product(scale.curve_users, scale.curve_reports):
        said = published.FIG3.get((users, k), {}) if scale.curve_epochs == 30 else {}
        where = (f"{users:,}", str(k))
        rows.append((*where, "paper", *(number(said.get(epoch), 2) for epoch in epochs)))
        for method in COMPARED:
            family = _family(scale, method, users, k)
            curve = {
                epoch: reader.interval(family, epoch=epoch)
                for epoch in range(1, scale.curve_epochs + 1)
            }
            rows.append((*where, NAMES[method], *(shown(curve[epoch]) for epoch in epochs)))
            about = {"users": users, "reports": k, "method": method}
            for epoch, interval in curve.items():
                records += record(interval, **about, epoch=epoch)
        for name, family in _levels(scale, users).items():
            found = reader.interval(family)
            rows.append((*where, name, *([""] * (len(epochs) - 1)), shown(found)))
            records += record(found, users=users, reports=k, method=name)
    headings = ("users", "k", "method", *(f"epoch {epoch}" for epoch in epochs))
    title = f"{TITLE}: HR@10, eps {EPSILON:g}, {scale.smallest_items or 'all'} items"
    note = "The paper's row is what the description of its picture says, roughly."
    return [Table(NAME, title, headings, rows, records, [note])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader = Reader(store, scale)

    def draw_panel(axes: Any, users: int, k: int) -> None:
        for method in COMPARED:
            family = _family(scale, method, users, k)
            points = [
                (float(epoch), reader.interval(family, epoch=epoch))
                for epoch in range(1, scale.curve_epochs + 1)
            ]
            lines(axes, points, NAMES[method], COLOURS[method])
        for name, family in _levels(scale, users).items():
            level(axes, reader.interval(family), name)
        said = published.FIG3.get((users, k), {})
        axes.plot(list(said), list(said.values()), "x", color="black", label="paper (ML-20M)")

    crowd_panels(figure, scale.curve_users, scale.curve_reports, "epoch", draw_panel)


def _family(scale: Scale, method: Trained, users: int, k: int) -> Family:
    return scale.trained(
        method, scale.small(users), EPSILON, k, epochs=scale.curve_epochs, curve=True
    )


def _levels(scale: Scale, users: int) -> dict[str, Family]:
    size = scale.small(users)
    return {"MF-NP": scale.ceiling(size), "popularity": scale.popularity(size)}


def _shown(scale: Scale) -> list[int]:
    kept = [epoch for epoch in SHOWN if epoch < scale.curve_epochs]
    return [*kept, scale.curve_epochs]
