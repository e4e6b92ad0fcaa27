"""Equal budgets: every private method with what a person spends in a lifetime. Not in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell, Method, Size
from sottovoce_lab.paper.options import View
from sottovoce_lab.paper.rules import NAMED_ALS, NAMED_EPSILON
from sottovoce_lab.paper.scale import EPSILON, Family, Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import COLOURS, level, lines
from sottovoce_lab.paper.tables import NAMES, Reader, Table, budget, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "equal"
TITLE = "Equal budgets"
FULL = Size()
NOTES: Mapping[View, str] = {
    "local": (
        "Local: every report can be traced to its sender. DPLCF shares the budget out over all "
        "items, private popularity over signs of about the usual epsilon. By name: each report is "
        "an own item through randomised response over the catalogue; counted, or taken for a "
        "history and factorised. Nothing is trusted."
    ),
    "central": (
        "Central: a history is replaced, delta 1e-6. For ours an honest proxy shuffles everybody's "
        "reports. DP-ALS (Chien et al. 2021): one party holds everybody's history, so nothing is "
        "promised against it; beside it the same noise where somebody is added or removed."
    ),
}


def cells(scale: Scale) -> list[Cell]:
    private = [
        family
        for view, budgets in _budgets(scale).items()
        for value in budgets
        for family in _methods(scale, view, value).values()
    ]
    return scale.all_of([*private, *_known_to_all(scale).values()])


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    return [_table(scale, reader, view) for view in _budgets(scale)]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader = Reader(store, scale)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (view, budgets) in zip(panels, _budgets(scale).items(), strict=True):
        for label, colour in _colours(view).items():
            points = [
                (value, reader.interval(_methods(scale, view, value)[label])) for value in budgets
            ]
            lines(axes, points, label, colour)
        for label, family in _known_to_all(scale).items():
            level(axes, reader.interval(family), label)
        axes.set(xscale="log", xlabel=f"lifetime budget, {view} (epsilon)")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")
    panels[0].set_ylabel("HR@10")


def _budgets(scale: Scale) -> dict[View, tuple[float, ...]]:
    return {"local": scale.lifetimes, "central": scale.central}


def _methods(scale: Scale, view: View, value: float) -> dict[str, Family]:
    if view == "local":
        spend = Budget(local=value)
        return {
            NAMES["loudest"]: scale.planned(FULL, spend),
            "DPLCF": scale.dplcf(FULL, value / scale.about.items),
            NAMES["private-popularity"]: _counted(value),
            NAMES["named-counts"]: _named("named-counts", value),
            NAMES["named-als"]: _named("named-als", value, **NAMED_ALS),
        }
    return {
        NAMES["loudest"]: scale.planned(FULL, Budget(central=value)),
        NAMES["dp-als"]: scale.trusted(FULL, value),
    }


def _counted(local: float) -> Family:
    """Reports of about the usual epsilon."""
    reports = max(1, round(local / EPSILON))
    return lambda seed: Cell.make(
        "private-popularity", FULL, seed, epsilon=local / reports, reports=reports
    )


def _named(method: Method, local: float, **how: float) -> Family:
    """Reports that are true more often than not."""
    reports = max(1, round(local / NAMED_EPSILON))
    return lambda seed: Cell.make(
        method, FULL, seed, epsilon=local / reports, reports=reports, **how
    )


def _known_to_all(scale: Scale) -> dict[str, Family]:
    return {
        "MF-NP": scale.ceiling(FULL),
        "popularity": scale.popularity(FULL),
    }


def _colours(view: View) -> dict[str, str]:
    if view == "central":
        return {NAMES[name]: COLOURS[name] for name in ("loudest", "dp-als")}
    return {
        NAMES["loudest"]: COLOURS["loudest"],
        "DPLCF": COLOURS["dplcf"],
        **{
            NAMES[name]: COLOURS[name]
            for name in ("private-popularity", "named-counts", "named-als")
        },
    }


def _table(scale: Scale, reader: Reader, view: View) -> Table:
    rows, records = [], []
    for value in _budgets(scale)[view]:
        families = _methods(scale, view, value)
        found = {name: reader.interval(family) for name, family in families.items()}
        for name, interval in found.items():
            records += record(interval, view=view, budget=value, method=name)
        beside = []
        if view == "central":
            beside.append(f"{scale.trusted_settings(FULL, value).add_remove_epsilon:.3g}")
        settings = families[NAMES["loudest"]](0).settings
        spent = f"{settings.epsilon:.3g}, {settings.reports}, {settings.turns} ({settings.epochs})"
        rows.append((budget(value), spent, *map(shown, found.values()), *beside))
    against = ", ".join(
        f"{label} {shown(reader.interval(family))}"
        for label, family in _known_to_all(scale).items()
    )
    added = ("DP-ALS, added or removed",) if view == "central" else ()
    headings = (f"{view} budget", "loudest: eps, k, epochs (of)", *_colours(view), *added)
    notes = [NOTES[view], f"Not private: {against}."]
    return Table(f"{NAME}-{view}", f"{TITLE}, {view}: HR@10", headings, rows, records, notes)
