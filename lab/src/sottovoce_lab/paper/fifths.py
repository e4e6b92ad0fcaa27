"""The cost of privacy by activity of people and popularity of items; how evenly items are shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.simulation.evaluation.metrics import (
    Interval,
    compute_gini,
    compute_hits,
    count_exposure,
    coverage,
    summarize_ranks,
)
from sottovoce.simulation.evaluation.ranking import Candidates, find_testable_users, rank_factors
from sottovoce.training import Budget
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.grid import PAPER_EPSILON, PAPER_FACTORS, Family
from sottovoce_lab.paper.plots import draw_curve
from sottovoce_lab.paper.published_models import PublishedModel
from sottovoce_lab.paper.tables import (
    MAIN_METRIC,
    METHOD_LABELS,
    Experiment,
    Table,
    format_budget,
    format_interval,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Number of items that a person sees.
LIST_LENGTH = 10
FIFTH_COUNT = 5
# What is divided into fifths: people by the lengths of their histories, or items by popularity.
FifthKind = Literal["history", "item"]
# For each kind: its heading, and the names of the first and the last fifth.
FIFTH_LABELS: dict[FifthKind, tuple[str, str, str]] = {
    "history": ("people by how much they touched", "the least active fifth", "the most active"),
    "item": ("items by how popular they are", "the fifth of rare items", "that of popular ones"),
}
# Colours of the rows, in their order.
ROW_COLOURS = [
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
EXPOSURE_LABELS = {
    f"coverage@{LIST_LENGTH}": f"coverage@{LIST_LENGTH}",
    f"gini@{LIST_LENGTH}": "Gini index",
}
FIFTH_NOTES: dict[FifthKind, str] = {
    "history": "Each column is a fifth of the people, in the order of how many items they have.",
    "item": (
        "Each column has a fifth of the interactions, not of the items: items of the least popular "
        "fifth are hardly ever left out. The 99 others are drawn uniformly, so any model that "
        "knows what is popular finds the most popular items."
    ),
}
EXPOSURE_NOTE = (
    f"Coverage@{LIST_LENGTH}: the share of the catalogue that is in anybody's first {LIST_LENGTH} "
    "of all items that they did not touch. Gini index of how often items are in these lists: 0 "
    "if all items are shown equally often, 1 if only one item is shown."
)


def measure_fifths(model: PublishedModel, candidates: Candidates) -> dict[str, Any]:
    """Return HR@10 of each fifth of people and of items, and how evenly items are shown."""
    train, test = candidates.split.train, candidates.split.test
    X, V = model.solve_vectors(train), model.V
    ranks, tested = rank_factors(X, V, candidates), find_testable_users(candidates)
    is_hit, counts = compute_hits(ranks, LIST_LENGTH), train.popularity()
    lengths = np.diff(train.indptr)[tested]
    by_history = assign_fifths(lengths, np.ones(len(lengths)))
    # Items are weighted by their interactions. So a fifth has a fifth of the interactions, not of
    # the items.
    by_item = assign_fifths(counts, counts)
    exposures = count_exposure(X, V, train, LIST_LENGTH)
    return {
        "final": {
            **summarize_ranks(ranks),
            **_average_fifths("history", is_hit, by_history),
            **_average_fifths("item", is_hit, by_item[test[tested]]),
            f"coverage@{LIST_LENGTH}": coverage(exposures),
            f"gini@{LIST_LENGTH}": compute_gini(exposures),
        },
        "fifths": {
            "history": [_find_range(lengths[by_history == n]) for n in range(FIFTH_COUNT)],
            "item": np.bincount(by_item, minlength=FIFTH_COUNT).tolist(),
        },
    }


def assign_fifths(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Return the fifth, from 0, to which each value belongs; fifths have about equal weights.

    The smallest values belong to fifth 0.

    >>> assign_fifths(np.array([9, 1, 1, 1, 1, 1]), np.array([5, 1, 1, 1, 1, 1])).tolist()
    [3, 0, 0, 1, 1, 2]
    """
    # Equal values keep their order, so that equal weights give fifths of equal size.
    order = np.argsort(values, kind="stable")
    sorted_weights = weights[order].astype(np.float64)
    # A value that spans several fifths belongs to the one in which its middle lies.
    middle = np.cumsum(sorted_weights) - sorted_weights / 2
    fifths = np.empty(len(values), np.int64)
    total = max(sorted_weights.sum(), 1.0)
    fifths[order] = np.minimum(FIFTH_COUNT * middle / total, FIFTH_COUNT - 1)
    return fifths


