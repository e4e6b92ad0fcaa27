"""What a budget buys: every private method at equal budgets, and the least budget for a quality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import COMPARED, Cell, CellStore, Method, Size
from sottovoce_lab.paper.scale import (
    CHOOSING,
    EPSILON,
    NAMED_ALS,
    NAMED_EPSILON,
    Family,
    Scale,
    delta_of,
    drawn_with,
)
from sottovoce_lab.paper.tables import (
    COLOURS,
    METRIC,
    NAMES,
    Experiment,
    Table,
    budget,
    budget_in,
    level,
    lines,
    metric_of,
    record,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


View = Literal["local", "central"]
VIEWS: tuple[View, ...] = ("local", "central")
COUNTED: Method = "private-popularity"
COUNTED_MOST = 100
"""Reports of a person, at most, that only count."""
NAMED: Method = "named-counts"
NAMED_EPSILONS = (4.0, 5.0, 6.0, 7.0, 8.0, 10.0)
"""Of a report that names an item: below, nearly all of them are noise."""
SHOWN: tuple[Method, ...] = (*COMPARED, COUNTED, NAMED)


@dataclass(frozen=True)
class Option:
    """One way to spend a budget: a method at some setting."""

    chosen_by: Cell
    """On the split for choosing."""

    @property
    def method(self) -> Method:
        return self.chosen_by.method

    def cell(self, seed: int) -> Cell:
        return replace(self.chosen_by, seed=seed, draw=drawn_with(seed))

    def about(self) -> dict[str, float]:
        """Its setting in the paper's letters; popularity has no factors and no epochs."""
        named = self.chosen_by.named
        return {
            "epsilon": named["epsilon"],
            "reports": named["reports"],
            "epochs": named.get("epochs", 1),
            "factors": named.get("factors", 0),
            "alpha": named.get("alpha", 0.0),
        }


@dataclass(frozen=True)
class BudgetPoint:
    """What an option costs and what it is worth."""

    option: Option
    local: float
    central: float
    quality: float

    def cost(self, view: View) -> float:
        return self.local if view == "local" else self.central


def best(points: Iterable[BudgetPoint], view: View) -> list[BudgetPoint]:
    """Those that nothing cheaper, or as cheap, is as good as: dearer and better step by step."""
    kept: list[BudgetPoint] = []
    for point in sorted(points, key=lambda point: (point.cost(view), -point.quality)):
        if not kept or point.quality > kept[-1].quality:
            kept.append(point)
    return kept


def options(scale: Scale) -> list[Option]:
    """Figure 2's trainings on its largest crowd, trainings with one report, counting."""
    return [*_large(scale), *_small(scale), *_counting(scale)]


def choose(scale: Scale, store: CellStore) -> list[Option]:
    """For each mechanism, what is on either frontier on the splits for choosing."""
    chosen: list[Option] = []
    for method in SHOWN:
        points = [
            point
            for option in options(scale)
            if option.method == method and (point := tried(option, store))
        ]
        kept = [point for view in VIEWS for point in best(points, view)]
        chosen += dict.fromkeys(point.option for point in kept)
    return chosen


def least_budget(
    points: Iterable[BudgetPoint], method: Method, view: View, target: float
) -> float | None:
    """Of one mechanism's points that are good enough; None where none is."""
    enough = [
        point.cost(view)
        for point in points
        if point.option.method == method and point.quality >= target
    ]
    return min(enough, default=None)


def _large(scale: Scale) -> Iterator[Option]:
    for method, epsilon, k in product(COMPARED, scale.epsilons, scale.reports):
        if k > 1:
            yield Option(scale.trained(method, largest(scale), epsilon, k)(CHOOSING))


def _small(scale: Scale) -> Iterator[Option]:
    """Planned for few epochs as for many."""
    for method, epsilon, epochs in product(COMPARED, scale.small_epsilons, scale.marks):
        yield Option(scale.trained(method, largest(scale), epsilon, 1, epochs=epochs)(CHOOSING))


def _counting(scale: Scale) -> Iterator[Option]:
    """Popularity under the same kind of budget: what knowing nobody's taste would cost."""
    size = largest(scale)
    signs = product([COUNTED], scale.small_epsilons, (*scale.marks, COUNTED_MOST))
    names = product([NAMED], NAMED_EPSILONS, scale.marks)
    for method, epsilon, reports in (*signs, *names):
        yield Option(
            Cell.make(method, size, CHOOSING, draw=CHOOSING, epsilon=epsilon, reports=reports)
        )


def largest(scale: Scale) -> Size:
    """The largest crowd of figure 2."""
    return scale.small(scale.users[-1])


def tried(option: Option, store: CellStore) -> BudgetPoint | None:
    """What an option came to on the split for choosing, if it has been computed."""
    result = store.get(option.chosen_by)
    if result is None:
        return None
    return point_of(option, budget_in(result), metric_of(result, METRIC))


