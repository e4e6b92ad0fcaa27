"""Figure 3: learning curves, for two sizes of the crowd and two numbers of reports."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce.experiments.paper import published
from sottovoce.experiments.paper.cells import TRAINED, Size
from sottovoce.experiments.paper.scale import EPSILON
from sottovoce.experiments.paper.style import COLOURS, level, lines
from sottovoce.experiments.paper.tables import NAMES, Reader, Table, number, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sottovoce.experiments.paper.cells import Cell, Trained
    from sottovoce.experiments.paper.scale import Family, Scale
    from sottovoce.experiments.paper.store import CellStore

NAME = "fig3"
TITLE = "Figure 3: learning curves"
SHOWN = (1, 10, 20, 30)
"""Epochs that are in the table; all are in its CSV and JSON files."""


def cells(scale: Scale) -> list[Cell]:
    """Every training with every epoch evaluated, and what it is to be read against."""
    families = [
        _family(scale, method, users, k)
        for users, k in product(scale.curve_users, scale.curve_reports)
        for method in TRAINED
    ]
    for users in scale.curve_users:
        families += [scale.ceiling(_size(scale, users)), scale.popularity(_size(scale, users))]
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
        for method in TRAINED:
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
    """A panel for each crowd and k."""
    reader = Reader(store, scale)
    grid: Any = figure.subplots(
        len(scale.curve_reports), len(scale.curve_users), sharex=True, sharey=True, squeeze=False
    )
    for row, k in zip(grid, scale.curve_reports, strict=True):
        for axes, users in zip(row, scale.curve_users, strict=True):
            for method in TRAINED:
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
            axes.set_title(f"{users:,} users, k {k}", fontsize=9)
            axes.set(ylim=(0, 0.85))
            axes.grid(alpha=0.3)
    figure.supxlabel("epoch")
    figure.supylabel("HR@10")
    handles = grid[-1][-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper")


def _family(scale: Scale, method: Trained, users: int, k: int) -> Family:
    return scale.trained(
        method, _size(scale, users), EPSILON, k, epochs=scale.curve_epochs, curve=True
    )


def _levels(scale: Scale, users: int) -> dict[str, Family]:
    size = _size(scale, users)
    return {"MF-NP": scale.ceiling(size), "popularity": scale.popularity(size)}


def _size(scale: Scale, users: int) -> Size:
    return Size(users, scale.smallest_items)


def _shown(scale: Scale) -> list[int]:
    kept = [epoch for epoch in SHOWN if epoch < scale.curve_epochs]
    return [*kept, scale.curve_epochs]