def get_fifth_metric(kind: str, fifth: int) -> str:
    """Return the name of a fifth's HR@10 in a result."""
    return f"hr@{LIST_LENGTH} {kind} {fifth + 1}"


def _average_fifths(
    kind: str, is_hit: NDArray[np.float64], fifths: NDArray[np.int64]
) -> dict[str, float]:
    # An empty fifth has no number.
    return {
        get_fifth_metric(kind, fifth): float(is_hit[fifths == fifth].mean())
        for fifth in range(FIFTH_COUNT)
        if (fifths == fifth).any()
    }


def _find_range(lengths: NDArray[np.int64]) -> tuple[int, int]:
    return int(lengths.min(initial=lengths.max(initial=0))), int(lengths.max(initial=0))


@dataclass(frozen=True)
class Row:
    """One method of the tables."""

    label: str
    family: Family
    private: bool = False


class FifthsExperiment(Experiment):
    """Quality for people by their activity and for items by their popularity."""

    name = "people"
    title = "Who pays for privacy"
    figure_size = (10.0, 5.0)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all methods."""
        return self.grid.list_cells(row.family for row in self._list_rows())

    def build_tables(self) -> list[Table]:
        """Build two tables for each kind of fifths, and one of how evenly items are shown."""
        rows, tables = self._list_rows(), []
        for kind in FIFTH_LABELS:
            tables += [self._build_qualities(rows, kind), self._build_shares(rows, kind)]
        return [*tables, self._build_exposures(rows)]

    def draw(self, figure: Figure) -> None:
        """Draw what each method keeps of MF-NP's HR@10, fifth by fifth."""
        rows = self._list_rows()
        panels = figure.subplots(1, len(FIFTH_LABELS), sharey=True)
        for axes, (kind, (heading, _, _)) in zip(panels, FIFTH_LABELS.items(), strict=True):
            for row, colour in zip(rows, ROW_COLOURS, strict=False):
                shares = self._read_share_intervals(rows, row, kind)
                draw_curve(axes, list(enumerate(shares, start=1)), row.label, colour)
            axes.set(xticks=range(1, FIFTH_COUNT + 1), xlabel=f"fifths: {heading}")
            axes.grid(alpha=0.3)
        panels[0].set_ylabel(f"HR@{LIST_LENGTH} / that of MF-NP")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4)

    def _list_rows(self) -> list[Row]:
        grid, full, k = self.grid, self.grid.full, self.grid.full_reports[0]
        paper = grid.build_training("paper", full, PAPER_EPSILON, k)
        ours = grid.build_training("loudest", full, PAPER_EPSILON, k)
        rows = [
            Row("popularity", grid.build_popularity(full)),
            Row("MF-NP", grid.build_mf(full)),
            Row(f"MF-NP, {PAPER_FACTORS} factors", grid.build_mf(full, factors=PAPER_FACTORS)),
            Row(f"{METHOD_LABELS['paper']}, k {k}", paper, private=True),
            Row(f"loudest, k {k}", ours, private=True),
        ]
        for local in grid.local_budgets:
            planned = grid.build_for_budget(full, Budget(local=local))
            rows.append(Row(f"loudest, budget {local:g}", planned, private=True))
        return [replace(row, family=_test_by_fifths(row.family)) for row in rows]

    def _build_qualities(self, rows: list[Row], kind: FifthKind) -> Table:
        table_rows, records = [], []
        for row in rows:
            metrics = [MAIN_METRIC, *(get_fifth_metric(kind, n) for n in range(FIFTH_COUNT))]
            intervals = [self.reader.read_interval(row.family, metric) for metric in metrics]
            spent = self.reader.read_budget(row.family)
            for fifth, interval in enumerate(intervals):
                records += make_records(interval, method=row.label, fifth=fifth or "all", **spent)
            numbers = map(format_interval, intervals)
            table_rows.append((row.label, *numbers, format_budget(spent["local"])))
        headings = ("method", "all", *self._list_fifth_headings(rows, kind), "local budget")
        title = f"{self.title}: HR@{LIST_LENGTH}, {FIFTH_LABELS[kind][0]}"
        notes = [FIFTH_NOTES[kind]]
        return Table(f"{self.name}-{kind}", title, headings, table_rows, records, notes)

    def _build_shares(self, rows: list[Row], kind: FifthKind) -> Table:
        table_rows, records = [], []
        for row in rows:
            shares = self._read_share_intervals(rows, row, kind)
            for fifth, interval in enumerate(shares, start=1):
                records += make_records(interval, method=row.label, fifth=fifth)
            table_rows.append((row.label, *map(format_interval, shares)))
        headings = ("method", *self._list_fifth_headings(rows, kind))
        title = (
            f"{self.title}: HR@{LIST_LENGTH} divided by that of MF-NP, split by split, "
            f"{FIFTH_LABELS[kind][0]}"
        )
        answers = [self._describe_payers(rows, row, kind) for row in rows if row.private]
        notes = [answer for answer in answers if answer]
        return Table(f"{self.name}-{kind}-kept", title, headings, table_rows, records, notes)

    def _build_exposures(self, rows: list[Row]) -> Table:
        table_rows, records = [], []
        for row in rows:
            intervals = {
                metric: self.reader.read_interval(row.family, metric) for metric in EXPOSURE_LABELS
            }
            for metric, interval in intervals.items():
                records += make_records(interval, method=row.label, metric=metric)
            table_rows.append((row.label, *map(format_interval, intervals.values())))
        title = f"{self.title}: which part of the catalogue is recommended at all"
        headings = ("method", *EXPOSURE_LABELS.values())
        return Table(f"{self.name}-exposure", title, headings, table_rows, records, [EXPOSURE_NOTE])

    def _read_share_intervals(
        self, rows: list[Row], row: Row, kind: FifthKind
    ) -> list[Interval | None]:
        shares = self._read_shares(rows, row, kind)
        return [
            Interval.from_values(list(by_seed.values())) if by_seed else None for by_seed in shares
        ]

    def _read_shares(self, rows: list[Row], row: Row, kind: FifthKind) -> list[dict[int, float]]:
        """Return the share of MF-NP's HR@10 that a method keeps, by fifth and seed."""
        # Compare with MF-NP seed by seed: both methods had the same split and the same negatives.
        best = next(other for other in rows if other.label == METHOD_LABELS["mf"])
        shares = []
        for metric in (get_fifth_metric(kind, fifth) for fifth in range(FIFTH_COUNT)):
            values = self.reader.read_values(row.family, metric)
            best_values = self.reader.read_values(best.family, metric)
            shares.append(
                {seed: values[seed] / best_values[seed] for seed in values if best_values.get(seed)}
            )
        return shares

    def _describe_payers(self, rows: list[Row], row: Row, kind: FifthKind) -> str | None:
        """Return a sentence about the first and the last fifth, or None without results."""
        first, *_, last = self._read_shares(rows, row, kind)
        seeds = [seed for seed in first if seed in last]
        if not seeds:
            return None
        _, first_name, last_name = FIFTH_LABELS[kind]
        low, high = (
            Interval.from_values([100 * share[seed] for seed in seeds]) for share in (first, last)
        )
        # Use the differences within each seed, because their interval is much narrower.
        gap = Interval.from_values([100 * (last[seed] - first[seed]) for seed in seeds])
        half_width = "" if gap.half_width is None else f" ± {gap.half_width:.1f}"
        return (
            f"{row.label}: {first_name} keeps {low.mean:.1f}% of what MF-NP gives it, {last_name} "
            f"{high.mean:.1f}% ({gap.mean:+.1f}{half_width} points)."
        )

    def _list_fifth_headings(self, rows: list[Row], kind: FifthKind) -> list[str]:
        """Return headings that say what each fifth contains, on the first split with a result."""
        results = (self.store.get(row.family(seed)) for row in rows for seed in self.grid.seeds)
        fifths = next((result["fifths"][kind] for result in results if result is not None), None)
        if fifths is None:
            return [f"{fifth + 1}" for fifth in range(FIFTH_COUNT)]
        if kind == "item":
            return [f"{fifth}: {count:,} items" for fifth, count in enumerate(fifths, start=1)]
        return [
            f"{fifth}: {low:,} to {high:,}" for fifth, (low, high) in enumerate(fifths, start=1)
        ]


def _test_by_fifths(family: Family) -> Family:
    return lambda seed: replace(family(seed), measured="people")
