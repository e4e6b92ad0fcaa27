"""Items from outside: one by one or from a CSV file, checked before any of them is kept."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from sottovoce.errors import DataError, ProtocolError
from sottovoce.protocol import strict
from sottovoce.protocol.catalogue import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

UNREADABLE = range(0xDC80, 0xDD00)
"""What Python reads a byte as that is not UTF-8, so that its line can be named."""


def checked_items(ids: Iterable[str]) -> list[str]:
    """Names as a catalogue could have them, or a `DataError`."""
    if isinstance(ids, str):
        raise DataError(f"items are given as a list, not as one string: [{ids!r}]")
    try:
        return [strict.text(item, most=MAX_TEXT, what="item") for item in ids]
    except ProtocolError as error:
        raise DataError(str(error)) from error


def read_items(path: Path, column: str = "item") -> list[str]:
    """One column of a CSV file (UTF-8, names of the columns in its first line)."""
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            return list(_column(file, path, column))
    except OSError as error:
        raise DataError(f"cannot be read: {error}", path=path) from error


def _column(file: TextIO, path: Path, column: str) -> Iterator[str]:
    rows = csv.reader(file, strict=True)
    try:
        names: list[str] = next(rows, [])
        if names.count(column) != 1:
            raise DataError(
                f"its columns are {', '.join(names) or 'none'}; one must be called {column!r}",
                path=path,
                line=1,
            )
        place = names.index(column)
        for row in rows:
            if row:
                yield _cell(row, place, len(names))
    except (csv.Error, ProtocolError) as error:
        raise DataError(str(error), path=path, line=rows.line_num) from error


def _cell(row: list[str], place: int, width: int) -> str:
    if len(row) != width:
        raise ProtocolError(f"{len(row)} fields, the first line names {width}")
    if any(ord(character) in UNREADABLE for character in row[place]):
        raise ProtocolError("this line is not UTF-8")
    return strict.text(row[place], most=MAX_TEXT, what="item")
