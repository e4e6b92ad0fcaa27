"""Who pays for privacy: quality by how much people touched and by how popular an item is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sottovoce.simulation.evaluation import Interval
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.measures import CUTOFF, FIFTHS, fifth_name
from sottovoce_lab.paper.rules import FEW_FACTORS
from sottovoce_lab.paper.scale import EPSILON, Family, Scale
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.style import lines
from sottovoce_lab.paper.tables import METRIC, NAMES, Reader, Table, budget, record, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Kind = Literal["history", "item"]

NAME = "people"
TITLE = "Who pays for privacy"
FULL = Size()
KINDS: dict[Kind, tuple[str, str, str]] = {
    "history": ("people by how much they touched", "the least active fifth", "the most active"),
    "item": ("items by how popular they are", "the fifth of rare items", "that of popular ones"),
}
"""What is cut into fifths, and what the first and the last are called."""
COLOURS = [
    "#888888",
    "#222222",
    "#999966",
    "#b3402a",
    "#1b6ca8",
    "#a9cfe8",
    "#7fb2d9",
    "#4b93c4",
    "#0d3c61",
]
"""As many as there are rows, at most."""
EXPOSED = {f"coverage@{CUTOFF}": f"coverage@{CUTOFF}", f"gini@{CUTOFF}": "Gini index"}
NOTES: dict[Kind, str] = {
    "history": "A fifth of the people in each, by how many items their training history has.",
    "item": (
        "A fifth of the interactions in each, not of the items: of the fifth of items that is "
        "touched least hardly one is ever left out. The 99 others are drawn uniformly, so any "
        "model that knows what is popular finds the most popular items."
    ),
}
EXPOSURE = (
    f"Coverage@{CUTOFF}: the share of the catalogue that is in anybody's first {CUTOFF} of all "
    "items that they did not touch. Gini index of how often items are there: 0 all alike, 1 one "
    "item alone."
)


@dataclass(frozen=True)
class Row:
    label: str
    family: Family
    private: bool = False


def cells(scale: Scale) -> list[Cell]:
    return scale.all_of(row.family for row in _rows(scale))


def tables(scale: Scale, store: CellStore) -> list[Table]:
    reader, rows = Reader(store, scale), _rows(scale)
    both = (_by_fifth, _kept_table)
    return [
        *(build(reader, rows, kind) for kind in KINDS for build in both),
        _exposure(reader, rows),
    ]


def draw(scale: Scale, store: CellStore, figure: Figure) -> None:
    reader, rows = Reader(store, scale), _rows(scale)
    panels = figure.subplots(1, len(KINDS), sharey=True)
    for axes, (kind, (title, _, _)) in zip(panels, KINDS.items(), strict=True):
        for row, colour in zip(rows, COLOURS, strict=False):
            kept = _kept(reader, rows, row, kind)
            lines(axes, list(enumerate(kept, start=1)), row.label, colour)
        axes.set(xticks=range(1, FIFTHS + 1), xlabel=f"fifths: {title}")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(f"HR@{CUTOFF} / that of MF-NP")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4)


def _rows(scale: Scale) -> list[Row]:
    k = scale.full_reports[0]
    few = scale.ceiling(FULL, factors=FEW_FACTORS)
    paper, ours = (scale.trained(name, FULL, EPSILON, k) for name in ("paper", "loudest"))
    found = [
        Row("popularity", scale.popularity(FULL)),
        Row("MF-NP", scale.ceiling(FULL)),
        Row(f"MF-NP, {FEW_FACTORS} factors", few),
        Row(f"{NAMES['paper']}, k {k}", paper, private=True),
        Row(f"loudest, k {k}", ours, private=True),
        *(
            Row(
                f"loudest, budget {local:g}",
                scale.planned(FULL, Budget(local=local)),
                private=True,
            )
            for local in scale.lifetimes
        ),
    ]
    return [replace(row, family=_by_people(row.family)) for row in found]


def _by_people(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="people")


def _by_fifth(reader: Reader, rows: list[Row], kind: Kind) -> Table:
    shown_rows, records = [], []
    for row in rows:
        metrics = [METRIC, *(fifth_name(kind, fifth) for fifth in range(FIFTHS))]
        found = [reader.interval(row.family, metric) for metric in metrics]
        spent = reader.budget(row.family)
        for fifth, interval in enumerate(found):
            records += record(interval, method=row.label, fifth=fifth or "all", **spent)
        shown_rows.append((row.label, *map(shown, found), budget(spent["local"])))
    headings = ("method", "all", *_fifths(reader, rows, kind), "local budget")
    title = f"{TITLE}: HR@{CUTOFF}, {KINDS[kind][0]}"
    return Table(f"{NAME}-{kind}", title, headings, shown_rows, records, [NOTES[kind]])


def _kept_table(reader: Reader, rows: list[Row], kind: Kind) -> Table:
    shown_rows, records = [], []
    for row in rows:
        kept = _kept(reader, rows, row, kind)
        for fifth, interval in enumerate(kept, start=1):
            records += record(interval, method=row.label, fifth=fifth)
        shown_rows.append((row.label, *map(shown, kept)))
    headings = ("method", *_fifths(reader, rows, kind))
    title = f"{TITLE}: HR@{CUTOFF} divided by that of MF-NP, split by split, {KINDS[kind][0]}"
    answers = [_answer(reader, rows, row, kind) for row in rows if row.private]
    notes = [answer for answer in answers if answer]
    return Table(f"{NAME}-{kind}-kept", title, headings, shown_rows, records, notes)


def _exposure(reader: Reader, rows: list[Row]) -> Table:
    shown_rows, records = [], []
    for row in rows:
        found = {metric: reader.interval(row.family, metric) for metric in EXPOSED}
        for metric, interval in found.items():
            records += record(interval, method=row.label, metric=metric)
        shown_rows.append((row.label, *map(shown, found.values())))
    title = f"{TITLE}: which part of the catalogue is recommended at all"
    headings = ("method", *EXPOSED.values())
    return Table(f"{NAME}-exposure", title, headings, shown_rows, records, [EXPOSURE])


def _kept(reader: Reader, rows: list[Row], row: Row, kind: Kind) -> list[Interval | None]:
    found = _shares(reader, rows, row, kind)
    return [Interval.of(list(each.values())) if each else None for each in found]


def _shares(reader: Reader, rows: list[Row], row: Row, kind: Kind) -> list[dict[int, float]]:
    """Of MF-NP's HR@10, by fifth and seed: both saw the same split and the same negatives."""
    best = next(each for each in rows if each.label == NAMES["mf"])
    found = []
    for metric in (fifth_name(kind, fifth) for fifth in range(FIFTHS)):
        mine, theirs = (reader.values(each.family, metric) for each in (row, best))
        found.append({seed: mine[seed] / theirs[seed] for seed in mine if theirs.get(seed)})
    return found


