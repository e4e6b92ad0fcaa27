"""The law: what people, reports, budget and catalogue give together. Not in the paper.

Fitted on some populations and budgets, then checked on others that it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.core.loudest import usual_gain
from sottovoce.simulation.evaluation import Interval
from sottovoce.training import planned
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.rules import FEW_FACTORS
from sottovoce_lab.paper.scale import CHOOSING, Family, Scale, drawn_with
from sottovoce_lab.paper.signal import NUMBERS, Law, Measured
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.tables import NOTHING, Reader, Table, metric_of, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "law"
TITLE = "The law"
FULL = Size()
CLOSE = 0.01
MANY_FACTORS = 32
ALMOST = 0.95
FITTED, CHECKED = "fitted", "checked"
SPLITS_TO_FIT = (CHOOSING, CHOOSING + 1)
BUDGETS = {FITTED: (1.0, 2.0, 4.0, 8.0, 12.0), CHECKED: (1.25, 2.5, 5.0, 10.0)}
"""Of the one report in a lifetime."""
LEAST_SIGNAL = 30.0
"""Below it a split alone moves HR@10 by 0.03, and popularity is better."""
LEAST_REPORTS = 2
"""For each item."""
EPSILONS = (0.5, 12.0)
MOST_DRAWN = 10_000_000
"""What the picture shows at least."""


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
    fitted = [
        _family(scale, point)(seed)
        for point in possible
        if point.kind == FITTED
        for seed in SPLITS_TO_FIT
    ]
    checked = [_family(scale, point) for point in possible if point.kind == CHECKED]
    return [*fitted, *scale.all_of([*checked, *_levels(scale).values()])]


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    law = _fitted(scale, store)
    return [_checks(scale, reader, law), _budgets(scale, reader, law)]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    """What the law says, where it was measured; around it nothing."""
    reader, law = Reader(store, scale), _fitted(scale, store)
    axes: Any = figure.subplots()
    axes.set(xscale="log", xlabel="people", ylabel="epsilon of the one report in a lifetime")
    if law is None:
        return
    once = [point for point in _points(scale) if point.once and point.kind == CHECKED]
    found = {point: reader.interval(_family(scale, point)) for point in once}
    most = max(point.people for point in once if found[point] or point.people <= MOST_DRAWN)
    people = np.geomspace(LEAST_REPORTS * scale.about.items, most, 150)
    budgets = np.linspace(*EPSILONS, 140)
    loudest = max([exp(law.knots[-1]), *(_signal_of(scale, p) for p in once if found[p])])
    quality = np.array([[_said(scale, law, n, eps, loudest) for n in people] for eps in budgets])
    shades = {"vmin": law.heights[0], "vmax": law.heights[-1], "cmap": "viridis"}
    shown_as = axes.pcolormesh(people, budgets, quality, shading="auto", **shades)
    figure.colorbar(shown_as, ax=axes, label="HR@10")
    for label, family in _levels(scale).items():
        level = reader.interval(family)
        if level is not None:
            lines = axes.contour(people, budgets, quality, [_target(label, level)], colors="white")
            axes.clabel(lines, fmt={_target(label, level): label}, fontsize=8)
    measured = [(p.people, p.epsilon, each.mean) for p, each in found.items() if each is not None]
    if measured:
        x, y, shade = zip(*measured, strict=True)
        axes.scatter(x, y, c=shade, edgecolors="white", marker="s", clip_on=False,
                     label="measured, and not fitted", **shades)  # fmt: skip
        axes.legend(loc="lower left", fontsize=8)


def _said(scale: Scale, law: Law, people: float, epsilon: float, most: float) -> float:
    """NaN where nothing was measured that is like it, up to the `most` signal."""
    z = _signal(scale, people, epsilon, 1)
    return law.quality(z, people) if LEAST_SIGNAL <= z <= most else float("nan")


def _points(scale: Scale) -> list[Point]:
    """What is checked differs from what is fitted in people and in budget."""
    found = []
    for kind, populations in ((FITTED, scale.fitted_people), (CHECKED, scale.checked_people)):
        for people in populations:
            found += [Point(people, epsilon, 1, kind) for epsilon in BUDGETS[kind]]
            if people <= scale.about.users:
                found.append(Point(people, 2.5, scale.full_reports[0], kind, once=False))
    return [point for point in found if _applies(scale, point)]


def _applies(scale: Scale, point: Point) -> bool:
    """The law is of crowds that can learn something; a quick run has none."""
    enough = _reports_of(scale, point) >= LEAST_REPORTS * scale.about.items
    return scale.about.quick or (enough and _signal_of(scale, point) >= LEAST_SIGNAL)


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
    return _signal(scale, 1, point.epsilon, _reports_of(scale, point))


def _reports_of(scale: Scale, point: Point) -> int:
    """Of everybody, in the whole training."""
    return point.people * point.reports * (1 if point.once else scale.epochs)


def _fitted(scale: Scale, store: CellStore) -> Law | None:
    """On splits for choosing, which are not reported."""
    found = []
    for point in _points(scale):
        if point.kind != FITTED:
            continue
        for seed in SPLITS_TO_FIT:
            result = store.get(_family(scale, point)(seed))
            if result is not None:
                z, reports = _signal_of(scale, point), _reports_of(scale, point)
                found.append(Measured(z, reports, metric_of(result)))
    return Law.fitted(found) if len({each.signal for each in found}) >= NUMBERS else None


def _checks(scale: Scale, reader: Reader, law: Law | None) -> Table:
    rows, records, misses = [], [], []
    for point in _points(scale):
        found = reader.interval(_family(scale, point))
        if found is None or point.kind != CHECKED:
            continue
        z = _signal_of(scale, point)
        said = None if law is None else law.quality(z, _reports_of(scale, point))
        about = {"people": point.people, "epsilon": point.epsilon, "reports": point.reports}
        records += record(found, **about, signal=z, predicted=said)
        miss = None if said is None else said - found.mean
        misses += [] if miss is None else [miss]
        rows.append(
            (
                f"{point.people:,}", f"{point.epsilon:g}",
                "1" if point.once else f"{point.reports} x {scale.epochs}", f"{z:,.3g}",
                shown(found), _digits(said), _digits(miss, sign=True),
            )
        )  # fmt: skip
    headings = ("people", "eps", "reports in a life", "z", "HR@10", "predicted", "miss")
    notes = [HOW, *_verdict(scale, law, misses)]
    return Table(NAME, f"{TITLE}: predicted and measured", headings, rows, records, notes)


HOW = (
    f"z = people x reports x gain^2 / items, {LEAST_SIGNAL:g} or more, and at least "
    f"{LEAST_REPORTS} reports for each item. {NUMBERS} numbers are fitted on splits of seeds "
    f"{SPLITS_TO_FIT[0]} and {SPLITS_TO_FIT[1]}, to populations and budgets that are not here; "
    "what was measured is of other splits. People beyond those of the data are made out of them: a "
    "history drawn with replacement, a tenth of it dropped."
)


def _verdict(scale: Scale, law: Law | None, misses: Iterable[float]) -> list[str]:
    known = [abs(miss) for miss in misses]
    if law is None or not known:
        return []
    close = sum(miss <= CLOSE for miss in known)
    how_close = (
        f"Within {CLOSE:g} of what was measured in {close} of {len(known)} cells that it was not "
        f"fitted on; the largest miss is {max(known):.4f}."
    )
    through = ", ".join(
        f"{height:.3f} at {exp(at):,.3g}" for at, height in zip(law.knots, law.heights, strict=True)
    )
    least = LEAST_REPORTS * scale.about.items
    numbers = (
        f"The curve: {through}. A few reports count for less, by 1 + ({law.few:,.0f} / reports)^"
        f"{law.power:.2f}: {law.lost(least):.2g} times less at {least:,}."
    )
    return [how_close, numbers]


def _budgets(scale: Scale, reader: Reader, law: Law | None) -> Table:
    """The epsilon of one report in a lifetime that reaches each level, by the law."""
    levels = {label: reader.interval(family) for label, family in _levels(scale).items()}
    rows, records = [], []
    everybody = (*scale.fitted_people, *scale.checked_people)
    for people in sorted(n for n in everybody if n >= LEAST_REPORTS * scale.about.items):
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
    known = ", ".join(
        f"{label} {NOTHING if level is None else format(_target(label, level), '.4f')}"
        for label, level in levels.items()
    )
    headings = ("people", *levels)
    return Table(f"{NAME}-budgets", title, headings, rows, records, [f"HR@10: {known}."])


def _least_epsilon(scale: Scale, law: Law, people: int, target: float) -> float | None:
    """To be looked for among budgets that the law was fitted on."""
    z = law.needed(target, people)
    if z is None:
        return None
    for epsilon in np.arange(0.05, max(BUDGETS[FITTED]), 0.05):
        if _signal(scale, people, float(epsilon), 1) >= z:
            return float(epsilon)
    return None


def _digits(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return NOTHING
    return f"{value:+.4f}" if sign else f"{value:.4f}"
