"""Items from outside: one by one or from a CSV file, checked before any of them is kept."""

from __future__ import annotations

import csv
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING

from sottovoce.errors import DataError, ProtocolError, reason
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


def read_items(path: Path, column: str = "item", time: str | None = None) -> list[list[str]]:
    """One column of a CSV file (UTF-8, names of the columns in its first line), by moments.

    Without a column of times all of it is one moment.
    """
    wanted = [column] if time is None else [column, time]
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            moments: dict[float, list[str]] = {}
            for item, at in _touched(file, path, wanted):
                moments.setdefault(at, []).append(item)
    except OSError as error:
        raise DataError(f"cannot be read: {reason(error)}", path=path) from error
    return [items for _, items in sorted(moments.items())]


def _touched(file: TextIO, path: Path, wanted: list[str]) -> Iterator[tuple[str, float]]:
    rows = csv.reader(file, strict=True)
    try:
        names: list[str] = next(rows, [])
        for column in wanted:
            if names.count(column) != 1:
                raise DataError(
                    f"its columns are {', '.join(names) or 'none'}; one must be called {column!r}",
                    path=path,
                    line=1,
                )
        places = [names.index(column) for column in wanted]
        for row in rows:
            if row:
                yield _cells(row, places, len(names))
    except (csv.Error, ProtocolError) as error:
        raise DataError(str(error), path=path, line=rows.line_num) from error


def _cells(row: list[str], places: list[int], width: int) -> tuple[str, float]:
    if len(row) != width:
        raise ProtocolError(f"{len(row)} fields, the first line names {width}")
    item, *at = (row[place] for place in places)
    if any(ord(character) in UNREADABLE for character in item):
        raise ProtocolError("this line is not UTF-8")
    return strict.text(item, most=MAX_TEXT, what="item"), _seconds(at[0]) if at else 0.0


def _seconds(text: str) -> float:
    """Of a number, or an ISO date with or without a time."""
    try:
        return _finite(float(text))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise ProtocolError(
            f"a time is a number or an ISO date, not {strict.shown(text)}"
        ) from error


def _finite(number: float) -> float:
    if not isfinite(number):
        raise ValueError("a time is finite")
    return number
