"""The main table: every kind of method on one data set, and how the strongest were tuned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from sottovoce.data.split import SplitRule
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Budget
from sottovoce_lab.paper.bootstrap import RESAMPLES, Difference
from sottovoce_lab.paper.cells import Cell, Method, Way
from sottovoce_lab.paper.scale import (
    ALS,
    CHOOSING,
    EASE_RIDGE,
    EPSILON,
    Family,
    Scale,
    delta_of,
    knowing,
)
from sottovoce_lab.paper.tables import (
    NOTHING,
    Experiment,
    Table,
    bars,
    budget,
    metric_of,
    record,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METRICS = {"hr@10": "HR@10, 99 others", "hr@10 all": "HR@10, all", "ndcg@100 all": "NDCG@100, all"}
TUNED_FOR = ("hr@10", "ndcg@100 all")
CENTRAL = 1.0
"""Budget of the trusted party."""
MOST_CENTRAL = 100.0
"""A central figure above it is not shown: no crowd hides so loud a report."""
SAID: dict[Way, str] = {"tags": "tags", "both": "tags and order"}
COLOURS = ["#1b6ca8", "#dd9c6b", "#2a7d4f"]
NOTE = (
    "99 others: random items that the person never touched. All: every item that they never "
    f"touched. ±: 95% interval over splits. In brackets: the difference to popularity, for rows "
    f"with tags to popularity with tags, and its 95% interval by {RESAMPLES:,} draws of people. "
    "Budgets are of a device for a lifetime, for replacing its whole history. Local: every report "
    "can be traced. Central: an honest proxy shuffles the reports of honest people; of DP-ALS: one "
    f"party holds every history. No central figure is given above {MOST_CENTRAL:g}."
)


@dataclass(frozen=True)
class Row:
    label: str
    family: Family
    way: Way | None = None
    """What devices know beside the model."""

    def name(self, metric: str) -> str:
        """Under which a metric stands among a result's draws."""
        return metric if self.way is None else f"{self.way} {metric}"


