"""Reading a history from a CSV file, and checking the ids of items."""

import csv
from collections.abc import Iterable
from datetime import datetime
from math import isfinite, nan
from pathlib import Path

from sottovoce.errors import DataError, ProtocolError, get_reason
from sottovoce.protocol import strict
from sottovoce.protocol.catalogue import MAX_TEXT_LENGTH


def check_items(ids: Iterable[str]) -> list[str]:
    """Return ids that a catalogue could have, or raise a `DataError`."""
    if isinstance(ids, str):
        raise DataError(f"items must be a list, not one string: [{ids!r}]")
    try:
        return [strict.parse_text(item, max_length=MAX_TEXT_LENGTH, what="item") for item in ids]
    except ProtocolError as error:
        raise DataError(str(error)) from error


def read_history_csv(path: Path, column: str = "item", time: str | None = None) -> list[list[str]]:
    """Read one column of a CSV file (UTF-8, with names of columns in the first line) by moments.

    Args:
        path: The file.
        column: The column with the items.
        time: The column with the times, or None if all rows are one moment.

    Returns:
        The items of each moment, the earliest first.
    """
    moments: dict[float, list[str]] = {}
    try:
        # Spreadsheets write a byte order mark, which would become part of the first name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            names = list(rows.fieldnames or ())
            for name in [column] if time is None else [column, time]:
                if names.count(name) != 1:
                    raise ProtocolError(
                        f"its columns are {', '.join(names) or 'none'}; one must be called {name!r}"
                    )
            for row in rows:
                # A row with more or fewer fields than names: an unquoted comma would shift all
                # columns.
                if None in row or None in row.values():
                    raise ProtocolError(f"the first line names {len(names)} fields")
                item = strict.parse_text(row[column], max_length=MAX_TEXT_LENGTH, what="item")
                moment = _parse_time(row[time]) if time else 0.0
                moments.setdefault(moment, []).append(item)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {get_reason(error)}", path=path) from error
    except (csv.Error, ProtocolError) as error:
        raise DataError(str(error), path=path, line=rows.reader.line_num) from error
    # Only the order of times is returned: the times themselves are stored nowhere.
    return [items for _, items in sorted(moments.items())]


def _parse_time(text: str) -> float:
    """Parse a number, or an ISO date with or without a time, to seconds."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            seconds = nan
    if not isfinite(seconds):
        raise ProtocolError(f"a time is a number or an ISO date, not {strict.format_value(text)}")
    return seconds
