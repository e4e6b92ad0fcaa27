"""The law: what people, reports, budget and catalogue give together. Not in the paper.

Fitted on some populations and budgets, then checked on others that it has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.experiments.paper.cells import Cell, Size
from sottovoce.experiments.paper.rules import FEW_FACTORS
from sottovoce.experiments.paper.scale import CHOOSING, drawn_with
from sottovoce.experiments.paper.signal import LOWEST, Law, Measured
from sottovoce.experiments.paper.tables import NOTHING, Reader, Table, metric_of, record, shown
from sottovoce.mechanism.loudest import usual_gain
from sottovoce.training import planned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure

    from sottovoce.evaluation import Interval
    from sottovoce.experiments.paper.scale import Family, Scale
    from sottovoce.experiments.paper.store import CellStore

NAME = "law"
TITLE = "The law"
FULL = Size()
CLOSE = 0.01
MANY_FACTORS = 32
ALMOST = 0.95
SEEN, UNSEEN = "fitted", "checked"
DRAWN = (3, 9)
"""Powers of ten of the people that the picture shows."""
LIFETIME = (0.5, 10.0)
"""And of the budgets."""


@dataclass(frozen=True)
class Point:
    """One population with one budget."""

    people: int
    epsilon: float
    reports: int
    kind: str
    once: bool = True
    """Whether a person takes part in one epoch of all, or in every one."""


def cells(scale: Scale) -> list[Cell]:
    possible = [point for point in _points(scale) if point.people <= scale.most_people]
    fitted = [_family(scale, point)(CHOOSING) for point in possible if point.kind == SEEN]
    reported = [_family(scale, point) for point in possible]
    return [*fitted, *scale.all_of([*reported, *_levels(scale).values()])]


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    law = _fitted(scale, store)
    return [_checks(scale, reader, law), _budgets(scale, reader, law)]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, law = Reader(store, scale), _fitted(scale, store)
    axes: Any = figure.subplots()
    axes.set(xscale="log", xlabel="people", ylabel="epsilon of the one report in a lifetime")
    if law is None:
        return
    people = np.logspace(*DRAWN, 120)
    budgets = np.linspace(*LIFETIME, 100)
    quality = [
        [law.quality(_signal(scale, n, eps, 1), _whose(scale, n)) for n in people]
        for eps in budgets
    ]
    shades = {"vmin": Law.CHANCE, "vmax": law.best, "cmap": "viridis"}
    shown_as = axes.pcolormesh(people, budgets, quality, shading="auto", **shades)
    figure.colorbar(shown_as, ax=axes, label="HR@10")
    for label, family in _levels(scale).items():
        level = reader.interval(family)
        if level is not None:
            lines = axes.contour(people, budgets, quality, [_target(label, level)], colors="white")
            axes.clabel(lines, fmt={_target(label, level): label}, fontsize=8)
    for point in _points(scale):
        found = reader.interval(_family(scale, point))
        if found is not None and point.reports == 1 and point.once:
            axes.scatter([point.people], [point.epsilon], c=[found.mean], edgecolors="white",
                         marker="o" if point.kind == SEEN else "s", **shades)  # fmt: skip


def _points(scale: Scale) -> list[Point]:
    """What is checked differs from what is fitted in people and in budget."""
    found = []
    for kind, populations, budgets in (
        (SEEN, scale.fitted_people, (1.0, 2.0, 4.0, 8.0)),
        (UNSEEN, scale.checked_people, (1.5, 3.0, 6.0, 10.0)),
    ):
        for people in populations:
            found += [Point(people, epsilon, 1, kind) for epsilon in budgets]
            if people <= scale.about.users:
                found.append(Point(people, 2.5, scale.full_reports[0], kind, once=False))
    return found


def _family(scale: Scale, point: Point) -> Family:
    """People beyond those of the data are made out of them."""
    are_made = point.people > scale.about.users
    size = FULL if are_made or point.people == scale.about.users else Size(point.people)
    settings = planned(
        point.people,
        scale.about.items,
        epsilon=point.epsilon,
        reports=point.reports,
        epochs=scale.epochs,
        lifetime=1 if point.once else None,
    )
    made = point.people if are_made else None
    return lambda seed: replace(
        Cell.training("loudest", size, settings, seed, draw=drawn_with(seed)), resample=made
    )


def _levels(scale: Scale) -> dict[str, Family]:
    """What to compare with; nothing of it is private."""
    return {
        "popularity": scale.popularity(FULL),
        f"{FEW_FACTORS} factors, not private": scale.ceiling(FULL, factors=FEW_FACTORS),
        f"{ALMOST:.0%} of ALS-{MANY_FACTORS}": scale.ceiling(FULL, factors=MANY_FACTORS),
    }


def _target(label: str, level: Interval) -> float:
    return level.mean * (ALMOST if label.startswith(f"{ALMOST:.0%}") else 1.0)


def _signal(scale: Scale, people: float, epsilon: float, reports: float) -> float:
    """z, of so many reports of a person in all."""
    items = scale.about.items
    return people * reports * usual_gain(epsilon, items) ** 2 / items


def _signal_of(scale: Scale, point: Point) -> float:
    reports = point.reports * (1 if point.once else scale.epochs)
    return _signal(scale, point.people, point.epsilon, reports)


def _whose(scale: Scale, people: float) -> float:
    """Histories that differ: who are made are made out of those of the data."""
    return min(people, scale.about.users)


def _fitted(scale: Scale, store: CellStore) -> Law | None:
    """On the split for choosing, which is not reported."""
    found = []
    for point in _points(scale):
        result = store.get(_family(scale, point)(CHOOSING))
        if point.kind == SEEN and result is not None:
            whose = _whose(scale, point.people)
            found.append(Measured(_signal_of(scale, point), whose, metric_of(result)))
    return Law.fitted(found) if len(found) >= len(LOWEST) else None


def _checks(scale: Scale, reader: Reader, law: Law | None) -> Table:
    rows, records, misses = [], [], []
    for point in _points(scale):
        found = reader.interval(_family(scale, point))
        if found is None:
            continue
        z, whose = _signal_of(scale, point), _whose(scale, point.people)
        said = None if law is None else law.quality(z, whose)
        about = {"people": point.people, "epsilon": point.epsilon, "reports": point.reports}
        records += record(found, **about, kind=point.kind, signal=z, predicted=said)
        miss = None if said is None else said - found.mean
        if miss is not None and point.kind == UNSEEN:
            misses.append(miss)
        rows.append(
            (
                f"{point.people:,}", f"{point.epsilon:g}",
                "1" if point.once else f"{point.reports} x {scale.epochs}", f"{z:,.3g}",
                shown(found), _digits(said), _digits(miss, sign=True), point.kind,
            )
        )  # fmt: skip
    headings = (
        "people", "eps", "reports in a life", "z", "HR@10", "predicted", "miss", "the law was",
    )  # fmt: skip
    notes = [HOW, *_verdict(law, misses)]
    return Table(NAME, f"{TITLE}: predicted and measured", headings, rows, records, notes)


HOW = (
    "z = people x reports x gain^2 / items. Seven numbers are fitted on the split of seed "
    f"{CHOOSING}, to the populations and budgets that say so; what was measured is of other "
    "splits. People beyond those of the data are made out of them: a history drawn with "
    "replacement, a tenth of it dropped."
)


def _verdict(law: Law | None, misses: Iterable[float]) -> list[str]:
    known = [abs(miss) for miss in misses]
    if law is None or not known:
        return []
    close = sum(miss <= CLOSE for miss in known)
    how_close = (
        f"Within {CLOSE:g} of what was measured in {close} of {len(known)} cells that it was not "
        f"fitted on; the largest miss is {max(known):.4f}."
    )
    numbers = (
        f"popular {law.popular:.4f}, best {law.best:.4f}, first step at z = "
        f"{np.exp(law.first):,.3g} (width {law.first_width:.2f}), second at "
        f"{np.exp(law.second):,.3g} ({law.second_width:.2f}), a history alone is worth "
        f"{np.exp(law.own):,.3g}."
    )
    return [how_close, numbers]


def _budgets(scale: Scale, reader: Reader, law: Law | None) -> Table:
    """The epsilon of one report in a lifetime that reaches each level, by the law."""
    levels = {label: reader.interval(family) for label, family in _levels(scale).items()}
    rows, records = [], []
    for people in sorted((*scale.fitted_people, *scale.checked_people)):
        row = [f"{people:,}"]
        for label, level in levels.items():
            if law is None or level is None:
                row.append(NOTHING)
                continue
            eps = _least_epsilon(scale, law, people, _target(label, level))
            records.append({"people": people, "level": label, "epsilon": eps})
            row.append("not reached" if eps is None else f"{eps:.2f}")
        rows.append(tuple(row))
    title = f"{TITLE}: the epsilon of one report in a lifetime that is enough"
    known = ", ".join(f"{label} {shown(level)}" for label, level in levels.items())
    headings = ("people", *levels)
    return Table(f"{NAME}-budgets", title, headings, rows, records, [known])


def _least_epsilon(scale: Scale, law: Law, people: int, target: float) -> float | None:
    z = law.needed(target, _whose(scale, people))
    if z is None:
        return None
    for epsilon in np.arange(0.05, 20.0, 0.05):
        if _signal(scale, people, float(epsilon), 1) >= z:
            return float(epsilon)
    return None


def _digits(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return NOTHING
    return f"{value:+.4f}" if sign else f"{value:.4f}"
