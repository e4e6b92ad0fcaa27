"""The law: what people, reports, budget and catalogue give together. Not in the paper.

A server adds up what N people say in k reports each, about M items, and of every report `gain` is
signal. So what it knows of an item grows with `z = N k gain^2 / M`. Quality rises with z, along a
curve that is drawn through a few knots: first what is popular is learnt, much later who likes what.

A few loud reports say less than z. Where there are no more than some for each item, the first
epochs' models are made of single reports, and who reports next has nothing to correct. So z counts
for less by the factor `1 + (few / reports)^power`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, log1p
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.loudest import estimate_gain
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import plan_training
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.scale import CHOOSING, FEW_FACTORS, Family, drawn_with
from sottovoce_lab.paper.tables import NOTHING, Experiment, Table, metric_of, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Float64 = NDArray[np.float64]
KNOTS = 6
NUMBERS = KNOTS + 2
"""That are fitted."""
FEW, POWER = (0.0, 15.0), (0.3, 3.0)
"""Between which ln few and the power are sought."""


@dataclass(frozen=True)
class Measured:
    """What a law is fitted to, or checked on."""

    signal: float
    """z."""
    reports: float
    """Of all people, in the whole training."""
    quality: float


@dataclass(frozen=True)
class Law:
    """For one catalogue."""

    knots: tuple[float, ...]
    """ln z, ascending and evenly spaced."""
    heights: tuple[float, ...]
    """Quality there; never descending."""
    few: float
    """Reports with which z counts by half."""
    power: float

    @classmethod
    def fitted(cls, points: Sequence[Measured]) -> Law:
        """By least squares."""
        from scipy import optimize

        if len(points) < NUMBERS:
            raise DataError(f"a law needs {NUMBERS} measurements at least, got {len(points)}")
        z, reports, found = (
            np.array([getattr(each, name) for each in points])
            for name in ("signal", "reports", "quality")
        )
        knots = np.linspace(log(z.min()), log(z.max()), KNOTS)

        def misses(numbers: Float64) -> Float64:
            return np.asarray(_curve(knots, *_parts(numbers), np.log(z), reports) - found)

        rise = (found.max() - found.min()) / (KNOTS - 1)
        start = [found.min(), *[rise] * (KNOTS - 1), log(np.median(reports)) / 2 + 2, 1.0]
        lowest = [0.0] * KNOTS + [FEW[0], POWER[0]]
        highest = [1.0] * KNOTS + [FEW[1], POWER[1]]
        start = np.clip(start, np.add(lowest, 1e-6), np.subtract(highest, 1e-6)).tolist()
        best = optimize.least_squares(misses, start, bounds=(lowest, highest))
        heights, few, power = _parts(best.x)
        return cls(tuple(knots.tolist()), tuple(heights.tolist()), few, power)

    def quality(self, signal: float, reports: float = inf) -> float:
        """As far as signal was measured; beyond it the curve is level."""
        at = min(log(signal), self.knots[-1])
        knots, heights = np.array(self.knots), np.array(self.heights)
        return float(_curve(knots, heights, self.few, self.power, np.array(at), np.array(reports)))

    def needed(self, quality: float, reports: float = inf) -> float | None:
        """The least signal that is enough; None where none is that was measured."""
        low, high = self.knots[0], self.knots[-1]
        if self.quality(exp(high), reports) < quality:
            return None
        while high - low > 1e-6:
            middle = (low + high) / 2
            if self.quality(exp(middle), reports) < quality:
                low = middle
            else:
                high = middle
        return exp(high)

    def lost(self, reports: float) -> float:
        """By which factor z counts for less with so many reports in all."""
        return exp(log1p((self.few / reports) ** self.power))


def _parts(numbers: Float64) -> tuple[Float64, float, float]:
    """The first height and how far each following is above; ln few; the power."""
    return np.cumsum(numbers[:KNOTS]), exp(numbers[KNOTS]), float(numbers[KNOTS + 1])


def _curve(
    knots: Float64, heights: Float64, few: float, power: float, at: Float64, reports: Float64
) -> Float64:
    """Monotone between knots; outside of them straight on."""
    from scipy.interpolate import PchipInterpolator

    curve = PchipInterpolator(knots, heights)
    counted = at - np.log1p((few / reports) ** power)
    within = np.clip(counted, knots[0], knots[-1])
    return np.asarray(curve(within) + (counted - within) * curve.derivative()(within))


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


def _target(label: str, level: Interval) -> float:
    return level.mean * (ALMOST if label.startswith(f"{ALMOST:.0%}") else 1.0)


HOW = (
    f"z = people x reports x gain^2 / items, {LEAST_SIGNAL:g} or more, and at least "
    f"{LEAST_REPORTS} reports for each item. {NUMBERS} numbers are fitted on splits of seeds "
    f"{SPLITS_TO_FIT[0]} and {SPLITS_TO_FIT[1]}, to populations and budgets that are not here; "
    "what was measured is of other splits. People beyond those of the data are made out of them: a "
    "history drawn with replacement, a tenth of it dropped."
)


def _digits(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return NOTHING
    return f"{value:+.4f}" if sign else f"{value:.4f}"


class LawChecked(Experiment):
    """Quality predicted from people, reports, budget and catalogue, and checked."""

    name = "law"
    title = "The law"
    picture = (8.0, 5.0)

    def cells(self) -> list[Cell]:
        possible = [point for point in self._points() if point.people <= self.scale.most_people]
        fitted = [
            self._family(point)(seed)
            for point in possible
            if point.kind == FITTED
            for seed in SPLITS_TO_FIT
        ]
        checked = [self._family(point) for point in possible if point.kind == CHECKED]
        return [*fitted, *self.scale.all_of([*checked, *self._levels().values()])]

    def tables(self) -> list[Table]:
        law = self._fitted()
        return [self._checks(law), self._budgets(law)]

    def draw(self, figure: Figure) -> None:
        """What the law says, where it was measured; around it nothing."""
        law = self._fitted()
        axes: Any = figure.subplots()
        axes.set(xscale="log", xlabel="people", ylabel="epsilon of the one report in a lifetime")
        if law is None:
            return
        once = [point for point in self._points() if point.once and point.kind == CHECKED]
        found = {point: self.reader.interval(self._family(point)) for point in once}
        most = max(point.people for point in once if found[point] or point.people <= MOST_DRAWN)
        people = np.geomspace(LEAST_REPORTS * self.scale.about.items, most, 150)
        budgets = np.linspace(*EPSILONS, 140)
        loudest = max([exp(law.knots[-1]), *(self._signal_of(p) for p in once if found[p])])
        quality = np.array([[self._said(law, n, eps, loudest) for n in people] for eps in budgets])
        shades = {"vmin": law.heights[0], "vmax": law.heights[-1], "cmap": "viridis"}
        shown_as = axes.pcolormesh(people, budgets, quality, shading="auto", **shades)
        figure.colorbar(shown_as, ax=axes, label="HR@10")
        for label, family in self._levels().items():
            level = self.reader.interval(family)
            if level is not None:
                at = _target(label, level)
                lines = axes.contour(people, budgets, quality, [at], colors="white")
                axes.clabel(lines, fmt={at: label}, fontsize=8)
        measured = [
            (p.people, p.epsilon, each.mean) for p, each in found.items() if each is not None
        ]
        if measured:
            x, y, shade = zip(*measured, strict=True)
            axes.scatter(x, y, c=shade, edgecolors="white", marker="s", clip_on=False,
                         label="measured, and not fitted", **shades)  # fmt: skip
            axes.legend(loc="lower left", fontsize=8)

    def _said(self, law: Law, people: float, epsilon: float, most: float) -> float:
        """NaN where nothing was measured that is like it, up to the `most` signal."""
        z = self._signal(people, epsilon, 1)
        return law.quality(z, people) if LEAST_SIGNAL <= z <= most else float("nan")

    def _points(self) -> list[Point]:
        """What is checked differs from what is fitted in people and in budget."""
        found = []
        everybody = {FITTED: self.scale.fitted_people, CHECKED: self.scale.checked_people}
        for kind, populations in everybody.items():
            for people in populations:
                found += [Point(people, epsilon, 1, kind) for epsilon in BUDGETS[kind]]
                if people <= self.scale.everybody:
                    found.append(Point(people, 2.5, self.scale.full_reports[0], kind, once=False))
        return [point for point in found if self._applies(point)]

    def _applies(self, point: Point) -> bool:
        """The law is of crowds that can learn something; a quick run has none."""
        enough = self._reports_of(point) >= LEAST_REPORTS * self.scale.about.items
        return self.scale.about.quick or (enough and self._signal_of(point) >= LEAST_SIGNAL)

    def _family(self, point: Point) -> Family:
        """People beyond those of the data are made out of them."""
        are_made, full = point.people > self.scale.everybody, self.scale.full
        size = full if point.people >= self.scale.everybody else Size(point.people)
        settings = plan_training(
            point.people,
            self.scale.about.items,
            epsilon=point.epsilon,
            reports=point.reports,
            epochs=self.scale.epochs,
            lifetime=1 if point.once else None,
        )
        made = point.people if are_made else None
        return lambda seed: replace(
            Cell.training("loudest", size, settings, seed, draw=drawn_with(seed)), resample=made
        )

    def _levels(self) -> dict[str, Family]:
        """What to compare with; nothing of it is private."""
        full = self.scale.full
        return {
            "popularity": self.scale.popularity(full),
            f"{FEW_FACTORS} factors, not private": self.scale.ceiling(full, factors=FEW_FACTORS),
            f"{ALMOST:.0%} of ALS-{MANY_FACTORS}": self.scale.ceiling(full, factors=MANY_FACTORS),
        }

    def _signal(self, people: float, epsilon: float, reports: float) -> float:
        """z, of so many reports of a person in all."""
        items = self.scale.about.items
        return people * reports * estimate_gain(epsilon, items) ** 2 / items

    def _signal_of(self, point: Point) -> float:
        return self._signal(1, point.epsilon, self._reports_of(point))

    def _reports_of(self, point: Point) -> int:
        """Of everybody, in the whole training."""
        return point.people * point.reports * (1 if point.once else self.scale.epochs)

    def _fitted(self) -> Law | None:
        """On splits for choosing, which are not reported."""
        found = []
        for point in self._points():
            if point.kind != FITTED:
                continue
            for seed in SPLITS_TO_FIT:
                result = self.store.get(self._family(point)(seed))
                if result is not None:
                    z, reports = self._signal_of(point), self._reports_of(point)
                    found.append(Measured(z, reports, metric_of(result)))
        return Law.fitted(found) if len({each.signal for each in found}) >= NUMBERS else None

    def _checks(self, law: Law | None) -> Table:
        rows, records, misses = [], [], []
        for point in self._points():
            found = self.reader.interval(self._family(point))
            if found is None or point.kind != CHECKED:
                continue
            z = self._signal_of(point)
            said = None if law is None else law.quality(z, self._reports_of(point))
            about = {"people": point.people, "epsilon": point.epsilon, "reports": point.reports}
            records += record(found, **about, signal=z, predicted=said)
            miss = None if said is None else said - found.mean
            misses += [] if miss is None else [miss]
            rows.append(
                (
                    f"{point.people:,}", f"{point.epsilon:g}",
                    "1" if point.once else f"{point.reports} x {self.scale.epochs}", f"{z:,.3g}",
                    shown(found), _digits(said), _digits(miss, sign=True),
                )
            )  # fmt: skip
        headings = ("people", "eps", "reports in a life", "z", "HR@10", "predicted", "miss")
        notes = [HOW, *self._verdict(law, misses)]
        title = f"{self.title}: predicted and measured"
        return Table(self.name, title, headings, rows, records, notes)

    def _verdict(self, law: Law | None, misses: Iterable[float]) -> list[str]:
        known = [abs(miss) for miss in misses]
        if law is None:
            return [f"Not fitted: that takes {NUMBERS} populations or budgets that learn enough."]
        if not known:
            return []
        close = sum(miss <= CLOSE for miss in known)
        how_close = (
            f"Within {CLOSE:g} of what was measured in {close} of {len(known)} cells that it was "
            f"not fitted on; the largest miss is {max(known):.4f}."
        )
        through = ", ".join(
            f"{height:.3f} at {exp(at):,.3g}"
            for at, height in zip(law.knots, law.heights, strict=True)
        )
        least = LEAST_REPORTS * self.scale.about.items
        numbers = (
            f"The curve: {through}. A few reports count for less, by 1 + ({law.few:,.0f} / "
            f"reports)^{law.power:.2f}: {law.lost(least):.2g} times less at {least:,}."
        )
        return [how_close, numbers]

    def _budgets(self, law: Law | None) -> Table:
        """The epsilon of one report in a lifetime that reaches each level, by the law."""
        levels = {label: self.reader.interval(family) for label, family in self._levels().items()}
        rows, records = [], []
        everybody = (*self.scale.fitted_people, *self.scale.checked_people)
        for people in sorted(n for n in everybody if n >= LEAST_REPORTS * self.scale.about.items):
            row = [f"{people:,}"]
            for label, level in levels.items():
                if law is None or level is None:
                    row.append(NOTHING)
                    continue
                eps = self._least_epsilon(law, people, _target(label, level))
                records.append({"people": people, "level": label, "epsilon": eps})
                row.append("not reached" if eps is None else f"{eps:.2f}")
            rows.append(tuple(row))
        title = f"{self.title}: the epsilon of one report in a lifetime that is enough"
        known = ", ".join(
            f"{label} {NOTHING if level is None else format(_target(label, level), '.4f')}"
            for label, level in levels.items()
        )
        headings = ("people", *levels)
        return Table(f"{self.name}-budgets", title, headings, rows, records, [f"HR@10: {known}."])

    def _least_epsilon(self, law: Law, people: int, target: float) -> float | None:
        """To be looked for among budgets that the law was fitted on."""
        z = law.needed(target, people)
        if z is None:
            return None
        for epsilon in np.arange(0.05, max(BUDGETS[FITTED]), 0.05):
            if self._signal(people, float(epsilon), 1) >= z:
                return float(epsilon)
        return None
