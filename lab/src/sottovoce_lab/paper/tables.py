"""Tables as data, the same for a terminal, CSV, JSON and HTML; and means over the splits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from sottovoce.simulation.evaluation import Interval
from sottovoce_lab.paper.cells import COMPARED, OURS, THEIRS, Trained
from sottovoce_lab.paper.scale import Family, Scale
from sottovoce_lab.paper.store import CellStore

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
        return Interval.of(found) if found else None

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
        return Interval.of(list(found.values())) if found else None

    def gain(self, ours: Family, theirs: Family) -> Interval | None:
        """Of the differences split by split: both saw the same split and the same negatives."""
        mine, other = self.values(ours), self.values(theirs)
        both = [mine[seed] - other[seed] for seed in mine if seed in other]
        return Interval.of(both) if both else None

    def budget(self, family: Family) -> dict[str, float | None]:
        """Lifetime, local and central, the same for every seed."""
        for seed in self.scale.seeds:
            result = self.store.get(family(seed))
            if result is not None and "budget" in result:
                return budget_in(result)
        return {"local": None, "central": None}


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