class Main(Experiment):
    """The main table: all kinds of methods, by sampled and by full ranking."""

    name = "main"
    title = "The main table"
    picture = (9.0, 9.0)

    def cells(self) -> list[Cell]:
        rows = (row for split in self.scale.splits for row in self._rows[split])
        return list(dict.fromkeys(self.scale.all_of(row.family for row in rows)))

    def tables(self) -> list[Table]:
        return [self._table(split) for split in self.scale.splits]

    def draw(self, figure: Figure) -> None:
        panels = figure.subplots(len(self.scale.splits), squeeze=False)[:, 0]
        for axes, split in zip(panels, self.scale.splits, strict=True):
            rows = self._rows[split]
            series = {
                said: [self._mean(row, metric) for row in rows] for metric, said in METRICS.items()
            }
            bars(axes, [row.label for row in rows], series, COLOURS)
            axes.set_title(f"{split} interaction left out", fontsize=9)
        panels[0].legend(loc="lower right", fontsize=8)

    def _table(self, split: SplitRule) -> Table:
        rows, records = [], []
        for row in self._rows[split]:
            cells: list[str] = []
            spent, delta = self._budget(row)
            for metric in METRICS:
                mean, apart = self._mean(row, metric), self._apart(row, metric, split)
                beside = {} if apart is None else asdict(apart)
                records += [
                    each | beside
                    for each in record(
                        mean, method=row.label, split=split, metric=metric, **spent, delta=delta
                    )
                ]
                cells += [shown(mean), NOTHING if apart is None else str(apart)]
            central = spent["central"]
            hidden = central is not None and central <= MOST_CENTRAL
            rows.append(
                (
                    row.label, *cells, budget(spent["local"]),
                    budget(central) if hidden else NOTHING, f"{delta:g}" if hidden else NOTHING,
                )
            )  # fmt: skip
        measured = [each for said in METRICS.values() for each in (said, "- popularity")]
        headings = ("method", *measured, "local", "central", "delta")
        users = f"{self.scale.crowd(self.scale.full)} users"
        title = f"{self.title}: {users}, {split} interaction left out"
        return Table(f"{self.name}-{split}", title, headings, rows, records, [NOTE])

    @cached_property
    def _rows(self) -> dict[SplitRule, list[Row]]:
        """By what is left out; to plan a budget takes a while."""
        return {split: self._of_split(split) for split in self.scale.splits}

    def _of_split(self, split: SplitRule) -> list[Row]:
        """What is not private and knows nobody, small budgets, a trusted party, large ones, all."""
        scale, full = self.scale, self.scale.full
        ways: tuple[Way, ...] = ("tags",) if split == "random" else ("tags", "both")
        ways = ways if scale.about.tags else ()
        popularity = knowing(scale.popularity(full, split), *ways[:1])
        rows = [
            Row("random", lambda seed: Cell.make("random", full, seed, split=split)),
            Row("popularity", popularity),
            *(Row(f"popularity, {SAID[way]}", popularity, way) for way in ways[:1]),
        ]
        for local, central, known in (
            (10.0, 1.0, ()), (10.0, None, ways), (50.0, 3.0, ()), (50.0, None, ways),
        ):  # fmt: skip
            family = scale.planned(full, Budget(local=local, central=central), split=split)
            both = "" if central is None else f", central {central:g}"
            rows.append(Row(f"ours, budget {local:g}{both}", knowing(family, *known)))
            rows += [
                Row(f"ours, budget {local:g}, {SAID[way]}", knowing(family, *known), way)
                for way in known
            ]
        k = scale.full_reports[0]
        how = f"eps {EPSILON:g}, k {k}, T {scale.epochs}"
        rows += [
            Row("DP-ALS, trusted", scale.trusted(full, CENTRAL, split)),
            Row(f"ours, {how}", scale.trained("loudest", full, EPSILON, k, split=split)),
            Row(f"preset paper, {how}", scale.trained("paper", full, EPSILON, k, split=split)),
            Row(
                f"ours, budget {scale.lifetimes[-1]:g}",
                scale.planned(full, Budget(local=scale.lifetimes[-1]), split=split),
            ),
            Row("MF-NP", scale.ceiling(full, split)),
            *_tuned(scale, split),
        ]
        return [replace(row, family=_in_catalogue(row.family)) for row in rows]

    def _mean(self, row: Row, metric: str) -> Interval | None:
        if row.way is None:
            return self.reader.interval(row.family, metric)
        return self.reader.known(row.family, row.way, metric)

    def _apart(self, row: Row, metric: str, split: SplitRule) -> Difference | None:
        """From popularity that knows as much; of popularity itself there is none."""
        tagged = row.way is not None
        other = next(
            each
            for each in self._rows[split]
            if each.label.startswith("popularity") and (each.way is not None) == tagged
        )
        both = [
            tuple(self.store.get(each.family(seed)) for each in (row, other))
            for seed in self.scale.seeds
        ]
        found = [(mine, theirs) for mine, theirs in both if mine and theirs]
        if row.label == other.label or not found:
            return None
        mine, theirs = (
            [result["draws"][each.name(metric)] for result in results]
            for each, results in zip((row, other), zip(*found, strict=True), strict=True)
        )
        means = [self._value(row, a, metric) - self._value(other, b, metric) for a, b in found]
        return Difference.of(sum(means) / len(means), mine, theirs)

    def _value(self, row: Row, result: dict[str, Any], metric: str) -> float:
        return float((result["final"] if row.way is None else result["known"][row.way])[metric])

    def _budget(self, row: Row) -> tuple[dict[str, float | None], float]:
        """What is spent, and with which delta."""
        delta = row.family(0).named.get("delta", delta_of(self.scale.everybody))
        return self.reader.budget(row.family), delta


def _in_catalogue(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="catalogue")


def _tuned(scale: Scale, split: SplitRule) -> Iterator[Row]:
    """One row where the best setting is the same for both metrics."""
    for metric in TUNED_FOR:
        for name, best in (("ALS", ALS), ("EASE", EASE_RIDGE)):
            alike = best[TUNED_FOR[0]] == best[TUNED_FOR[-1]]
            if alike and metric != TUNED_FOR[0]:
                continue
            family = (
                scale.ceiling(scale.full, split, **ALS[metric])
                if name == "ALS"
                else scale.ease(scale.full, EASE_RIDGE[metric], split)
            )
            yield Row(f"{name}, tuned" + ("" if alike else f" for {METRICS[metric]}"), family)


GRIDS: dict[Method, dict[str, tuple[float, ...]]] = {
    "mf": {
        "factors": (16, 32, 64, 96, 128, 144),
        "regularization": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
        "alpha": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    },
    "ease": {"ridge": tuple(62.5 * 2**n for n in range(10))},
}
"""Many more factors than 144 do not fit the memory of a card's processor."""
STARTS: dict[Method, Setting] = {
    "mf": {"factors": 64, "regularization": 10.0, "alpha": 10.0},
    "ease": {"ridge": 500.0},
}
TOGETHER = {"factors", "regularization"}
"""More factors want a larger ridge: these two are changed at once as well."""
Setting = dict[str, Any]


