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
    """Return the ids as a list; raise a `DataError` if one could not be in a catalogue."""
    if isinstance(ids, str):
        raise DataError(f"items must be a list, not one string: [{ids!r}]")
    try:
        return [strict.parse_text(item, max_length=MAX_TEXT_LENGTH, what="item") for item in ids]
    except ProtocolError as error:
        raise DataError(str(error)) from error


def read_history_csv(path: Path, column: str = "item", time: str | None = None) -> list[list[str]]:
    """Read the items of a CSV file, grouped by the moment when they were touched.

    Args:
        path: The file, in UTF-8, with the names of the columns in its first line.
        column: The column with the items' ids.
        time: The column with the times, or None if all rows belong to one moment.

    Returns:
        A list of items for each moment, the earliest moment first.
    """
    moments: dict[float, list[str]] = {}
    try:
        # "utf-8-sig" skips the byte order mark that spreadsheets write. It would become part of
        # the first column's name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            names = list(rows.fieldnames or ())
            for name in [column] if time is None else [column, time]:
                if names.count(name) != 1:
                    raise ProtocolError(
                        f"its columns are {', '.join(names) or 'none'}; one must be called {name!r}"
                    )
            for row in rows:
                # The row has more or fewer fields than the first line: probably a comma is not
                # quoted, which shifts all later columns.
                if None in row or None in row.values():
                    raise ProtocolError(f"the row must have {len(names)} fields, as the first line")
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
    """Convert a number, or an ISO date with or without a time of day, to seconds."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            seconds = nan
    if not isfinite(seconds):
        raise ProtocolError(
            f"a time must be a number or an ISO date, not {strict.format_value(text)}"
        )
    return seconds
