"""Raw results as rows of a table: one for each cell, with its seed, its setting and its metrics."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sottovoce.simulation.evaluation.metrics import Interval
from sottovoce_lab.paper.cells import Cell
from sottovoce_lab.paper.store import CellStore
from sottovoce_lab.paper.tables import MAIN_METRIC

# A column's name and its value, both as in the file.
CellRow = dict[str, str]
# Groups of metrics in a result. A metric's column does not begin with the name of such a group.
UNNAMED_GROUPS = ("final", "known")
# Columns that every file has. The columns of settings follow them.
PLACE_COLUMNS = ("method", "users", "items", "split", "seed")


def list_cell_rows(cells: Iterable[Cell], store: CellStore) -> list[CellRow]:
    """Return a row for each cell with a result; settings that all cells share have no column."""
    results = {cell: store.get(cell) for cell in cells}
    computed = {cell: result for cell, result in results.items() if result is not None}
    values: dict[str, set[Any]] = {}
    for cell in computed:
        for name, value in cell.parameters:
            values.setdefault(name, set()).add(value)
    varied = sorted(name for name, others in values.items() if len(others) > 1)
    return [
        {
            **{name: format_value(value) for name, value in _describe_place(cell).items()},
            **{name: format_value(options.get(name, "")) for name in varied},
            **{
                name: f"{value:.5f}" if isinstance(value, float) else str(value)
                for name, value in _flatten_metrics(result).items()
                if name not in (*PLACE_COLUMNS, *varied)
            },
        }
        for cell, result in computed.items()
        for options in [cell.options]
    ]


def format_value(value: Any) -> str:
    """Format a setting for a file; None stands for all users or items.

    >>> format_value(50_000), format_value(0.3), format_value(None)
    ('50000', '0.3', 'all')
    """
    return "all" if value is None else f"{value:.9g}" if isinstance(value, int | float) else value


def _describe_place(cell: Cell) -> dict[str, Any]:
    size = cell.size
    values = (cell.method, size.users, size.items, cell.split, cell.seed)
    return dict(zip(PLACE_COLUMNS, values, strict=True))


def _flatten_metrics(result: dict[str, Any]) -> dict[str, Any]:
    """Return all numbers of a result except its budget, which the settings determine."""
    metrics: dict[str, Any] = {}
    for name, value in result.items():
        if name in UNNAMED_GROUPS:
            metrics |= _flatten_metrics(value)
        elif isinstance(value, dict) and name != "budget":
            metrics |= {f"{name} {key}": number for key, number in _flatten_metrics(value).items()}
        elif isinstance(value, int | float):
            metrics[name] = value
    for epoch in result.get("curve", ()):
        metrics[f"{MAIN_METRIC} epoch {epoch['epoch']}"] = epoch[MAIN_METRIC]
    return metrics


def format_csv(rows: list[CellRow]) -> str:
    """Return rows as CSV; a row has empty fields where it lacks a column."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def read_csv(path: Path) -> list[CellRow]:
    """Read the rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def select_rows(rows: Iterable[CellRow], **values: Any) -> list[CellRow]:
    """Return the rows that have these values in these columns.

    A tuple or a range stands for several values, each of which is accepted.
    """
    allowed = {
        name: {format_value(v) for v in (value if isinstance(value, tuple | range) else (value,))}
        for name, value in values.items()
    }
    return [row for row in rows if all(row.get(name) in allowed[name] for name in allowed)]


def read_metric(rows: Iterable[CellRow], metric: str = MAIN_METRIC) -> Interval | None:
    """Return mean and 95% interval of a metric over rows, or None where no row has it."""
    values = [float(row[metric]) for row in rows if row.get(metric)]
    return Interval.from_values(values) if values else None