def point_of(option: Option, spent: dict[str, float | None], quality: float) -> BudgetPoint:
    """An option with its budgets; somebody without a crowd has the local one alone."""
    local, central = spent["local"], spent["central"]
    assert local is not None
    return BudgetPoint(option, local, local if central is None else central, quality)


NOTES: Mapping[View, str] = {
    "local": (
        "Local: every report can be traced to its sender. DPLCF shares the budget out over all "
        "items, private popularity over signs of about the usual epsilon. By name: each report is "
        "an own item through randomised response over the catalogue; counted, or taken for a "
        "history and factorised. Nothing is trusted."
    ),
    "central": (
        "Central: a history is replaced. For ours an honest proxy shuffles everybody's "
        "reports. DP-ALS (Chien et al. 2021): one party holds everybody's history, so nothing is "
        "promised against it; beside it the same noise where somebody is added or removed."
    ),
}


def _counted(size: Size, local: float) -> Family:
    """Reports of about the usual epsilon."""
    reports = max(1, round(local / EPSILON))
    return lambda seed: Cell.make(
        "private-popularity", size, seed, epsilon=local / reports, reports=reports
    )


def _named(method: Method, size: Size, local: float, **how: float) -> Family:
    """Reports that are true more often than not."""
    reports = max(1, round(local / NAMED_EPSILON))
    return lambda seed: Cell.make(
        method, size, seed, epsilon=local / reports, reports=reports, **how
    )


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


class Equal(Experiment):
    """Every private method with the same budget, local and central."""

    name = "equal"
    title = "Equal budgets"
    picture = (9.0, 4.2)

    def cells(self) -> list[Cell]:
        private = [
            family
            for view, budgets in self._budgets().items()
            for value in budgets
            for family in self._methods(view, value).values()
        ]
        return self.scale.all_of([*private, *self._known_to_all().values()])

    def tables(self) -> list[Table]:
        return [self._table(view) for view in self._budgets()]

    def draw(self, figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (view, budgets) in zip(panels, self._budgets().items(), strict=True):
            for label, colour in _colours(view).items():
                points = [
                    (value, self.reader.interval(self._methods(view, value)[label]))
                    for value in budgets
                ]
                lines(axes, points, label, colour)
            for label, family in self._known_to_all().items():
                level(axes, self.reader.interval(family), label)
            axes.set(xscale="log", xlabel=f"lifetime budget, {view} (epsilon)")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8, loc="lower right")
        panels[0].set_ylabel("HR@10")

    def _budgets(self) -> dict[View, tuple[float, ...]]:
        return {"local": self.scale.lifetimes, "central": self.scale.central}

    def _methods(self, view: View, value: float) -> dict[str, Family]:
        full = self.scale.full
        if view == "local":
            spend = Budget(local=value)
            return {
                NAMES["loudest"]: self.scale.planned(full, spend),
                "DPLCF": self.scale.dplcf(full, value / self.scale.about.items),
                NAMES["private-popularity"]: _counted(full, value),
                NAMES["named-counts"]: _named("named-counts", full, value),
                NAMES["named-als"]: _named("named-als", full, value, **NAMED_ALS),
            }
        return {
            NAMES["loudest"]: self.scale.planned(full, Budget(central=value)),
            NAMES["dp-als"]: self.scale.trusted(full, value),
        }

    def _known_to_all(self) -> dict[str, Family]:
        return {
            "MF-NP": self.scale.ceiling(self.scale.full),
            "popularity": self.scale.popularity(self.scale.full),
        }

    def _table(self, view: View) -> Table:
        rows, records = [], []
        for value in self._budgets()[view]:
            families = self._methods(view, value)
            found = {name: self.reader.interval(family) for name, family in families.items()}
            for name, interval in found.items():
                records += record(interval, view=view, budget=value, method=name)
            beside = []
            if view == "central":
                trusted = self.scale.trusted_settings(self.scale.full, value)
                beside.append(f"{trusted.add_remove_epsilon:.3g}")
            settings = families[NAMES["loudest"]](0).settings
            spent = (
                f"{settings.epsilon:.3g}, {settings.reports}, {settings.turns} ({settings.epochs})"
            )
            rows.append((budget(value), spent, *map(shown, found.values()), *beside))
        against = ", ".join(
            f"{label} {shown(self.reader.interval(family))}"
            for label, family in self._known_to_all().items()
        )
        added = ("DP-ALS, added or removed",) if view == "central" else ()
        headings = (f"{view} budget", "loudest: eps, k, epochs (of)", *_colours(view), *added)
        notes = [NOTES[view], f"Not private: {against}."]
        if view == "central":
            notes.append(f"Delta: {delta_of(self.scale.everybody):g}.")
        return Table(
            f"{self.name}-{view}", f"{self.title}, {view}: HR@10", headings, rows, records, notes
        )


