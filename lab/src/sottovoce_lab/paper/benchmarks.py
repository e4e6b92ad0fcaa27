"""Table 5: every method on the full set, private and not, each with what it costs a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sottovoce.data.split import SplitRule
from sottovoce_lab.paper import published
from sottovoce_lab.paper.cells import COMPARED, THEIRS, TRAINED, Cell, Size, Trained
from sottovoce_lab.paper.rules import FEW_FACTORS
from sottovoce_lab.paper.scale import EPSILON, Family, Scale, knowing
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import bars
from sottovoce_lab.paper.tables import (
    NAMES,
    Reader,
    Table,
    budget,
    contests,
    number,
    record,
    shown,
    verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAME = "table5"
TITLE = "Table 5: all methods on the full set"
CUTOFFS = (2, 5, 10)
FULL = Size()
BY_DATE = (
    "Latest: the last thing of each person is left out, and others' later ones are learnt from. "
    "Date: training ends at a date, before which nine tenths of all interactions lie; who has "
    "touched something before it and after it is tested on the first thing after it. With time: "
    "the device that recommends weighs what came last most, which it tells nobody."
)


@dataclass(frozen=True)
class Row:
    label: str
    at: Callable[[SplitRule], Family]
    """By what is left out."""
    said: str | None = None
    """Which row of the paper's table it is."""
    private: bool = False
    method: Trained | None = None
    reports: int | None = None


def cells(scale: Scale) -> list[Cell]:
    first, *further = _splits(scale)
    as_in_the_paper = [row.at(first) for row in _rows(scale, scale.full_reports)]
    by_time = [row.at(split) for split in further for row in _rows(scale, _usual(scale))]
    return scale.all_of([*as_in_the_paper, *by_time])


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    return [_as_in_the_paper(scale, reader), _by_time(scale, reader)]


def _as_in_the_paper(scale: Scale, reader: Reader) -> Table:
    split, rows, records = _splits(scale)[0], [], []
    for row in _rows(scale, scale.full_reports):
        said = published.TABLE5.get(row.said or "", (None, None, None))
        family = row.at(split)
        found = {cutoff: reader.interval(family, f"hr@{cutoff}") for cutoff in CUTOFFS}
        spent = reader.budget(family)
        for cutoff, interval in found.items():
            records += record(interval, method=row.label, metric=f"hr@{cutoff}", **spent)
        local = budget(spent["local"]) if row.private else "none"
        rows.append(
            (
                row.label, *(number(value) for value in said),
                *(shown(interval) for interval in found.values()),
                local, budget(spent["central"]),
            )
        )  # fmt: skip
    headings = (
        "method", *(f"paper HR@{cutoff}" for cutoff in CUTOFFS),
        *(f"HR@{cutoff}" for cutoff in CUTOFFS), "local budget", "central budget",
    )  # fmt: skip
    title = f"{TITLE}: {split} interaction left out, eps {EPSILON:g}, {scale.epochs} epochs"
    return Table(NAME, title, headings, rows, records, [*_notes(scale), *_verdict(scale, reader)])


def _by_time(scale: Scale, reader: Reader) -> Table:
    """The same methods where training ends at a date, and with the order on the device."""
    splits, rows, records = _splits(scale), [], []
    for row in _rows(scale, _usual(scale)):
        shown_here: list[str] = []
        for split in splits:
            family = row.at(split)
            for way, found in (
                ("alone", reader.interval(family)), ("time", reader.known(family, "time"))
            ):  # fmt: skip
                records += record(found, method=row.label, split=split, known=way)
                shown_here.append(shown(found))
        rows.append((row.label, *shown_here))
    headings = (
        "method", *(f"{split}{more}" for split in splits for more in ("", ", with time"))
    )  # fmt: skip
    title = f"{TITLE}: HR@10 by what is left out"
    return Table(f"{NAME}-time", title, headings, rows, records, [BY_DATE])


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, rows = Reader(store, scale), _rows(scale, scale.full_reports)
    found = [reader.interval(row.at(_splits(scale)[0])) for row in rows]
    said = [published.TABLE5[row.said][2] if row.said else None for row in rows]
    series = {
        "here": [None if each is None else each.mean for each in found],
        "paper (ML-20M)": said,
    }
    axes = figure.subplots()
    bars(axes, [row.label for row in rows], series, ["#1b6ca8", "#cccccc"])
    axes.set(xlabel="HR@10")
    axes.legend(loc="lower right", fontsize=8)


