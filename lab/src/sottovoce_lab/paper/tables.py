"""The base class of experiments, results of several splits, and tables."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.grid import Family, Grid
from sottovoce_lab.paper.store import CellStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAIN_METRIC = "hr@10"
# Text of a table's cell without a number.
NO_VALUE = "-"
# Headings of the methods' columns.
METHOD_LABELS = {
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


@dataclass(frozen=True)
class Table:
    """A table as it is printed, and every number behind it."""

    name: str
    """Name of the table and of its files."""
    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    records: list[dict[str, Any]]
    """A record for each number, unrounded."""
    notes: list[str] = field(default_factory=list)

    @property
    def has_numbers(self) -> bool:
        """Whether anything was computed."""
        return bool(self.records)

    @property
    def visible_rows(self) -> list[tuple[str, ...]]:
        """Headings and rows, without columns that are empty in every row."""
        columns = zip(self.headings, *self.rows, strict=True)
        filled = [column for column in columns if set(column[1:]) != {NO_VALUE}]
        return list(zip(*filled, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the content of this table in the JSON file."""
        return {"title": self.title, "notes": self.notes, "numbers": self.records}

    def to_csv(self) -> str:
        """Return the records as CSV, one line for each number."""
        names = list(dict.fromkeys(name for record in self.records for name in record))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return out.getvalue()


@dataclass(frozen=True)
class Reader:
    """Reads means over the splits that were computed."""

    store: CellStore
    grid: Grid

    def read_side_interval(
        self, family: Family, kind: str, metric: str = MAIN_METRIC
    ) -> Interval | None:
        """Return the interval of a metric with side information `kind`; None if not computed."""
        values = [
            float(result["known"][kind][metric])
            for result in self._read_results(family).values()
            if kind in result.get("known", {})
        ]
        return Interval.from_values(values) if values else None

    def read_values(
        self, family: Family, metric: str = MAIN_METRIC, epoch: int | None = None
    ) -> dict[int, float]:
        """Return a metric for each computed seed: after `epoch`, or at the end if it is None."""
        return {
            seed: get_metric(result, metric, epoch)
            for seed, result in self._read_results(family).items()
            if metric in _get_metrics(result, epoch)
        }

    def read_interval(
        self, family: Family, metric: str = MAIN_METRIC, epoch: int | None = None
    ) -> Interval | None:
        """Return mean and 95% interval, or None where nothing was computed."""
        values = self.read_values(family, metric, epoch)
        return Interval.from_values(list(values.values())) if values else None

    def read_gain(self, ours: Family, theirs: Family) -> Interval | None:
        """Return the interval of the differences, or None where no split has both."""
        # Pair the differences by seed: both methods had the same split and the same negatives.
        our_values, their_values = self.read_values(ours), self.read_values(theirs)
        gains = [
            our_values[seed] - their_values[seed] for seed in our_values if seed in their_values
        ]
        return Interval.from_values(gains) if gains else None

    def read_budget(self, family: Family) -> dict[str, float | None]:
        """Return the lifetime budget, local and central, which is the same for every seed."""
        for result in self._read_results(family).values():
            if "budget" in result:
                return get_budget(result)
        return {"local": None, "central": None}

    def _read_results(self, family: Family) -> dict[int, dict[str, Any]]:
        results = {seed: self.store.get(family(seed)) for seed in self.grid.seeds}
        return {seed: result for seed, result in results.items() if result is not None}


class Experiment(ABC):
    """A figure or a table: the cells that it needs, and how it presents them."""

    name: ClassVar[str]
    title: ClassVar[str]
    figure_size: ClassVar[tuple[float, float]]
    """Width and height of the figure in inches."""

    @classmethod
    def get_summary(cls) -> str:
        """Return its line of help: the first line of its docstring."""
        return (cls.__doc__ or "").partition("\n")[0]

    def __init__(self, grid: Grid, store: CellStore):
        self.grid = grid
        self.store = store
        self.reader = Reader(store, grid)

    @abstractmethod
    def list_cells(self) -> list[Cell]:
        """Return the cells that this experiment needs in any case."""

    def list_next_cells(self) -> list[Cell]:
        """Return cells that depend on results; called again until none of them is new."""
        return []

    @abstractmethod
    def build_tables(self) -> list[Table]:
        """Build the tables from what has been computed so far."""

    @abstractmethod
    def draw(self, figure: Figure) -> None:
        """Draw what has been computed so far."""


def get_metric(
    result: dict[str, Any], metric: str = MAIN_METRIC, epoch: int | None = None
) -> float:
    """Return a metric of a result: after `epoch`, or at the end if it is None."""
    return float(_get_metrics(result, epoch)[metric])


def _get_metrics(result: dict[str, Any], epoch: int | None) -> dict[str, Any]:
    metrics: dict[str, Any] = result["final"] if epoch is None else result["curve"][epoch - 1]
    return metrics


def get_budget(result: dict[str, Any]) -> dict[str, float | None]:
    """Return the lifetime budget of a result."""
    spent: dict[str, float | None] = result["budget"]
    return spent


def format_interval(interval: Interval | None) -> str:
    """Format an interval for a table."""
    return NO_VALUE if interval is None else str(interval)


def format_difference(interval: Interval | None) -> str:
    """Format the interval of a difference for a table, with its sign."""
    return NO_VALUE if interval is None else f"{'+' if interval.mean >= 0 else ''}{interval}"


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number without an interval for a table."""
    return NO_VALUE if value is None else f"{value:,.{digits}f}"


def format_budget(value: float | None) -> str:
    """Format a budget for a table, with three significant digits below 100."""
    if value is None:
        return NO_VALUE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def make_records(interval: Interval | None, **about: Any) -> list[dict[str, Any]]:
    """Return a list with one record for the interval; an empty list if it is None."""
    if interval is None:
        return []
    return [
        {
            **about,
            "mean": interval.mean,
            "half_width95": interval.half_width,
            "values": " ".join(f"{value:.6f}" for value in interval.values),
        }
    ]
