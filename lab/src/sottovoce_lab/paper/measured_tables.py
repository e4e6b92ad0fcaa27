"""Tables of the report from the numbers that `sottovoce paper` writes for each experiment.

A file has a row for each number of a table, with the values of all seeds and a description: labels
and settings at the time of the measurement. So no table changes when the planner changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.characters import pluralize
from sottovoce.core import Named
from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cell_rows import CellRow, read_csv, read_metric, select_rows
from sottovoce_lab.paper.frontier import NAME_COUNTING, TARGET_QUALITIES, VIEWS
from sottovoce_lab.paper.grid import Grid
from sottovoce_lab.paper.main_table import MAX_CENTRAL_EPSILON, METRIC_LABELS
from sottovoce_lab.paper.poisoning.experiment import ATTACKER_SHARES
from sottovoce_lab.paper.tables import (
    METHOD_LABELS,
    NO_VALUE,
    Table,
    format_budget,
    format_interval,
    make_records,
)
from sottovoce_lab.replay.rivals import FROZEN_NAME, MODEL_NAME, PLAIN_SUFFIX

# The data sets of the main table, and those of them for which the report shows what reports add.
# One of them is 40,000 people of another, which shows what a smaller crowd costs.
MAIN_DATA = ("netflix-75k", "netflix-75k-40k", "netflix-fresh-40k", "ml-1m")
ADDS_DATA = ("netflix-75k", "netflix-fresh-40k")
# The data sets of replays.
REPLAY_DATA = ("netflix-75k", "online-retail")
# Models of a replay that depend on its plan; the others are baselines.
OWN_REPLAY_MODELS = (MODEL_NAME, MODEL_NAME + PLAIN_SUFFIX)
# The labels of our methods begin with this.
OWN_PREFIX = "ours"
# Columns of a difference and its interval.
DIFFERENCE_PARTS = ("difference", "low", "high")
# Parts of labels in the files, and the words that replace them in the report.
REPORT_LABELS = {
    "FMF-LDP (preset paper)": "preset paper",
    "FMF-LDP (preset paper, alpha 4)": "preset paper, alpha 4",
    "paper, coordinate": "preset paper",
    "loudest": OWN_PREFIX,
    "private popularity": "popularity by signs",
    "items by name: counts": "by name, counted",
    "items by name: ALS": "by name, factorised",
}


@dataclass(frozen=True)
class Pivot:
    """How the rows of files become a table."""

    files: tuple[str, ...]
    keys: tuple[str, ...]
    """Columns of the files whose values identify a row of the table."""
    columns: Mapping[str, Mapping[str, str]]
    """For each heading of the table, the values that select its rows of the files."""
    has_budgets: bool = False
    means_only: bool = False
    has_differences: bool = False
    """Whether differences from popularity are shown instead of means."""
    prefix: str = ""
    """Only rows whose first key begins with this are shown."""
    metric: str = ""
    """Column of a metric, in files with a row for each seed; other files have the values of all
    seeds in one row."""

    def build(self, name: str, folder: Path) -> Table:
        """Build the table."""
        records = [
            row for file in self.files if (folder / file).exists()
            for row in read_csv(folder / file) if row[self.keys[0]].startswith(self.prefix)
        ]  # fmt: skip
        keys = dict.fromkeys(tuple(row[key] for key in self.keys) for row in records)
        lines = [
            (*map(_format_key, key), *budgets, *numbers)
            for key in keys
            for own in [select_rows(records, **dict(zip(self.keys, key, strict=True)))]
            for numbers in [[self._format(select_rows(own, **w)) for w in self.columns.values()]]
            for budgets in [_format_budgets(own) if self.has_budgets else ()]
            if set(numbers) != {NO_VALUE}
        ]
        budgets = ("local", "central") if self.has_budgets else ()
        headings = (*self.keys, *budgets, *self.columns)
        return Table(name, name, headings, lines, [{"rows": len(lines)}])

    def _format(self, rows: Sequence[CellRow]) -> str:
        if not rows:
            return NO_VALUE
        row = rows[0]
        if self.has_differences:
            numbers = [row.get(part) for part in DIFFERENCE_PARTS]
            if not all(numbers):
                return NO_VALUE
            difference, low, high = (f"{float(number or 0):+.4f}" for number in numbers)
            return f"{difference} ({low} to {high})"
        values = [float(value) for value in row.get("values", "").split()]
        interval = read_metric(rows, self.metric) or Interval.from_values(values)
        return f"{interval.mean:.3f}" if self.means_only else format_interval(interval)


def _format_key(text: str) -> str:
    """Return a number with thousands separated, and a label as the report calls it."""
    try:
        number = float(text)
        return f"{number:,.0f}" if number.is_integer() else f"{number:,g}"
    except ValueError:
        for part, label in REPORT_LABELS.items():
            text = text.replace(part, label)
        return text


def _format_budgets(rows: Sequence[CellRow]) -> tuple[str, ...]:
    """Return the local and the central budget, which are empty where there is none."""
    texts = []
    for name in ("local", "central"):
        value = float(rows[0][name]) if rows[0][name] else None
        # With a larger central budget, a crowd hides nobody's reports.
        is_shown = name == "local" or value is None or value <= MAX_CENTRAL_EPSILON
        text = "" if value is None else format_budget(value)
        texts.append(text if is_shown else f"above {MAX_CENTRAL_EPSILON:g}")
    return tuple(texts)


@dataclass(frozen=True)
class Listing:
    """How each row of a file becomes a row of a table."""

    files: tuple[str, ...]
    columns: Mapping[str, Callable[[CellRow], str]]
    """For each heading of the table, the text of a row."""
    required: str = ""
    """Only rows with a value in this column are shown."""

    def build(self, name: str, folder: Path) -> Table:
        """Build the table."""
        rows = [
            row for row in read_csv(folder / self.files[0])
            if not self.required or row[self.required]
        ]  # fmt: skip
        lines = [tuple(write(row) for write in self.columns.values()) for row in rows]
        return Table(name, name, tuple(self.columns), lines, [{"rows": len(lines)}])


def _round(column: str) -> Callable[[CellRow], str]:
    return lambda row: f"{float(row[column]):.4f}" if row[column] else NO_VALUE


def _copy(column: str) -> Callable[[CellRow], str]:
    return lambda row: _format_key(row[column])


@dataclass(frozen=True)
class Targets:
    """A table of the least measured budget with which each method reaches a quality."""

    files: tuple[str, ...] = ("frontier.csv",)

    def build(self, name: str, folder: Path) -> Table:
        """Build the table."""
        points = read_csv(folder / self.files[0])
        methods = list(dict.fromkeys(point["method"] for point in points))
        lines = [
            (f"{target:.2f}", *(self._find_budgets(points, method, target) for method in methods))
            for target in TARGET_QUALITIES
        ]
        headings = ("HR@10", *(_format_key(METHOD_LABELS[method]) for method in methods))
        return Table(name, name, headings, lines, [{"rows": len(lines)}])

    def _find_budgets(self, points: Sequence[CellRow], method: str, target: float) -> str:
        """Return the least local budget and, in brackets, the least central one.

        If no measured point reaches the quality, return `NO_VALUE`.
        """
        reached = [p for p in select_rows(points, method=method) if float(p["mean"]) >= target]
        if not reached:
            return NO_VALUE
        local, central = (
            format_budget(min(float(point[view]) for point in reached)) for view in VIEWS
        )
        # Reports that name items have no central budget, so only the local one is shown.
        return local if method == NAME_COUNTING else f"{local} ({central})"


def list_replay_rows(replays: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the numbers of the later periods of replays of the same data, from their JSON files.

    Args:
        replays: Contents of files of `sottovoce replay --json`. Baselines that are in several of
            them are taken from the one with the most seeds. Frozen models are left out.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for replay in sorted(replays, key=lambda one: len(one["runs"]), reverse=True):
        for row in _list_rows(replay):
            rows.setdefault((row["plan"], row["model"], row["metric"]), row)
    # Baselines, which have no plan, come last.
    return sorted(rows.values(), key=lambda row: row["plan"] == "")


def _list_rows(replay: Mapping[str, Any]) -> list[dict[str, Any]]:
    settings, runs = replay["settings"], replay["runs"]
    later = [
        [
            one
            for one in run["periods"]
            if one["epochs"] > settings["periods"] // 2 and one["tested"]
        ]
        for run in runs
    ]
    differences = {
        (one["model"], one["metric"]): {part: one[part] for part in DIFFERENCE_PARTS}
        for one in replay["differences"]["models"]
    }
    rows = []
    for model, metrics in replay["later"].items():
        for metric in metrics if not model.startswith(FROZEN_NAME) else ():
            means = [
                sum(one["quality"][model][metric] for one in periods) / len(periods)
                for periods in later
            ]
            plan = _describe_plan(settings) if model in OWN_REPLAY_MODELS else ""
            about = {"plan": plan, "model": model, "metric": metric}
            rows += [
                record | differences.get((model, metric), {})
                for record in make_records(Interval.from_values(means), **about)
            ]
    return rows


def _describe_plan(settings: Mapping[str, Any]) -> str:
    """Return what one person sends in a lifetime, as "names: 4 reports of eps 12.5"."""
    subject = "names" if settings["mechanism"] == Named.name else "taste"
    reports = settings["reports"] * (settings["lifetime"] or settings["epochs"])
    text = f"{subject}: {pluralize(reports, 'report')} of eps {settings['epsilon']:.3g}"
    if settings["dummies"]:
        text += f", {settings['dummies']:,} dummies in an epoch"
    return text


def _list_main_pivots() -> dict[str, Pivot]:
    pivots = {}
    for data in MAIN_DATA:
        columns = {
            f"{split}: {label}": {"split": split, "metric": metric}
            for split in ("random", "latest")
            for metric, label in METRIC_LABELS.items()
        }
        files = tuple(f"main-{data}-{split}.csv" for split in ("random", "latest"))
        pivots[f"main-{data}"] = Pivot(files, ("method",), columns, has_budgets=True)
        for split in ("random", "latest") if data in ADDS_DATA else ():
            pivots[f"adds-{data}-{split}"] = Pivot(
                (f"main-{data}-{split}.csv",),
                ("method",),
                {label: {"metric": metric} for metric, label in METRIC_LABELS.items()},
                has_differences=True,
                prefix=OWN_PREFIX,
            )
    return pivots


PIVOTS: dict[str, Pivot | Listing | Targets] = {
    **_list_main_pivots(),
    **{
        f"replay-{data}": Pivot(
            (f"replay-{data}.csv",),
            ("model", "plan"),
            {
                "HR@10 all": {"metric": "hr@10"},
                "HR@50 all": {"metric": "hr@50"},
                "NDCG@100 all": {"metric": "ndcg@100"},
                "HR@10 of 100": {"metric": "hr@10 sampled"},
            },
        )
        for data in REPLAY_DATA
    },
    **{
        f"differences-replay-{data}": Pivot(
            (f"replay-{data}.csv",),
            ("model", "plan"),
            {"HR@10 all": {"metric": "hr@10"}, "NDCG@100 all": {"metric": "ndcg@100"}},
            has_differences=True,
        )
        for data in REPLAY_DATA
    },
    **{
        name: Pivot(
            (f"{name}.csv",),
            keys,
            {label: {"metric": metric} for metric, label in METRIC_LABELS.items()},
        )
        for name, keys in (
            ("start", ("data", "people", "lists", "budget")), ("volunteers", ("lists", "budget")),
        )
    },
    "replay-start": Pivot(
        ("replay-start.csv",),
        ("model", "budget"),
        {
            "HR@10 all": {"metric": "hr@10"},
            "NDCG@100 all": {"metric": "ndcg@100"},
            "HR@10 of 100": {"metric": "hr@10 sampled"},
            "of ten, off the chart": {"metric": "off chart@10"},
        },
    ),
    "libraries": Listing(
        ("libraries.csv",),
        {
            "data": _copy("data"),
            "model": _copy("model"),
            "metric, whole catalogue": _copy("metric"),
            **{library: _round(library) for library in ("ours", "LensKit", "implicit")},
        },
    ),
    "tuned": Listing(
        ("tuned.csv",),
        {
            "method": lambda row: {"mf": "ALS", "ease": "EASE"}[row["method"]],
            "best for": lambda row: ", ".join(
                label
                for metric, label in METRIC_LABELS.items()
                if metric in row["best"].split("; ")
            ),
            "factors": _copy("factors"),
            "ridge": lambda row: _format_key(row["regularization"] or row["ridge"]),
            "alpha": _copy("alpha"),
            **{label: _round(metric) for metric, label in METRIC_LABELS.items()},
        },
        required="best",
    ),
    "law": Listing(
        ("law.csv",),
        {
            "people": _copy("people"),
            "eps": _copy("epsilon"),
            "reports in a life": lambda row: (
                "1" if row["reports"] == "1" else f"{row['reports']} x {Grid.epochs}"
            ),
            "z": lambda row: _format_key(f"{float(row['signal']):.3g}"),
            "HR@10": lambda row: format_interval(
                Interval.from_values([float(value) for value in row["values"].split()])
            ),
            "predicted": _round("predicted"),
            "miss": lambda row: f"{float(row['predicted']) - float(row['mean']):+.4f}",
        },
    ),
    "poisoning": Pivot(
        ("poisoning.csv",),
        ("pushed", "attacker"),
        {
            f"{label}: {100 * share:g}%": {
                "metric": "exposure@10", "defended": str(defended), "share": str(share),
            }
            for defended, label in ((False, "undefended"), (True, "defended"))
            for share in (0.0, *ATTACKER_SHARES)
        },
    ),
    "more-budget": Pivot(
        ("more-budget.csv",),
        ("people", "items"),
        {
            f"{learn}: {budget:,}": {"learn": learn, "budget": str(budget)}
            for learn in ("names", "taste")
            for budget in (10, 50, 200, 500, 2_000)
        },
        means_only=True,
        metric="hr@10",
    ),
    "table4": Pivot(
        ("table4.csv",),
        ("users", "items"),
        {
            label: {"method": method}
            for method, label in (("loudest", "ours"), ("mf", "MF-NP"), ("popularity",) * 2)
        },
    ),
    "fig2": Pivot(
        ("fig2.csv",),
        ("users", "epsilon"),
        {f"k {k}": {"method": "loudest", "reports": str(k)} for k in (1, 50, 100, 250)},
        means_only=True,
    ),
    "fig3": Pivot(
        ("fig3.csv",),
        ("users", "reports"),
        {f"epoch {n}": {"method": "loudest", "epoch": str(n)} for n in (1, 10, 20, 30)},
    ),
    "table5": Pivot(
        ("table5.csv", "table5-time.csv"),
        ("method",),
        {
            "latest": {"metric": "hr@10"},
            "latest, with order": {"split": "latest", "known": "time"},
            "date": {"split": "date", "known": "alone"},
            "date, with order": {"split": "date", "known": "time"},
        },
        has_budgets=True,
    ),
    "equal-local": Pivot(
        ("equal-local.csv",),
        ("method",),
        {f"local {b:,}": {"budget": f"{b:.1f}"} for b in (10, 50, 5_000)},
    ),
    "equal-central": Pivot(
        ("equal-central.csv",),
        ("method",),
        {f"central {b:g}": {"budget": f"{b}"} for b in (0.32, 1.0, 2.12)},
    ),
    "late": Pivot(
        ("late.csv",),
        ("method",),
        {
            f"{label}{', tags' * (kind == 'tags')}": {"metric": metric, "known": kind}
            for kind in ("alone", "tags")
            for metric, label in (("recall@20", "Recall@20"), ("ndcg@100", "NDCG@100"))
        },
        has_budgets=True,
    ),
    "people-history": Pivot(
        ("people-history-kept.csv",),
        ("method",),
        {f"fifth {n} of people": {"fifth": str(n)} for n in range(1, 6)},
    ),
    "people-item": Pivot(
        ("people-item-kept.csv", "people-exposure.csv"),
        ("method",),
        {
            **{f"fifth {n} of items": {"fifth": str(n)} for n in range(1, 6)},
            "share of the catalogue": {"metric": "coverage@10"},
        },
    ),
    "frontier": Targets(),
    "attacker": Pivot(
        ("attacker.csv",),
        ("preset", "question"),
        {guess: {"guess": guess} for guess in ("linked", "unlinked")},
        has_budgets=True,
    ),
    "known": Pivot(
        ("known.csv",),
        ("method", "split"),
        {
            label: {"known": kind}
            for kind, label in (
                ("alone", "alone"), ("tags", "with tags"), ("time", "with order"),
                ("both", "with both"),
            )
        },
    ),
}  # fmt: skip


def build_measured_tables(folder: Path) -> dict[str, Table]:
    """Return the tables whose numbers are in the folder, by name."""
    tables = {
        name: pivot.build(name, folder)
        for name, pivot in PIVOTS.items()
        if any((folder / file).exists() for file in pivot.files)
    }
    return {name: table for name, table in tables.items() if table.rows}


def find_measured(folder: Path, data: str) -> dict[str, Path]:
    """Return the files of a folder of results that the tables need, by their names in the report.

    Args:
        folder: Results of `sottovoce paper`.
        data: Name of the data set of these results. In the report, it is a part of the names of the
            main table's files.
    """
    names = {file for pivot in PIVOTS.values() for file in pivot.files}
    sources = {name: folder / name.replace(f"-{data}-", "-", 1) for name in names}
    is_main = {name: name.startswith("main-") for name in names}
    return {
        name: path
        for name, path in sources.items()
        if path.exists() and (not is_main[name] or path.name != name)
    }
