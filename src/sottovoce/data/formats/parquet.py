"""Any Parquet file with a column for the user and one for the item, or a folder of such files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.formats.collecting import Collector
from sottovoce.data.formats.columns import roles_of
from sottovoce.data.formats.text import gaps, has_gaps, seconds
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sottovoce.data.interactions import Interactions

SUFFIXES = (".parquet", ".pq")
_ROWS = 1 << 20


def read(path: Path, columns: Mapping[str, str] | None = None) -> Interactions:
    """The interactions of one Parquet file or of all in a folder, some rows at a time."""
    collector = Collector()
    for frame in blocks(path, columns):
        collector.add(frame)
    return collector.finish(path, "Parquet")


def blocks(path: Path, columns: Mapping[str, str] | None = None) -> Iterator[pl.DataFrame]:
    """The same, block by block: `user`, `item` and perhaps `rating` and `timestamp`."""
    for file in files(path) if path.is_dir() else [path]:
        try:
            table = pl.scan_parquet(file, glob=False, hive_partitioning=False)
            schema = table.collect_schema()
            roles = roles_of(schema.names(), columns, str(file))
            names = zip(schema, roles, strict=True)
            table = table.select([pl.col(name).alias(role) for name, role in names if role])
            rows = int(table.select(pl.len()).collect().item())
            for start in range(0, rows, _ROWS):
                yield _checked(table.slice(start, _ROWS).collect(), start, file)
        except (PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"this is not a Parquet file that can be read: {reason}", path=file
            ) from error


def files(folder: Path) -> list[Path]:
    """By name, in folders of any depth."""
    return sorted(each for suffix in SUFFIXES for each in folder.rglob(f"*{suffix}"))


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
