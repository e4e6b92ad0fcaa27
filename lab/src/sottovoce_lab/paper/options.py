"""Ways to spend a budget: which are tried, which of them are worth showing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from sottovoce_lab.paper.cells import COMPARED, Cell, Method, Size
from sottovoce_lab.paper.scale import CHOOSING, Scale, drawn_with
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.tables import METRIC, budget_in, metric_of

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