def _answer(reader: Reader, rows: list[Row], row: Row, kind: Kind) -> str | None:
    """Who pays, in one sentence; None before it is known."""
    first, *_, last = _shares(reader, rows, row, kind)
    seeds = [seed for seed in first if seed in last]
    if not seeds:
        return None
    _, least, most = KINDS[kind]
    low, high = (Interval.of([100 * share[seed] for seed in seeds]) for share in (first, last))
    apart = Interval.of([100 * (last[seed] - first[seed]) for seed in seeds])
    sure = "" if apart.half_width is None else f" ± {apart.half_width:.1f}"
    return (
        f"{row.label}: {least} keeps {low.mean:.1f}% of what MF-NP gives it, {most} "
        f"{high.mean:.1f}% ({apart.mean:+.1f}{sure} points)."
    )


def _fifths(reader: Reader, rows: list[Row], kind: Kind) -> list[str]:
    """What each holds, on the first split that is known."""
    results = (reader.store.get(row.family(seed)) for row in rows for seed in reader.scale.seeds)
    known = next((result["fifths"][kind] for result in results if result is not None), None)
    if known is None:
        return [f"{fifth + 1}" for fifth in range(FIFTHS)]
    if kind == "item":
        return [f"{fifth}: {count:,} items" for fifth, count in enumerate(known, start=1)]
    return [f"{fifth}: {low:,} to {high:,}" for fifth, (low, high) in enumerate(known, start=1)]
