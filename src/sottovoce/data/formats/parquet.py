"""Any Parquet file with a column for the user and one for the item, or a folder of such files."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

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
    first: tuple[Path, dict[str, str]] | None = None
    for file in files(path) if path.is_dir() else [path]:
        try:
            table = _with_folders(
                pl.scan_parquet(file, glob=False, hive_partitioning=False), file, path
            )
            schema = table.collect_schema()
            roles = roles_of(schema.names(), columns, str(file))
            names = zip(schema, roles, strict=True)
            table = table.select([pl.col(name).alias(role) for name, role in names if role])
            first = first or (file, _kinds(table))
            if _kinds(table) != first[1]:
                raise DataError(
                    f"this file has {_in_words(_kinds(table))}, and {first[0].name} has "
                    f"{_in_words(first[1])}; all files of a folder must have the same",
                    path=file,
                )
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
    return sorted(each for each in folder.rglob("*") if each.suffix.lower() in SUFFIXES)


def _with_folders(table: pl.LazyFrame, file: Path, folder: Path) -> pl.LazyFrame:
    """With a column for each folder that is called `name=value`, as partitioned tables have."""
    within = file.relative_to(folder).parts[:-1] if file != folder else ()
    named = [part.partition("=")[::2] for part in within if "=" in part]
    return table.with_columns([pl.lit(unquote(value)).alias(name) for name, value in named])


def _kinds(table: pl.LazyFrame) -> dict[str, str]:
    """What it has of each role: ids are whole numbers or text, for the rest it does not matter."""
    return {
        role: ("numbers" if kind.is_integer() else "text") if role in ("user", "item") else ""
        for role, kind in sorted(table.collect_schema().items())
    }


def _in_words(kinds: dict[str, str]) -> str:
    return ", ".join(f"{role} ({kind})" if kind else role for role, kind in kinds.items())


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