TARGETS = (0.4, 0.5, 0.6, 0.65, 0.7, 0.72, 0.74, 0.76, 0.78)


class Frontier(Experiment):
    """The least lifetime budget that reaches a quality, local and central.

    Many trainings are tried, few are shown, so the choice must not be made on what is shown: the
    settings on the frontier are chosen on the subset and split of seed 1000, and reported on
    others.
    """

    name = "frontier"
    title = "The least budget for a quality"
    picture = (10.0, 4.6)

    def cells(self) -> list[Cell]:
        """All that the choice needs; what is reported follows from it: `then`."""
        return list(dict.fromkeys(option.chosen_by for option in options(self.scale)))

    def then(self) -> list[Cell]:
        """The chosen options on the reported splits, and what they are to be read against."""
        chosen = [option.cell for option in choose(self.scale, self.store)]
        return self.scale.all_of([*chosen, *self._not_private])

    @property
    def _not_private(self) -> tuple[Family, Family]:
        size = largest(self.scale)
        return self.scale.ceiling(size), self.scale.popularity(size)

    def tables(self) -> list[Table]:
        points = self._points()
        return [self._points_table(points), self._targets_table(points)]

    def draw(self, figure: Figure) -> None:
        points = self._points()
        panels = figure.subplots(1, len(VIEWS), sharey=True)
        for axes, view in zip(panels, VIEWS, strict=True):
            for method in SHOWN:
                mine = self._on_frontier(points, method, view)
                lines(axes, mine, NAMES[method], COLOURS[method])
            for label, family in zip(("MF-NP", "popularity"), self._not_private, strict=True):
                level(axes, self.reader.interval(family), label)
            axes.set(xscale="log", ylim=(0, 0.85), xlabel=f"lifetime budget, {view} (epsilon)")
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("HR@10")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=5)

    def _points(self) -> list[BudgetPoint]:
        """Chosen before, measured on the reported splits."""
        found = []
        for option in choose(self.scale, self.store):
            interval = self.reader.interval(option.cell)
            if interval is not None:
                spent = self.reader.budget(option.cell)
                found.append(point_of(option, spent, interval.mean))
        return found

    def _on_frontier(
        self, points: Sequence[BudgetPoint], method: Method, view: View
    ) -> list[tuple[float, Interval | None]]:
        """What was chosen for one view, even where the report then says otherwise."""
        mine = [option for option in options(self.scale) if option.method == method]
        known = [point for option in mine if (point := tried(option, self.store))]
        chosen = {point.option for point in best(known, view)}
        return [
            (point.cost(view), self.reader.interval(point.option.cell))
            for point in sorted(points, key=lambda point: point.cost(view))
            if point.option in chosen
        ]

    def _points_table(self, points: Sequence[BudgetPoint]) -> Table:
        rows, records = [], []
        for point in sorted(points, key=lambda p: (SHOWN.index(p.option.method), p.local)):
            interval, about = self.reader.interval(point.option.cell), point.option.about()
            name = NAMES[point.option.method]
            records += record(
                interval,
                method=point.option.method,
                **about,
                local=point.local,
                central=point.central,
            )
            spent = (budget(point.local), budget(point.central))
            rows.append(
                (name, *(f"{value:g}" for value in about.values()), *spent, shown(interval))
            )
        headings = ("method", "eps", "k", "T", "F", "alpha", "local", "central", "HR@10")
        users, _ = self.scale.public(largest(self.scale))
        chosen = (
            f"Settings were chosen on the subset and split of seed {CHOOSING}; these numbers are "
            f"of other splits of another subset. Central: delta {delta_of(users):g}, everybody "
            "takes part in every epoch; reports that name items have no central figure here and "
            "stand at their local one."
        )
        best_of, popular = (shown(self.reader.interval(each)) for each in self._not_private)
        notes = [chosen, f"Popularity {popular}, MF-NP {best_of}; neither is private."]
        title = f"{self.title}: {largest(self.scale)}"
        return Table(self.name, title, headings, rows, records, notes)

    def _targets_table(self, points: Sequence[BudgetPoint]) -> Table:
        rows, records = [], []
        for target in TARGETS:
            row = [f"{target:.2f}"]
            for view, method in product(VIEWS, SHOWN):
                least = least_budget(points, method, view, target)
                row.append("not reached" if least is None else budget(least))
                if least is not None:
                    records.append(
                        {"hr@10": target, "view": view, "method": method, "budget": least}
                    )
            rows.append(tuple(row))
        headings = (
            "HR@10",
            *(f"{NAMES[method]}, {view}" for view, method in product(VIEWS, SHOWN)),
        )
        title = f"{self.title}: lifetime budget of the cheapest point above whose mean is as good"
        return Table(f"{self.name}-targets", title, headings, rows, records)
