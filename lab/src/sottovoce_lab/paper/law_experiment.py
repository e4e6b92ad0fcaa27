"""The law fitted on some populations and budgets, and checked on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sottovoce.core.loudest import estimate_gain
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import plan_training
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.grid import PAPER_FACTORS, TUNING_SEED, Family, get_subset_seed
from sottovoce_lab.paper.law import FITTED_NUMBERS, Law, Measurement
from sottovoce_lab.paper.tables import (
    NO_VALUE,
    Experiment,
    Table,
    format_interval,
    get_metric,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Use = Literal["fitted", "checked"]
# Seeds of the splits that the law is fitted on, which are not reported.
FITTING_SEEDS = (TUNING_SEED, TUNING_SEED + 1)
# Epsilons of trainings in which each person makes one report. The law is fitted on some of them and
# checked on the others.
EPSILONS: dict[Use, tuple[float, ...]] = {
    "fitted": (1.0, 2.0, 4.0, 8.0, 12.0),
    "checked": (1.25, 2.5, 5.0, 10.0),
}
# With less signal, HR@10 differs by 0.03 between splits, and popularity is better.
MIN_SIGNAL = 30.0
# With fewer reports for each item, from all people together, a model learns nothing.
MIN_REPORTS_PER_ITEM = 2
# Differences between prediction and measurement up to this count as close.
CLOSE_MISS = 0.01
# One level of quality in the picture is this share of the quality of ALS with this many factors.
ALS_FACTORS = 32
ALS_SHARE = 0.95
# The picture shows these epsilons. Its axis of people goes at least to the largest checked
# population up to this number, even if it was not measured.
EPSILONS_DRAWN = (0.5, 12.0)
MIN_PEOPLE_DRAWN = 10_000_000
# Points of the picture's grid.
PEOPLE_STEPS = 150
EPSILON_STEPS = 140
LAW_NOTE = (
    f"z = people x reports x gain^2 / items, {MIN_SIGNAL:g} or more, and at least "
    f"{MIN_REPORTS_PER_ITEM} reports for each item. {FITTED_NUMBERS} numbers are fitted on splits "
    f"of seeds {FITTING_SEEDS[0]} and {FITTING_SEEDS[1]}, to populations and budgets that are not "
    "here; what was measured is of other splits. People beyond those of the data are made out of "
    "them: a history drawn with replacement, a tenth of it dropped."
)


@dataclass(frozen=True)
class Point:
    """One population with one budget."""

    people: int
    epsilon: float
    reports: int
    use: Use
    once: bool = True
    """Whether each person takes part in one epoch only; else in every epoch."""


def _get_target(label: str, level: Interval) -> float:
    return level.mean * (ALS_SHARE if label.startswith(f"{ALS_SHARE:.0%}") else 1.0)


class LawExperiment(Experiment):
    """Formula that predicts quality from people, reports, budget and catalogue, and tests of it."""

    name = "law"
    title = "The law"
    figure_size = (8.0, 5.0)

    def list_cells(self) -> list[Cell]:
        """Return the cells of the points that are small enough to be simulated."""
        points = [point for point in self._list_points() if point.people <= self.grid.max_people]
        fitted = [
            self._build_family(point)(seed)
            for point in points
            if point.use == "fitted"
            for seed in FITTING_SEEDS
        ]
        checked = [self._build_family(point) for point in points if point.use == "checked"]
        return [*fitted, *self.grid.list_cells([*checked, *self._build_levels().values()])]

    def build_tables(self) -> list[Table]:
        """Build the table of checks."""
        return [self._build_checks(self._fit())]

    def draw(self, figure: Figure) -> None:
        """Draw the law in the range that was measured, and the measurements."""
        law = self._fit()
        axes: Any = figure.subplots()
        axes.set(xscale="log", xlabel="people", ylabel="epsilon of the one report in a lifetime")
        if law is None:
            return
        points = [p for p in self._list_points() if p.once and p.use == "checked"]
        measured = {
            point: interval
            for point in points
            if (interval := self.reader.read_interval(self._build_family(point)))
        }
        max_people = max(p.people for p in points if p in measured or p.people <= MIN_PEOPLE_DRAWN)
        min_people = MIN_REPORTS_PER_ITEM * self.grid.about.items
        people = np.geomspace(min_people, max_people, PEOPLE_STEPS)
        epsilons = np.linspace(*EPSILONS_DRAWN, EPSILON_STEPS)
        max_signal = max([exp(law.knots[-1]), *map(self._compute_point_signal, measured)])
        quality = np.array(
            [[self._predict(law, n, epsilon, max_signal) for n in people] for epsilon in epsilons]
        )
        shades = {"vmin": law.heights[0], "vmax": law.heights[-1], "cmap": "viridis"}
        mesh = axes.pcolormesh(people, epsilons, quality, shading="auto", **shades)
        figure.colorbar(mesh, ax=axes, label="HR@10")
        for label, family in self._build_levels().items():
            level = self.reader.read_interval(family)
            if level is not None:
                target = _get_target(label, level)
                contour = axes.contour(people, epsilons, quality, [target], colors="white")
                axes.clabel(contour, fmt={target: label}, fontsize=8)
        if measured:
            x, y = [p.people for p in measured], [p.epsilon for p in measured]
            shade = [interval.mean for interval in measured.values()]
            axes.scatter(x, y, c=shade, edgecolors="white", marker="s", clip_on=False,
                         label="measured, and not fitted", **shades)  # fmt: skip
            axes.legend(loc="lower left", fontsize=8)

    def _predict(self, law: Law, people: float, epsilon: float, max_signal: float) -> float:
        """Return the quality if each person makes one report, or NaN outside the measured range."""
        z = self._compute_signal(people, epsilon, 1)
        return law.predict_quality(z, people) if MIN_SIGNAL <= z <= max_signal else float("nan")

    def _list_points(self) -> list[Point]:
        points = []
        populations: dict[Use, tuple[int, ...]] = {
            "fitted": self.grid.fitted_people,
            "checked": self.grid.checked_people,
        }
        k = self.grid.full_reports[0]
        for use, counts in populations.items():
            for people in counts:
                points += [Point(people, epsilon, 1, use) for epsilon in EPSILONS[use]]
                if people <= self.grid.people:
                    points.append(Point(people, 2.5, k, use, once=False))
        return [point for point in points if self._can_learn(point)]

    def _can_learn(self, point: Point) -> bool:
        """Return whether the law applies: the crowd can learn something."""
        # No crowd of a quick run is large enough, so a quick run takes all points.
        enough = self._count_reports(point) >= MIN_REPORTS_PER_ITEM * self.grid.about.items
        return self.grid.about.quick or (enough and self._compute_point_signal(point) >= MIN_SIGNAL)

    def _build_family(self, point: Point) -> Family:
        full = self.grid.full
        size = full if point.people >= self.grid.people else Size(point.people)
        settings = plan_training(
            point.people,
            self.grid.about.items,
            epsilon=point.epsilon,
            reports=point.reports,
            epochs=self.grid.epochs,
            lifetime=1 if point.once else None,
        )
        # People beyond those of the data are resampled from them.
        resample = point.people if point.people > self.grid.people else None

        def build_cell(seed: int) -> Cell:
            cell = Cell.from_settings("loudest", size, settings, seed, draw=get_subset_seed(seed))
            return replace(cell, resample=resample)

        return build_cell

    def _build_levels(self) -> dict[str, Family]:
        """Return the methods whose quality is a level for comparison. None of them is private."""
        full = self.grid.full
        few_factors = self.grid.build_mf(full, factors=PAPER_FACTORS)
        return {
            "popularity": self.grid.build_popularity(full),
            f"{PAPER_FACTORS} factors, not private": few_factors,
            f"{ALS_SHARE:.0%} of ALS-{ALS_FACTORS}": self.grid.build_mf(full, factors=ALS_FACTORS),
        }

    def _compute_signal(self, people: float, epsilon: float, reports: float) -> float:
        """Return z of this many people with this many reports each."""
        items = self.grid.about.items
        return people * reports * estimate_gain(epsilon, items) ** 2 / items

    def _compute_point_signal(self, point: Point) -> float:
        return self._compute_signal(1, point.epsilon, self._count_reports(point))

    def _count_reports(self, point: Point) -> int:
        """Return the number of reports of all people in the whole training."""
        return point.people * point.reports * (1 if point.once else self.grid.epochs)

    def _fit(self) -> Law | None:
        measurements = []
        for point in self._list_points():
            if point.use != "fitted":
                continue
            for seed in FITTING_SEEDS:
                result = self.store.get(self._build_family(point)(seed))
                if result is not None:
                    z, reports = self._compute_point_signal(point), self._count_reports(point)
                    measurements.append(Measurement(z, reports, get_metric(result)))
        signals = {measurement.signal for measurement in measurements}
        return Law.fit(measurements) if len(signals) >= FITTED_NUMBERS else None

    def _build_checks(self, law: Law | None) -> Table:
        rows, records, misses = [], [], []
        for point in self._list_points():
            interval = self.reader.read_interval(self._build_family(point))
            if interval is None or point.use != "checked":
                continue
            z = self._compute_point_signal(point)
            predicted, miss = None, None
            if law is not None:
                predicted = law.predict_quality(z, self._count_reports(point))
                miss = predicted - interval.mean
                misses.append(abs(miss))
            about = {"people": point.people, "epsilon": point.epsilon, "reports": point.reports}
            records += make_records(interval, **about, signal=z, predicted=predicted)
            reports = "1" if point.once else f"{point.reports} x {self.grid.epochs}"
            predicted_text = NO_VALUE if predicted is None else f"{predicted:.4f}"
            rows.append(
                (
                    f"{point.people:,}", f"{point.epsilon:g}", reports, f"{z:,.3g}",
                    format_interval(interval), predicted_text,
                    NO_VALUE if miss is None else f"{miss:+.4f}",
                )
            )  # fmt: skip
        headings = ("people", "eps", "reports in a life", "z", "HR@10", "predicted", "miss")
        notes = [LAW_NOTE, *self._describe_fit(law, misses)]
        title = f"{self.title}: predicted and measured"
        return Table(self.name, title, headings, rows, records, notes)

    def _describe_fit(self, law: Law | None, misses: Sequence[float]) -> list[str]:
        """Return sentences about how close the law is, and its numbers."""
        if law is None:
            return [
                f"Not fitted: that takes {FITTED_NUMBERS} populations or budgets that learn enough."
            ]
        if not misses:
            return []
        close = sum(miss <= CLOSE_MISS for miss in misses)
        how_close = (
            f"Within {CLOSE_MISS:g} of what was measured in {close} of {len(misses)} cells that it "
            f"was not fitted on; the largest miss is {max(misses):.4f}."
        )
        knots = ", ".join(
            f"{height:.3f} at {exp(knot):,.3g}"
            for knot, height in zip(law.knots, law.heights, strict=True)
        )
        min_reports = MIN_REPORTS_PER_ITEM * self.grid.about.items
        numbers = (
            f"The curve: {knots}. A few reports count for less, by 1 + ({law.few:,.0f} / "
            f"reports)^{law.power:.2f}: {law.compute_loss(min_reports):.2g} times less at "
            f"{min_reports:,}."
        )
        return [how_close, numbers]
