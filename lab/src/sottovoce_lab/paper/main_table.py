"""The main table: every kind of method on one data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.data.split import SplitRule
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce.training import Budget
from sottovoce_lab.bootstrap import RESAMPLE_COUNT, Difference, compute_differences
from sottovoce_lab.paper.cells import Cell, SideKind
from sottovoce_lab.paper.grid import (
    ALS_BY_METRIC,
    EASE_RIDGE_BY_METRIC,
    PAPER_EPSILON,
    Family,
    add_side_information,
    compute_delta,
)
from sottovoce_lab.paper.plots import draw_bars
from sottovoce_lab.paper.tables import (
    NO_VALUE,
    Experiment,
    Table,
    format_budget,
    format_interval,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METRIC_LABELS = {
    "hr@10": "HR@10, 99 others",
    "hr@10 all": "HR@10, all",
    "ndcg@100 all": "NDCG@100, all",
}
# Metrics for which the baselines were tuned.
TUNING_METRICS = ("hr@10", "ndcg@100 all")
# Central budget of the trusted party.
TRUSTED_EPSILON = 1.0
# Larger central budgets are not shown, because with them a crowd hides nobody's reports.
MAX_CENTRAL_EPSILON = 100.0
SIDE_LABELS: dict[SideKind, str] = {"tags": "tags", "both": "tags and order"}
BAR_COLOURS = ["#1b6ca8", "#dd9c6b", "#2a7d4f"]
MAIN_NOTE = (
    "99 others: random items that the person never touched. All: every item that they never "
    "touched. ±: 95% interval over splits. In brackets: the difference to popularity, for rows "
    f"with tags to popularity with tags, and its interval by {RESAMPLE_COUNT:,} draws of people; "
    "all intervals of a table hold together with 95%. Budgets are of a device for a lifetime, for "
    "replacing its whole history. Local: every "
    "report can be traced. Central: an honest proxy shuffles the reports of honest people; of "
    "DP-ALS: one party holds every history. No central figure is given above "
    f"{MAX_CENTRAL_EPSILON:g}."
)


@dataclass(frozen=True)
class Row:
    """One method, without or with side information."""

    label: str
    family: Family
    side: SideKind | None = None
    """Side information of devices."""

    def get_draws_name(self, metric: str) -> str:
        """Return the name under which a result has the bootstrap draws of a metric."""
        return metric if self.side is None else f"{self.side} {metric}"


class MainTable(Experiment):
    """Quality of all kinds of methods, ranked among sampled items and in the whole catalogue."""

    name = "main"
    title = "The main table"
    figure_size = (9.0, 9.0)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all rows, each once."""
        rows = (row for split in self.grid.splits for row in self._rows[split])
        return list(dict.fromkeys(self.grid.list_cells(row.family for row in rows)))

    def build_tables(self) -> list[Table]:
        """Build a table for each rule by which an interaction is left out."""
        return [self._build_table(split) for split in self.grid.splits]

    def draw(self, figure: Figure) -> None:
        """Draw a bar for each method and metric."""
        panels = figure.subplots(len(self.grid.splits), squeeze=False)[:, 0]
        for axes, split in zip(panels, self.grid.splits, strict=True):
            rows = self._rows[split]
            series = {
                label: [self._read_interval(row, metric) for row in rows]
                for metric, label in METRIC_LABELS.items()
            }
            draw_bars(axes, [row.label for row in rows], series, BAR_COLOURS)
            axes.set_title(f"{split} interaction left out", fontsize=9)
        panels[0].legend(loc="lower right", fontsize=8)

    def _build_table(self, split: SplitRule) -> Table:
        rows, records = [], []
        differences = self._compute_differences(split)
        for row in self._rows[split]:
            numbers: list[str] = []
            spent = self.reader.read_budget(row.family)
            delta = row.family(0).options.get("delta", compute_delta(self.grid.people))
            about = {"method": row.label, "split": split}
            for metric in METRIC_LABELS:
                mean = self._read_interval(row, metric)
                difference = differences.get((row.label, metric))
                added = {} if difference is None else asdict(difference)
                records += [
                    record | added
                    for record in make_records(mean, **about, metric=metric, **spent, delta=delta)
                ]
                numbers += [
                    format_interval(mean), NO_VALUE if difference is None else str(difference)
                ]  # fmt: skip
            central = spent["central"]
            has_central = central is not None and central <= MAX_CENTRAL_EPSILON
            rows.append(
                (
                    row.label, *numbers, format_budget(spent["local"]),
                    format_budget(central) if has_central else NO_VALUE,
                    f"{delta:g}" if has_central else NO_VALUE,
                )
            )  # fmt: skip
        measured = [
            heading for label in METRIC_LABELS.values() for heading in (label, "- popularity")
        ]
        headings = ("method", *measured, "local", "central", "delta")
        users = f"{self.grid.format_users(self.grid.full)} users"
        title = f"{self.title}: {users}, {split} interaction left out"
        return Table(f"{self.name}-{split}", title, headings, rows, records, [MAIN_NOTE])

    @cached_property
    def _rows(self) -> dict[SplitRule, list[Row]]:
        # Cached, because planning a budget takes a while.
        return {split: self._list_rows(split) for split in self.grid.splits}

    def _list_rows(self, split: SplitRule) -> list[Row]:
        """Return the rows from small budgets to large ones, and then those without privacy."""
        grid, full = self.grid, self.grid.full
        kinds: tuple[SideKind, ...] = ("tags",) if split == "random" else ("tags", "both")
        kinds = kinds if grid.about.tags else ()
        popularity = add_side_information(grid.build_popularity(full, split), *kinds[:1])
        rows = [
            Row("random", lambda seed: Cell.from_parameters("random", full, seed, split=split)),
            Row("popularity", popularity),
            *(Row(f"popularity, {SIDE_LABELS[kind]}", popularity, kind) for kind in kinds[:1]),
        ]
        for local, central in ((10.0, 1.0), (10.0, None), (50.0, 3.0), (50.0, None)):
            # Only trainings without a central budget are tested with side information.
            tested = kinds if central is None else ()
            spend = Budget(local=local, central=central)
            family = add_side_information(grid.build_for_budget(full, spend, split=split), *tested)
            label = f"ours, budget {local:g}" + (
                "" if central is None else f", central {central:g}"
            )
            rows.append(Row(label, family))
            rows += [Row(f"{label}, {SIDE_LABELS[kind]}", family, kind) for kind in tested]
        k, largest = grid.full_reports[0], grid.local_budgets[-1]
        setup = f"eps {PAPER_EPSILON:g}, k {k}, T {grid.epochs}"
        ours = grid.build_training("loudest", full, PAPER_EPSILON, k, split=split)
        paper = grid.build_training("paper", full, PAPER_EPSILON, k, split=split)
        planned = grid.build_for_budget(full, Budget(local=largest), split=split)
        rows += [
            Row("DP-ALS, trusted", grid.build_dp_als(full, TRUSTED_EPSILON, split)),
            Row(f"ours, {setup}", ours),
            Row(f"preset paper, {setup}", paper),
            Row(f"ours, budget {largest:g}", planned),
            Row("MF-NP", grid.build_mf(full, split)),
            *self._list_tuned_rows(split),
        ]
        return [replace(row, family=rank_in_catalogue(row.family)) for row in rows]

    def _list_tuned_rows(self, split: SplitRule) -> Iterator[Row]:
        """Yield a row for each tuned baseline and metric, or one if both have the same setting."""
        full = self.grid.full
        for metric in TUNING_METRICS:
            als = self.grid.build_mf(full, split, **ALS_BY_METRIC[metric])
            ease = self.grid.build_ease(full, EASE_RIDGE_BY_METRIC[metric], split)
            for name, settings, family in (
                ("ALS", ALS_BY_METRIC, als), ("EASE", EASE_RIDGE_BY_METRIC, ease),
            ):  # fmt: skip
                is_same = settings[TUNING_METRICS[0]] == settings[TUNING_METRICS[-1]]
                if is_same and metric == TUNING_METRICS[0]:
                    yield Row(f"{name}, tuned", family)
                elif not is_same:
                    yield Row(f"{name}, tuned for {METRIC_LABELS[metric]}", family)

    def _read_interval(self, row: Row, metric: str) -> Interval | None:
        if row.side is None:
            return self.reader.read_interval(row.family, metric)
        return self.reader.read_side_interval(row.family, row.side, metric)

    def _compute_differences(self, split: SplitRule) -> dict[tuple[str, str], Difference]:
        """Return differences from popularity, by label and metric.

        Rows with side information are compared with popularity with tags.
        """
        differences, draws = {}, {}
        for row in self._rows[split]:
            popularity = next(
                other
                for other in self._rows[split]
                if other.label.startswith("popularity")
                and (other.side is not None) == (row.side is not None)
            )
            pairs = [
                (ours, theirs)
                for seed in self.grid.seeds
                if (ours := self.store.get(row.family(seed)))
                and (theirs := self.store.get(popularity.family(seed)))
            ]
            if row.label == popularity.label or not pairs:
                continue
            for metric in METRIC_LABELS:
                key = row.label, metric
                name, other = row.get_draws_name(metric), popularity.get_draws_name(metric)
                gains = [
                    _get_metric(row, ours, metric) - _get_metric(popularity, theirs, metric)
                    for ours, theirs in pairs
                ]
                drawn = [
                    np.subtract(ours["draws"][name], theirs["draws"][other])
                    for ours, theirs in pairs
                ]
                differences[key], draws[key] = sum(gains) / len(gains), np.mean(drawn, axis=0)
        return compute_differences(differences, draws)


def _get_metric(row: Row, result: dict[str, Any], metric: str) -> float:
    metrics = result["final"] if row.side is None else result["known"][row.side]
    return float(metrics[metric])


def rank_in_catalogue(family: Family) -> Family:
    """Return the same cells, tested among sampled items and in the whole catalogue."""
    return lambda seed: replace(family(seed), measured="catalogue")