class Tuned(Experiment):
    """The strongest baselines' settings, chosen on a split that is not reported.

    From a setting in the middle of the grid to its best neighbour, until none is better: the best
    has all its neighbours beside it.
    """

    name = "tuned"
    title = "How the baselines were tuned"
    picture = (8.0, 9.0)

    def cells(self) -> list[Cell]:
        return [self._cell(method, STARTS[method]) for method in GRIDS]

    def then(self) -> list[Cell]:
        """The neighbours of what is best so far, by each metric."""
        return [
            self._cell(method, each)
            for method, metric in product(GRIDS, TUNED_FOR)
            if (best := self._best(method, metric))
            for each in neighbours(method, best)
        ]

    def tables(self) -> list[Table]:
        rows, records = [], []
        best = {
            (method, metric): self._best(method, metric)
            for method, metric in product(GRIDS, TUNED_FOR)
        }
        for method, setting in self._tried():
            final = self._final(method, setting)
            assert final is not None
            chosen = [each for each in TUNED_FOR if setting == best[method, each]]
            records.append(
                {
                    "method": method,
                    **setting,
                    **final,
                    "best": chosen,
                    "edge": on_edge(method, setting),
                }
            )
            said = ", ".join(METRICS[each] for each in chosen)
            at = " (at the grid's edge)" if chosen and on_edge(method, setting) else ""
            values = " ".join(f"{name} {value:g}" for name, value in setting.items())
            rows.append(
                (
                    method,
                    values,
                    *(f"{final[each]:.4f}" for each in METRICS),
                    (said + at) or NOTHING,
                )
            )
        headings = ("method", "setting", *METRICS.values(), "best for")
        grids = "; ".join(
            f"{method} {name} {', '.join(f'{value:g}' for value in values)}"
            for method, grid in GRIDS.items()
            for name, values in grid.items()
        )
        note = (
            f"Random split of seed {CHOOSING}. Grid: {grids}. From the middle of the grid to the "
            "best neighbour until none is better, for each metric."
        )
        return [Table(self.name, self.title, headings, rows, records, [note])]

    def draw(self, figure: Figure) -> None:
        tried = self._tried()
        series = {
            said: [(self._final(*each) or {}).get(metric) for each in tried]
            for metric, said in METRICS.items()
        }
        labels = [" ".join(f"{value:g}" for value in setting.values()) for _, setting in tried]
        axes = figure.subplots()
        bars(axes, labels, series, COLOURS)
        axes.legend(loc="lower right", fontsize=8)

    def _cell(self, method: Method, setting: Setting) -> Cell:
        full = self.scale.full
        family = (
            self.scale.ceiling(full, **setting)
            if method == "mf"
            else self.scale.ease(full, setting["ridge"])
        )
        return _in_catalogue(family)(CHOOSING)

    def _final(self, method: Method, setting: Setting) -> dict[str, float] | None:
        result = self.store.get(self._cell(method, setting))
        return None if result is None else {name: metric_of(result, name) for name in METRICS}

    def _tried(self) -> list[tuple[Method, Setting]]:
        return [
            (method, setting)
            for method, grid in GRIDS.items()
            for values in product(*grid.values())
            if self._final(method, setting := dict(zip(grid, values, strict=True)))
        ]

    def _best(self, method: Method, metric: str) -> Setting | None:
        """Of what was tried; None before anything was."""
        found = [
            (final[metric], setting)
            for each, setting in self._tried()
            if each == method and (final := self._final(each, setting))
        ]
        return max(found, key=lambda each: each[0])[1] if found else None


def neighbours(method: Method, setting: Setting) -> list[Setting]:
    """One step away in one parameter, or in those that belong together."""
    grid = GRIDS[method]
    found: list[Setting] = []
    for steps in product((-1, 0, 1), repeat=len(grid)):
        moved = {name for name, step in zip(grid, steps, strict=True) if step}
        places = [
            values.index(setting[name]) + step
            for (name, values), step in zip(grid.items(), steps, strict=True)
        ]
        inside = all(0 <= at < len(grid[name]) for name, at in zip(grid, places, strict=True))
        if inside and (len(moved) == 1 or moved == TOGETHER):
            found.append({name: grid[name][at] for name, at in zip(grid, places, strict=True)})
    return found


def on_edge(method: Method, setting: Setting) -> bool:
    """Whether any parameter has the first or the last value of its grid."""
    return any(setting[name] in (values[0], values[-1]) for name, values in GRIDS[method].items())
