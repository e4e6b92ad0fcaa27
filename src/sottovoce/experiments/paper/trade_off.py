"""Figure 2: HR@10 by budget of a report and number of reports, for three sizes of the crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.experiments.paper import published
from sottovoce.experiments.paper.cells import TRAINED, Size
from sottovoce.experiments.paper.style import COLOURS, level, lines
from sottovoce.experiments.paper.tables import (
    NAMES,
    Reader,
    Table,
    budget,
    contests,
    number,
    record,
    shown,
    signed,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from sottovoce.experiments.paper.cells import Cell
    from sottovoce.experiments.paper.scale import Scale
    from sottovoce.experiments.paper.store import CellStore

NAME = "fig2"
TITLE = "Figure 2: privacy and utility"


def cells(scale: Scale) -> list[Cell]:
    """Every training, and popularity once for each crowd."""
    families = [
        scale.trained(method, size, epsilon, k)
        for size, epsilon, k in _grid(scale)
        for method in TRAINED
    ]
    families += [scale.popularity(_size(scale, users)) for users in scale.users]
    return scale.all_of(families)


def tables(scale: Scale, store: CellStore) -> list[Table]:
    """A row for each crowd, epsilon and k."""
    reader = Reader(store, scale)
    rows, records, won = [], [], []
    for size, epsilon, k in _grid(scale):
        family = {method: scale.trained(method, size, epsilon, k) for method in TRAINED}
        found = {method: reader.interval(family[method]) for method in TRAINED}
        where = {"users": size.users, "items": size.items, "epsilon": epsilon, "reports": k}
        for method in TRAINED:
            records += record(found[method], **where, method=method)
        won += contests(reader, family, f"{size.users:,} users, eps {epsilon:g}, k {k}")
        gain = reader.gain(family["loudest"], family["paper"])
        known = (epsilon, k, scale.epochs) == (2.5, 100, 20)
        said = published.TABLE4.get((size.users or 0, size.items)) if known else None
        rows.append(
            (
                f"{size.users:,}", f"{epsilon:g}", str(k), budget(epsilon * k * scale.epochs),
                number(said), *(shown(found[method]) for method in TRAINED),
                signed(gain), shown(reader.interval(scale.popularity(size))),
            )
        )  # fmt: skip
    headings = (
        "users", "eps", "k", "local budget", "paper", *(NAMES[method] for method in TRAINED),
        "loudest - preset paper", "popularity",
    )  # fmt: skip
    title = f"{TITLE}: HR@10 after {scale.epochs} epochs, {_items(scale)}"
    return [Table(NAME, title, headings, rows, records, [published.FIG2_WORDS, *verdict(won)])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    """A panel for each crowd and k: HR@10 over epsilon."""
    reader = Reader(store, scale)
    panels: Any = figure.subplots(
        len(scale.reports), len(scale.users), sharex=True, sharey=True, squeeze=False
    )
    for row, k in zip(panels, scale.reports, strict=True):
        for axes, users in zip(row, scale.users, strict=True):
            size = _size(scale, users)
            for method in TRAINED:
                points = [
                    (epsilon, reader.interval(scale.trained(method, size, epsilon, k)))
                    for epsilon in scale.epsilons
                ]
                lines(axes, points, NAMES[method], COLOURS[method])
            level(axes, reader.interval(scale.popularity(size)), "popularity")
            axes.set_title(f"{users:,} users, k {k}", fontsize=9)
            axes.set(xscale="log", ylim=(0, 0.85))
            axes.set_xticks(scale.epsilons, [f"{epsilon:g}" for epsilon in scale.epsilons])
            axes.set_xticks([], minor=True)
            axes.grid(alpha=0.3)
    figure.supxlabel("epsilon of one report")
    figure.supylabel("HR@10")
    handles = panels[-1][-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper")


def _grid(scale: Scale) -> Iterator[tuple[Size, float, int]]:
    for users in scale.users:
        for epsilon in scale.epsilons:
            for k in scale.reports:
                yield _size(scale, users), epsilon, k


def _size(scale: Scale, users: int) -> Size:
    return Size(users, scale.smallest_items)


def _items(scale: Scale) -> str:
    return "all items" if scale.smallest_items is None else f"{scale.smallest_items:,} items"
