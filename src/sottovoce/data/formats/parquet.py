"""Any Parquet file with a column for the user and one for the item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.formats.collecting import Collector
from sottovoce.data.formats.columns import roles_of
from sottovoce.data.formats.text import gaps, has_gaps, seconds
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sottovoce.data.interactions import Interactions

SUFFIXES = (".parquet", ".pq")
_ROWS = 1 << 20


def read(path: Path, columns: Mapping[str, str] | None = None) -> Interactions:
    """The interactions of one Parquet file, a slice of rows at a time."""
    collector = Collector()
    try:
        table = pl.scan_parquet(path, glob=False)
        schema = table.collect_schema()
        roles = roles_of(schema.names(), columns, str(path))
        used = [pl.col(name).alias(role) for name, role in zip(schema, roles, strict=True) if role]
        table = table.select(used)
        rows = int(table.select(pl.len()).collect().item())
        for start in range(0, rows, _ROWS):
            collector.add(_checked(table.slice(start, _ROWS).collect(), start, path))
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"this is not a Parquet file that can be read: {reason}", path=path
        ) from error
    return collector.finish(path, "Parquet")


def _checked(frame: pl.DataFrame, start: int, path: Path) -> pl.DataFrame:
    """The slice with a numeric rating and timestamps in seconds, or an error with the row."""
    for role in ("user", "item"):
        if frame[role].dtype.is_float() or frame[role].dtype.is_nested():
            raise DataError(
                f"the {role} has the type {frame[role].dtype}; ids must be integers or text",
                path=path,
            )
    if "timestamp" in frame.columns:
        frame = _with(frame, seconds(frame["timestamp"]), start, path)
    if "rating" in frame.columns:
        rating = frame["rating"].cast(pl.Float64, strict=False)
        frame = _with(frame, rating, start, path)
    if has_gaps(frame):
        raise _gap(frame, start, path)
    return frame


def _with(frame: pl.DataFrame, column: pl.Series, start: int, path: Path) -> pl.DataFrame:
    """The frame with a converted column; a value that was lost on the way is an error."""
    lost = column.is_null() & frame[column.name].is_not_null()
    if lost.any():
        at = int(lost.arg_true()[0])
        value = frame[column.name][at]
        raise DataError(f"row {start + at + 1}: the {column.name} is {value!r}", path=path)
    return frame.with_columns(column)


def _gap(frame: pl.DataFrame, start: int, path: Path) -> DataError:
    """The first row where something is missing, empty, NaN or infinite."""
    found = {column.name: gaps(column).arg_true() for column in frame}
    at, role = min((int(rows[0]), role) for role, rows in found.items() if len(rows))
    value = frame[role][at]
    return DataError(f"row {start + at + 1}: the {role} is {value!r}", path=path)
