"""Communication: bytes of one client in one epoch, beside the paper's section 5.3."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce_lab.paper import published
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import bars
from sottovoce_lab.paper.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "cost"
TITLE = "Communication of one client"
FACTORS = 5
NOTE = (
    "Lengths of the real encodings. Down in every epoch: model file and signed manifest; the "
    "catalogue once. Up: one batch, every report sealed alone (52 bytes each); the paper counts "
    "reports of 4 bytes that nobody has sealed. HTTP's headers are not counted."
)


def cells(scale: Scale) -> list[Cell]:
    """Nothing random: one of each."""
    return [
        Cell.make("cost", Size(None, items), 0, reports=k, factors=FACTORS)
        for items, k in _grid(scale)
    ]


def tables(scale: Scale, store: CellStore) -> list[Table]:
    found = _found(scale, store)
    rows = []
    for k, counted in found:
        down = published.DOWN.get(counted["items"])
        rows.append(
            (
                f"{counted['items']:,}", str(k),
                "-" if down is None else f"~{down:,}",
                f"{counted['model'] + counted['manifest']:,}",
                f"{counted['catalogue_once']:,}", f"~{published.BYTES_PER_REPORT * k:,}",
                f"{counted['reports_unsealed']:,}", f"{counted['batch_sealed']:,}",
            )
        )  # fmt: skip
    headings = (
        "items", "k", "paper: down", "down", "catalogue, once", "paper: up", "reports, unsealed",
        "up, sealed",
    )  # fmt: skip
    records = [counted for _, counted in found]
    return [Table(NAME, f"{TITLE}: bytes in one epoch", headings, rows, records, [NOTE])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    found = _found(scale, store)
    series = {
        "down": [float(counted["model"] + counted["manifest"]) for _, counted in found],
        "up, sealed": [float(counted["batch_sealed"]) for _, counted in found],
        "reports, unsealed": [float(counted["reports_unsealed"]) for _, counted in found],
    }
    axes = figure.subplots()
    labels = [f"{counted['items']:,} items, k {k}" for k, counted in found]
    bars(axes, labels, series, ["#1b6ca8", "#4f9d69", "#cccccc"])
    axes.set(xscale="log", xlabel="bytes of one client in one epoch")
    axes.legend(fontsize=8)


def _grid(scale: Scale) -> list[tuple[int | None, int]]:
    items = dict.fromkeys((scale.items[0], scale.items[-1]))
    return list(product(items, scale.full_reports))


def _found(scale: Scale, store: CellStore) -> list[tuple[int, dict[str, Any]]]:
    return [
        (k, result)
        for (_, k), cell in zip(_grid(scale), cells(scale), strict=True)
        if (result := store.get(cell)) is not None
    ]