def _usual(scale: Scale) -> tuple[int, ...]:
    """Reports in an epoch, where one number is enough."""
    return scale.full_reports[:1]


def _rows(scale: Scale, many: tuple[int, ...]) -> list[Row]:
    full = FULL
    rows = [
        Row("Random", lambda split: lambda seed: Cell.make("random", full, seed, split=split),
            "Random"),
        Row("Popularity", lambda split: knowing(scale.popularity(full, split), "time")),
        Row("MF-NP", lambda split: knowing(scale.ceiling(full, split), "time"), "MF-NP"),
        Row("FCF (federated, not private)", lambda split: scale.fcf(full, split)),
        Row(f"DPLCF, {EPSILON:g} an item", partial(_dplcf, scale, EPSILON), "DPLCF", private=True),
    ]  # fmt: skip
    for k in many:
        same = k * EPSILON * scale.epochs / scale.about.items
        rows += [
            Row(f"DPLCF, budget of k {k}", partial(_dplcf, scale, same), private=True),
            Row(f"private popularity, budget of k {k}", partial(_counted, scale, k), private=True),
        ]
        for method in TRAINED if k in _usual(scale) else COMPARED:
            said = f"FMF-LDP-{k}" if method == "paper" else None
            name = f"FMF-LDP ({NAMES[method]})" if method in THEIRS else NAMES[method]
            said = said if said in published.TABLE5 else None
            at = partial(_trained, scale, method, k)
            rows.append(Row(f"{name}, k {k}", at, said, private=True, method=method, reports=k))
        if k in _usual(scale):
            at = partial(_narrow, scale, k)
            rows.append(Row(f"loudest, {FEW_FACTORS} factors, k {k}", at, private=True))
    return rows


def _trained(scale: Scale, method: Trained, k: int, split: SplitRule) -> Family:
    return knowing(scale.trained(method, FULL, EPSILON, k, split=split), "time")


def _dplcf(scale: Scale, epsilon: float, split: SplitRule) -> Family:
    return knowing(scale.dplcf(FULL, epsilon, split), "time")


def _narrow(scale: Scale, k: int, split: SplitRule) -> Family:
    """With as few factors as the paper's."""
    narrow = scale.trained("loudest", FULL, EPSILON, k, split=split, factors=FEW_FACTORS)
    return knowing(narrow, "time")


def _counted(scale: Scale, k: int, split: SplitRule) -> Family:
    return lambda seed: Cell.make(
        "private-popularity", FULL, seed, split=split, epsilon=EPSILON, reports=k * scale.epochs
    )


def _splits(scale: Scale) -> list[SplitRule]:
    """The paper leaves the latest one out here; data without times cannot."""
    return ["latest", "date"] if scale.about.timestamps else ["random"]


def _notes(scale: Scale) -> list[str]:
    budgets = (
        "Budgets are of one person, for the whole training. Local: reports can be traced to them. "
        f"Central: {scale.about.users:,} people are shuffled by an honest proxy, delta 1e-6; given "
        "where this project has the analysis."
    )
    dplcf = (
        f"DPLCF randomises each of {scale.about.items:,} items, so its budget is that many times "
        "its epsilon; `budget of k` gives it the same local budget as the trainings with that k."
    )
    return [budgets, dplcf]


def _verdict(scale: Scale, reader: Reader) -> list[str]:
    found = []
    for k in scale.full_reports:
        mine = {
            row.method: row.at(_splits(scale)[0])
            for row in _rows(scale, scale.full_reports)
            if row.method and row.reports == k
        }
        found += contests(reader, mine, f"k {k}")
    return verdict(found)
