"""Table 5: every method on the full set, private and not, each with what it costs a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.experiments.paper import published
from sottovoce.experiments.paper.cells import THEIRS, TRAINED, Cell, Size
from sottovoce.experiments.paper.rules import FEW_FACTORS
from sottovoce.experiments.paper.scale import EPSILON
from sottovoce.experiments.paper.style import bars
from sottovoce.experiments.paper.tables import (
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

    from sottovoce.data.split import SplitRule
    from sottovoce.experiments.paper.cells import Trained
    from sottovoce.experiments.paper.scale import Family, Scale
    from sottovoce.experiments.paper.store import CellStore

NAME = "table5"
TITLE = "Table 5: all methods on the full set"
CUTOFFS = (2, 5, 10)
FULL = Size()


@dataclass(frozen=True)
class Row:
    label: str
    family: Family
    said: str | None = None
    """Which row of the paper's table it is."""
    private: bool = False
    method: Trained | None = None
    reports: int | None = None


def cells(scale: Scale) -> list[Cell]:
    return scale.all_of(row.family for row in _rows(scale))


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader = Reader(store, scale)
    rows, records = [], []
    for row in _rows(scale):
        said = published.TABLE5.get(row.said or "", (None, None, None))
        found = {cutoff: reader.interval(row.family, f"hr@{cutoff}") for cutoff in CUTOFFS}
        spent = reader.budget(row.family)
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
    title = f"{TITLE}: {_split(scale)} interaction left out, eps {EPSILON:g}, {scale.epochs} epochs"
    return [Table(NAME, title, headings, rows, records, [*_notes(scale), *_verdict(scale, reader)])]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, rows = Reader(store, scale), _rows(scale)
    found = [reader.interval(row.family) for row in rows]
    said = [published.TABLE5[row.said][2] if row.said else None for row in rows]
    series = {
        "here": [None if each is None else each.mean for each in found],
        "paper (ML-20M)": said,
    }
    axes = figure.subplots()
    bars(axes, [row.label for row in rows], series, ["#1b6ca8", "#cccccc"])
    axes.set(xlabel="HR@10")
    axes.legend(loc="lower right", fontsize=8)


def _rows(scale: Scale) -> list[Row]:
    split, full = _split(scale), FULL
    rows = [
        Row("Random", lambda s: Cell.make("random", full, s, split=split), "Random"),
        Row("Popularity", scale.popularity(full, split)),
        Row("MF-NP", scale.ceiling(full, split), "MF-NP"),
        Row("FCF (federated, not private)", scale.fcf(full, split)),
        Row(
            f"DPLCF, {EPSILON:g} an item", scale.dplcf(full, EPSILON, split), "DPLCF", private=True
        ),
    ]
    for k in scale.full_reports:
        same = k * EPSILON * scale.epochs / scale.about.items
        rows += [
            Row(f"DPLCF, budget of k {k}", scale.dplcf(full, same, split), private=True),
            Row(f"private popularity, budget of k {k}", _counted(scale, k), private=True),
        ]
        for method in TRAINED:
            family = scale.trained(method, full, EPSILON, k, split=split)
            said = f"FMF-LDP-{k}" if method == "paper" else None
            name = f"FMF-LDP ({NAMES[method]})" if method in THEIRS else NAMES[method]
            said = said if said in published.TABLE5 else None
            rows.append(Row(f"{name}, k {k}", family, said, private=True, method=method, reports=k))
        narrow = scale.trained("loudest", full, EPSILON, k, split=split, factors=FEW_FACTORS)
        rows.append(Row(f"loudest, {FEW_FACTORS} factors, k {k}", narrow, private=True))
    return rows


def _counted(scale: Scale, k: int) -> Family:
    return lambda seed: Cell.make(
        "private-popularity", FULL, seed, split=_split(scale), epsilon=EPSILON,
        reports=k * scale.epochs,
    )  # fmt: skip


def _split(scale: Scale) -> SplitRule:
    """The paper leaves the latest one out here; data without times cannot."""
    return scale.splits[-1]


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
        mine = {row.method: row.family for row in _rows(scale) if row.method and row.reports == k}
        found += contests(reader, mine, f"k {k}")
    return verdict(found)
