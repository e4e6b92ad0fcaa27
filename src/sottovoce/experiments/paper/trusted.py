"""DP-ALS: what a trusted party reaches with a central budget. Not in the paper."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sottovoce.baselines.trusted_settings import TrustedSettings
from sottovoce.experiments.paper.cells import Cell, Size
from sottovoce.experiments.paper.style import COLOURS, level, lines
from sottovoce.experiments.paper.tables import NAMES, Reader, Table, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sottovoce.data.split import SplitRule
    from sottovoce.experiments.paper.scale import Family, Scale
    from sottovoce.experiments.paper.store import CellStore

NAME = "trusted"
TITLE = "A trusted party with a central budget"
FULL = Size()
PROMISE = (
    "DP-ALS (Chien et al. 2021): one party holds everybody's history, so nothing is promised "
    "against it, and no local budget can be named. Central: a history is replaced, delta 1e-6, as "
    "for all other methods; beside it the same noise where somebody is added or removed."
)


def cells(scale: Scale) -> list[Cell]:
    return scale.all_of(
        family
        for split in scale.splits
        for family in (
            scale.popularity(FULL, split),
            *(family_of(scale, epsilon, split) for epsilon in scale.central),
        )
    )


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader, splits = Reader(store, scale), scale.splits
    rows, records = [], []
    for epsilon in scale.central:
        settings = _settings(scale, epsilon)
        about = {
            "central": epsilon,
            "add_remove": settings.add_remove_epsilon,
            "factors": settings.factors,
        }
        found = [reader.interval(family_of(scale, epsilon, split)) for split in splits]
        for split, interval in zip(splits, found, strict=True):
            records += record(interval, **about, split=split)
        rows.append((*(f"{value:.3g}" for value in about.values()), *map(shown, found)))
    known = [shown(reader.interval(scale.popularity(FULL, split))) for split in splits]
    rows.append(("popularity, not private", "", "", *known))
    headings = (
        "central budget", "added or removed", "factors", *(f"HR@10, {split}" for split in splits)
    )  # fmt: skip
    return [Table(NAME, TITLE, headings, rows, records, [PROMISE])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, splits = Reader(store, scale), scale.splits
    panels = figure.subplots(1, len(splits), sharey=True, squeeze=False)[0]
    for axes, split in zip(panels, splits, strict=True):
        points = [
            (epsilon, reader.interval(family_of(scale, epsilon, split)))
            for epsilon in scale.central
        ]
        lines(axes, points, NAMES["dp-als"], COLOURS["dp-als"])
        level(axes, reader.interval(scale.popularity(FULL, split)), "popularity")
        axes.set(xscale="log", xlabel="central budget (epsilon)", title=f"{split} left out")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("HR@10")
    panels[0].legend(fontsize=8)


def _settings(scale: Scale, epsilon: float) -> TrustedSettings:
    return TrustedSettings.by_rule(epsilon, people=scale.about.users, items=scale.about.items)


def family_of(scale: Scale, epsilon: float, split: SplitRule) -> Family:
    settings = asdict(_settings(scale, epsilon))
    return lambda seed: Cell.make("dp-als", FULL, seed, split=split, **settings)
