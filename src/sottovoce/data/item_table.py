"""A table of items, cell by cell: whatever is wrong is told by the file's own columns and lines."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.formats.sources import reading
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLES = (*_SEPARATORS, ".parquet", ".pq")
"""Suffixes of what can be read."""
SHOWN = 10
"""Problems that are told at once."""


@dataclass
class Table:
    """Columns by the names that they have in the file; of several by one name, the last."""

    path: Path
    names: list[str]
    cells: dict[str, list[Any]]
    """Of a text file the text, without spaces around it; of Parquet values, None for none."""
    lines: list[int] | None = None
    """Where each row begins in a text file."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """Row and what is wrong with it."""

    @property
    def is_text(self) -> bool:
        """Whether a cell has no type but what it looks like."""
        return self.lines is not None

    def where(self, row: int) -> str:
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def listed(self) -> str:
        return ", ".join(map(repr, self.names))

    def check(self) -> None:
        """Tell what is wrong, the first of it where there is much."""
        found = sorted(self.problems)
        if not found:
            return
        told = [f"{self.where(row)}: {what}" for row, what in found[:SHOWN]]
        if len(found) == 1 and self.lines is not None:
            raise DataError(found[0][1], path=self.path, line=self.lines[found[0][0]])
        if len(found) == 1:
            raise DataError(told[0], path=self.path)
        more = [f"and {len(found) - SHOWN:,} more"] if len(found) > SHOWN else []
        raise DataError("\n  ".join([f"{len(found):,} problems", *told, *more]), path=self.path)


def read_table(path: Path) -> Table:
    """A text file with a header line, or Parquet; there is at least one row."""
    table = _text(path) if path.suffix in _SEPARATORS else _parquet(path)
    if not any(table.cells.values()):
        raise DataError("there is a header, but no item below it", path=path)
    return table


def _parquet(path: Path) -> Table:
    try:
        frame = pl.read_parquet(path, glob=False)
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"this table cannot be read: {reason}", path=path) from error
    return Table(path, frame.columns, {column.name: column.to_list() for column in frame})


def _text(path: Path) -> Table:
    with reading(path):
        text = _decoded(path.read_bytes(), path)
    records = list(_records(text, path))
    if not records:
        raise DataError("the file is empty", path=path)
    (_, names), *rows = records
    table = Table(path, names, {}, [line for line, _ in rows])
    for row, (_, fields) in enumerate(rows):
        if len(fields) != len(names):
            said = f"expected {len(names)} fields as in the header, found {len(fields)}"
            table.problems.append((row, said))
    table.check()
    table.cells = {name: [fields[at] for _, fields in rows] for at, name in enumerate(names)}
    return table


def _decoded(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"not UTF-8 text ({error.reason})", path=path, line=line) from error


def _records(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line where each begins, and its fields; not those in which nothing stands."""
    separator, line = _SEPARATORS[path.suffix], 1
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for fields in reader:
            if any(stripped := [each.strip() for each in fields]):
                yield line, stripped
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"quotation marks or line ends: {error}", path=path, line=line) from error
