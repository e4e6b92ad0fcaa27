"""What every experiment shares: means over splits, tables as data, and pictures."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from sottovoce.cli.figures import draw_interval
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import COMPARED, OURS, THEIRS, Cell, CellStore, Trained
from sottovoce_lab.paper.scale import Family, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METRIC = "hr@10"
NOTHING = "-"
NAMES = {
    "paper": "preset paper",
    "paper-alpha": "preset paper, alpha 4",
    "loudest": "loudest",
    "private-popularity": "private popularity",
    "named-counts": "items by name: counts",
    "named-als": "items by name: ALS",
    "dp-als": "DP-ALS",
    "mf": "MF-NP",
    "popularity": "popularity",
}
"""What the columns are called."""


@dataclass(frozen=True)
class Table:
    """What is shown, and every number behind it."""

    name: str
    """Also of its files."""
    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    records: list[dict[str, Any]]
    """One for each number, unrounded."""
    notes: list[str] = field(default_factory=list)

    @property
    def filled(self) -> bool:
        return bool(self.records)

    @property
    def shown(self) -> list[tuple[str, ...]]:
        """Headings and rows, without columns that say nothing in any row."""
        columns = zip(self.headings, *self.rows, strict=True)
        said = [column for column in columns if set(column[1:]) != {NOTHING}]
        return list(zip(*said, strict=True))

    def as_dict(self) -> dict[str, Any]:
        return {"title": self.title, "notes": self.notes, "numbers": self.records}

    def as_csv(self) -> str:
        """One line for each number."""
        names = list(dict.fromkeys(name for record in self.records for name in record))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return out.getvalue()


@dataclass(frozen=True)
class Reader:
    """Means over the splits that have been computed."""

    store: CellStore
    scale: Scale

    def known(self, family: Family, what: str, metric: str = METRIC) -> Interval | None:
        """Of devices that use tags, time or both; None where that was not computed."""
        results = [self.store.get(family(seed)) for seed in self.scale.seeds]
        found = [
            float(result["known"][what][metric])
            for result in results
            if result is not None and what in result.get("known", {})
        ]
        return Interval.from_values(found) if found else None

    def values(
        self, family: Family, metric: str = METRIC, epoch: int | None = None
    ) -> dict[int, float]:
        """By seed; after some epoch of a curve, or in the end. Some splits may not have it."""
        found: dict[int, float] = {}
        for seed in self.scale.seeds:
            result = self.store.get(family(seed))
            if result is not None and metric in _at(result, epoch):
                found[seed] = metric_of(result, metric, epoch)
        return found

    def interval(
        self, family: Family, metric: str = METRIC, epoch: int | None = None
    ) -> Interval | None:
        """Mean and 95% interval; None where nothing has been computed."""
        found = self.values(family, metric, epoch)
        return Interval.from_values(list(found.values())) if found else None

    def gain(self, ours: Family, theirs: Family) -> Interval | None:
        """Of the differences split by split: both saw the same split and the same negatives."""
        mine, other = self.values(ours), self.values(theirs)
        both = [mine[seed] - other[seed] for seed in mine if seed in other]
        return Interval.from_values(both) if both else None

    def budget(self, family: Family) -> dict[str, float | None]:
        """Lifetime, local and central, the same for every seed."""
        for seed in self.scale.seeds:
            result = self.store.get(family(seed))
            if result is not None and "budget" in result:
                return budget_in(result)
        return {"local": None, "central": None}


class Experiment(ABC):
    """One figure or table of the paper, or one of ours: its cells, and all that shows them."""

    name: ClassVar[str]
    title: ClassVar[str]
    picture: ClassVar[tuple[float, float]]
    """In inches."""

    @classmethod
    def summary(cls) -> str:
        """Its help line: what its docstring begins with."""
        return (cls.__doc__ or "").partition("\n")[0]

    def __init__(self, scale: Scale, store: CellStore):
        self.scale = scale
        self.store = store
        self.reader = Reader(store, scale)

    @abstractmethod
    def cells(self) -> list[Cell]:
        """All that it needs."""

    def then(self) -> list[Cell]:
        """Cells that are only known once the others are; asked again until nothing is new."""
        return []

    @abstractmethod
    def tables(self) -> list[Table]:
        """From whatever has been computed so far."""

    @abstractmethod
    def draw(self, figure: Figure) -> None:
        """The same as a picture."""


def metric_of(result: dict[str, Any], metric: str = METRIC, epoch: int | None = None) -> float:
    return float(_at(result, epoch)[metric])


def _at(result: dict[str, Any], epoch: int | None) -> dict[str, Any]:
    found: dict[str, Any] = result["final"] if epoch is None else result["curve"][epoch - 1]
    return found


def budget_in(result: dict[str, Any]) -> dict[str, float | None]:
    """Of a lifetime."""
    spent: dict[str, float | None] = result["budget"]
    return spent


def shown(interval: Interval | None) -> str:
    return NOTHING if interval is None else str(interval)


def signed(interval: Interval | None) -> str:
    """A difference, in a table."""
    return NOTHING if interval is None else f"{'+' if interval.mean >= 0 else ''}{interval}"


def number(value: float | None, digits: int = 4) -> str:
    """A number of the paper's or a budget, in a table."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def budget(value: float | None) -> str:
    """A budget, in a table: three digits that mean something."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def record(interval: Interval | None, **about: Any) -> list[dict[str, Any]]:
    """One number for CSV and JSON, or none."""
    if interval is None:
        return []
    return [
        {**about, "mean": interval.mean, "half_width95": interval.half_width, "runs": interval.runs}
    ]


@dataclass(frozen=True)
class Contest:
    """One of ours against one of theirs in one cell."""

    ours: Trained
    theirs: Trained
    where: str
    gain: Interval | None


def contests(reader: Reader, families: Mapping[Trained, Family], where: str) -> list[Contest]:
    return [
        Contest(ours, theirs, where, reader.gain(families[ours], families[theirs]))
        for theirs, ours in product(THEIRS, OURS)
        if theirs in families
    ]


@dataclass(frozen=True)
class Compared:
    """The methods of one row side by side."""

    intervals: dict[str, Interval | None]
    records: list[dict[str, Any]]
    contests: list[Contest]
    gain: Interval | None
    """Of `loudest` over the paper's system."""

    def shown(self, names: Iterable[str] = COMPARED) -> tuple[str, ...]:
        return tuple(shown(self.intervals[name]) for name in names)


def compare(reader: Reader, families: Mapping[str, Family], where: str, **about: Any) -> Compared:
    """Each family's mean; trainings of ours against theirs. `where` and `about` name the row."""
    found = {name: reader.interval(family) for name, family in families.items()}
    records = [
        each for name, interval in found.items() for each in record(interval, **about, method=name)
    ]
    trained = {method: families[method] for method in COMPARED}
    gain = reader.gain(families["loudest"], families["paper"])
    return Compared(found, records, contests(reader, trained, where), gain)


def verdict(found: Iterable[Contest]) -> list[str]:
    """Where ours beats theirs, a sentence for each pair, and where it does not."""
    known = list(found)
    notes = []
    for theirs, ours in product(THEIRS, OURS):
        mine = [
            (contest.where, contest.gain)
            for contest in known
            if (contest.ours, contest.theirs) == (ours, theirs) and contest.gain is not None
        ]
        not_won = [f"{where} ({signed(gain)})" for where, gain in mine if not beats(gain)]
        if mine:
            won = f"{ours} beats {NAMES[theirs]} in {len(mine) - len(not_won)} of {len(mine)} cells"
            but = f"; not in: {'; '.join(not_won)}" if not_won else ""
            notes.append(f"{won} {_how_surely(gain for _, gain in mine)}{but}.")
    return notes


def _how_surely(gains: Iterable[Interval]) -> str:
    if any(gain.half_width is None for gain in gains):
        return "(cells with a single split count whatever the distance)"
    return "by more than the 95% interval of the differences, split by split"


def beats(gain: Interval) -> bool:
    """Better, and not by chance as far as the splits tell; with one split: better."""
    return gain.mean > (gain.half_width or 0.0)


COLOURS = {
    "paper": "#b3402a",
    "paper-alpha": "#dd9c6b",
    "loudest": "#1b6ca8",
    "private-popularity": "#8a6fb0",
    "named-counts": "#5fa8a0",
    "named-als": "#d0679d",
    "dp-als": "#c2a02b",
    "dplcf": "#2e8b57",
    "mf": "#222222",
    "popularity": "#888888",
}


def lines(
    axes: Any, points: Sequence[tuple[float, Interval | None]], label: str, colour: str
) -> None:
    """A curve through the points that are known, with their 95% intervals as a band."""
    known = [(x, interval) for x, interval in points if interval is not None]
    marker = "o" if len(known) < 12 else None
    if known:
        draw_interval(axes, known, 0.2, marker=marker, markersize=3, color=colour, label=label)


def level(axes: Any, interval: Interval | None, label: str) -> None:
    if interval is not None:
        colour = COLOURS["mf" if label == "MF-NP" else "popularity"]
        axes.axhline(interval.mean, linestyle="--", linewidth=1, color=colour, label=label)


def crowd_panels(
    figure: Figure,
    users: Mapping[int, str],
    reports: Sequence[int],
    x_label: str,
    draw: Callable[[Any, int, int], None],
) -> None:
    """HR@10 in a panel for each named crowd and k, filled by `draw(axes, users, k)`; one legend."""
    panels: Any = figure.subplots(len(reports), len(users), sharex=True, sharey=True, squeeze=False)
    for row, k in zip(panels, reports, strict=True):
        for axes, crowd in zip(row, users, strict=True):
            draw(axes, crowd, k)
            axes.set_title(f"{users[crowd]} users, k {k}", fontsize=9)
            axes.set(ylim=(0, 0.85))
            axes.grid(alpha=0.3)
    figure.supxlabel(x_label)
    figure.supylabel("HR@10")
    handles = panels[-1][-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper")


def bars(
    axes: Any,
    labels: Sequence[str],
    series: Mapping[str, Sequence[Interval | float | None]],
    colours: Sequence[str],
) -> None:
    """Horizontal, a group for each label, from the top down; what is not known leaves a gap."""
    height = 0.8 / len(series)
    for place, (name, values) in enumerate(series.items()):
        at = [row - 0.4 + (place + 0.5) * height for row in range(len(labels))]
        lengths = [value.mean if isinstance(value, Interval) else value or 0.0 for value in values]
        axes.barh(at, lengths, height=height, label=name, color=colours[place % len(colours)])
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
