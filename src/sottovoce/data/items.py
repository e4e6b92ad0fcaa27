"""Titles and tags of items, read from a file.

The file is a catalogue of the protocol or a table. A table has a column with the ids of the items,
and perhaps a column `title`. Every other column is a kind of tag: a column with numbers gives
numeric tags (year, price), and a column with text gives labels, which are separated by `|`. A
column with mostly numbers and some text is refused, because a single "n/a" would turn all prices
into labels. Errors name the column and the line.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.characters import CONTROL_CHARACTERS, format_code_point
from sottovoce.core.tags import KIND_PATTERN
from sottovoce.data.columns import COLUMN_ALIASES, Columns
from sottovoce.data.files import PARQUET_SUFFIXES, convert_read_errors
from sottovoce.data.frames import to_frame
from sottovoce.data.interactions import Interactions, ItemDescriptions
from sottovoce.errors import DataError, MissingExtraError, ProtocolError

# Separators of text tables, by suffix of the file.
_FIELD_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# Suffixes of tables that can be read.
TABLE_SUFFIXES = (*_FIELD_SEPARATORS, *PARQUET_SUFFIXES)
# Maximum number of problems that one error lists. It only counts the others.
MAX_PROBLEMS_SHOWN = 10
# Kinds of tags whose columns often have a plural name, by this plural.
_SINGULAR_KINDS = {"genres": "genre", "categories": "category", "brands": "brand", "tags": "tag"}
# Numbers in text. "inf" and "nan" match, so that they are refused as numbers and do not become
# labels.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_ANY_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE
)


@dataclass
class Table:
    """Columns of a file by name, and the problems with its cells.

    If several columns have the same name, `cells` has the last of them.
    """

    path: Path
    names: list[str]
    """Names of all columns, in order."""
    cells: dict[str, list[Any]]
    """Cells of each column: stripped text from a text file, values or None from Parquet."""
    lines: list[int] | None = None
    """Number of the line on which each row of a text file begins; None for Parquet."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """Number of a row, and the error message about it."""
    feed_format: str = ""
    """Name of the format of a shop's feed, with which its errors begin; empty for other tables."""

    def format_location(self, row: int) -> str:
        """Return the line of a row, or for Parquet its number, as error messages name it."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def add_problem(self, row: int, column: str, message: str) -> None:
        """Add a problem with a cell; `message` continues a sentence that begins with the column."""
        self.problems.append((row, f"column {column!r} {message}"))

    def raise_problems(self) -> None:
        """Raise a `DataError` that lists the first problems, if there are any."""
        problems = sorted(self.problems)
        if not problems:
            return
        prefix = f"{self.feed_format}: " if self.feed_format else ""
        if len(problems) == 1:
            row, what = problems[0]
            what = f"{prefix}{what}"
            if self.lines is not None:
                raise DataError(what, path=self.path, line=self.lines[row])
            raise DataError(f"{self.format_location(row)}: {what}", path=self.path)
        shown = problems[:MAX_PROBLEMS_SHOWN]
        lines = [f"{self.format_location(row)}: {problem}" for row, problem in shown]
        if len(problems) > len(shown):
            lines.append(f"and {len(problems) - len(shown):,} more")
        what = "\n  ".join(lines)
        raise DataError(f"{prefix}{len(problems):,} problems\n  {what}", path=self.path)


def with_items(data: Interactions, source: Any) -> Interactions:
    """Return the data set with titles and tags from a file or a table in memory.

    Items that are not in it have no title and no tags.

    Args:
        data: The data set.
        source: The path of a file, or a table, as for `read_items`.

    Raises:
        DataError: The source is invalid, or describes no item of the data set.
    """
    descriptions = read_items(source)
    path = Path(source) if isinstance(source, str | Path) else Path(type(source).__name__)
    # A file for other data would otherwise silently describe nothing.
    if not any(any(descriptions.get(str(item), ())) for item in data.item_ids.tolist()):
        raise DataError(
            f"must have titles or tags for some of the {data.n_items:,} items of {data.name}: the "
            f"first id of the data is {str(data.item_ids[0])!r}, the first id of this file "
            f"{next(iter(descriptions), None)!r}",
            path=path,
        )
    return data.replace_descriptions(descriptions)


def read_items(source: Any, columns: Columns = None, *, advice: str = "") -> ItemDescriptions:
    """Read titles and tags of items, and return them by the item's id as text.

    Args:
        source: The path of a catalogue (`.json`) or a table (`.csv`, `.tsv`, `.parquet`, `.pq`), or
            a table in memory.
        columns: The columns of a table to read, by their meaning:
            `{"item": "sku", "title": "name"}`. None means all columns, by their own names.
        advice: A hint on how to name columns, for the error if there is no column of items.

    Raises:
        DataError: The file is invalid.
        MissingExtraError: The file is a catalogue and the extra `client` is not installed.
    """
    if not isinstance(source, str | Path):
        path = Path(type(source).__name__)
        frame = to_frame(source, path)
        cells = {column.name: column.to_list() for column in frame}
        return _from_table(Table(path, frame.columns, cells), columns, advice)
    path = Path(source)
    if path.suffix == ".json":
        return _from_catalogue(path)
    if path.suffix not in TABLE_SUFFIXES:
        raise DataError(f"items must be in .json, {', '.join(TABLE_SUFFIXES)}", path=path)
    return _from_table(read_table(path), columns, advice)


def _from_catalogue(path: Path) -> ItemDescriptions:
    # The import is here because the protocol needs cryptography, which a simulation does not need.
    try:
        from sottovoce.protocol import Catalogue
    except ImportError as error:
        raise MissingExtraError(
            f"a catalogue needs {error.name}: pip install 'sottovoce[client]', or give a table"
        ) from error
    try:
        with convert_read_errors(path):
            items = Catalogue.decode(path.read_bytes()).items
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error
    return {item.id: (item.title, item.tags) for item in items}


def _from_table(table: Table, columns: Columns, advice: str) -> ItemDescriptions:
    item, kinds = _find_columns(table, columns, advice)
    ids = _read_ids(table, item)
    # All texts are checked, including the ids, because all are published in the catalogue.
    for column in (item, *kinds.values()):
        _check_characters(table, column, ids)
    titles = [""] * len(ids)
    tags: list[dict[str, Any]] = [{} for _ in ids]
    for kind, column in kinds.items():
        if kind == "title":
            cells = table.cells[column]
            titles = ["" if title is None else str(title).strip() for title in cells]
        else:
            for row, value in _read_tags(table, column):
                tags[row][kind] = value
    table.raise_problems()
    return dict(zip(ids, zip(titles, tags, strict=True), strict=True))


def _find_columns(table: Table, columns: Columns, advice: str) -> tuple[str, dict[str, str]]:
    """Return the name of the column of ids, and the names of the other columns by kind.

    The kind of a column is "title" or a kind of tag.
    """
    names = {name: name for name in table.names} if columns is None else dict(columns)
    listed = ", ".join(map(repr, table.names))
    if missing := [name for name in names.values() if name not in table.names]:
        absent = ", ".join(map(repr, missing))
        raise DataError(f"no column is called {absent}; there are {listed}", path=table.path)
    if repeated := [name for name in names.values() if table.names.count(name) > 1]:
        raise DataError(f"only one column must be called {repeated[0]!r}", path=table.path)
    aliases = COLUMN_ALIASES["item"]
    items = [role for role in names if _normalize_name(role).replace("_", "") in aliases]
    if len(items) != 1:
        raise DataError(
            f"one column must be the item ({', '.join(aliases)}); there are {listed}: rename "
            f"one of them{advice}",
            path=table.path,
        )
    item = names.pop(items[0])
    kinds: dict[str, str] = {}
    for role, name in names.items():
        normalized = _normalize_name(role)
        kind = _SINGULAR_KINDS.get(normalized, normalized)
        if not KIND_PATTERN.fullmatch(kind):
            raise DataError(
                f"column {name!r} must be called like a kind of tag: {KIND_PATTERN.pattern}",
                path=table.path,
            )
        if kind in kinds:
            raise DataError(
                f"columns {kinds[kind]!r} and {name!r} are both {kind!r}: leave one out",
                path=table.path,
            )
        kinds[kind] = name
    return item, kinds


def _read_ids(table: Table, column: str) -> list[str]:
    """Read the ids as text, so that "007" and "7" are two items."""
    first_rows: dict[str, int] = {}
    ids = ["" if cell is None else str(cell).strip() for cell in table.cells[column]]
    # pandas writes integers with gaps as floats: "7.0" would match no id.
    if any(isinstance(cell, float) for cell in table.cells[column]):
        raise DataError(
            f"column {column!r} has decimal numbers; ids must be integers or text", path=table.path
        )
    for row, item in enumerate(ids):
        if not item:
            table.add_problem(row, column, "is empty: every item needs an id")
        elif first_rows.setdefault(item, row) != row:
            location = table.format_location(first_rows[item])
            table.add_problem(row, column, f"must not repeat {item!r} of {location}")
    return ids


def _check_characters(table: Table, column: str, ids: list[str]) -> None:
    """Add a problem for each cell with a control character, which could control a terminal."""
    for row, cell in enumerate(table.cells[column]):
        if isinstance(cell, str) and (match := CONTROL_CHARACTERS.search(cell.strip())):
            table.add_problem(
                row,
                column,
                f"of item {ids[row]!r:.80} must have no control character, but has "
                f"{format_code_point(match[0])}",
            )


def _normalize_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _read_tags(table: Table, column: str) -> Iterator[tuple[int, tuple[str, ...] | float]]:
    """Yield the row of each item that has a tag, and the tag: a tuple of labels, or a number."""
    cells = [
        (row, "|".join(cell) if _is_label_list(cell) else cell)
        for row, cell in enumerate(table.cells[column])
        if cell not in (None, "")
    ]
    # Cells of Parquet have types, but those of text do not.
    if table.lines is not None:
        cells = _infer_types(table, column, cells)
    for row, value in cells:
        if isinstance(value, str):
            labels = (label for part in value.split("|") if (label := part.strip()))
            # Repeated labels count once, in the order of the cell.
            yield row, tuple(dict.fromkeys(labels))
        elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise DataError(f"column {column!r} must have numbers or text", path=table.path)
        elif not 0 <= value < 2**53:  # also true for a NaN
            table.add_problem(row, column, f"has {value}; a number must be at least 0, below 2^53")
        else:
            yield row, float(value) if isinstance(value, Decimal) else value


def _is_label_list(cell: Any) -> bool:
    return isinstance(cell, list) and all(isinstance(label, str) for label in cell)


def _infer_types(
    table: Table, column: str, cells: list[tuple[int, str]]
) -> list[tuple[int, str | float]]:
    """Convert the cells of a column to numbers if all of them are numbers.

    Otherwise all cells stay labels. If most of them are numbers, a problem is added, because the
    other cells are probably typing errors.
    """
    n_numbers = sum(bool(_ANY_NUMBER.fullmatch(cell)) for _, cell in cells)
    labels = [(row, cell) for row, cell in cells if not _ANY_NUMBER.fullmatch(cell)]
    if labels and n_numbers > len(labels):
        row, example = labels[0]
        more = f" (and {len(labels) - 1:,} more)" if len(labels) > 1 else ""
        table.add_problem(
            row,
            column,
            f"has {n_numbers:,} numbers, but here {example!r:.80}{more}: fix or clear the cell, or "
            "leave the column out",
        )
    if labels:
        return list(cells)
    if all(_WHOLE_NUMBER.fullmatch(cell) for _, cell in cells):
        # int() raises an error for thousands of digits. A number of 30 digits is large enough for
        # the caller to refuse it.
        return [(row, int(cell[:30])) for row, cell in cells]
    return [(row, float(cell)) for row, cell in cells]


def read_table(path: Path) -> Table:
    """Read a Parquet file, or a text file with a header line.

    Raises:
        DataError: The file is invalid, or has no rows.
    """
    table = _read_text(path) if path.suffix in _FIELD_SEPARATORS else _read_parquet(path)
    if not any(table.cells.values()):
        raise DataError("the table must have at least one row below the header", path=path)
    return table


def _read_parquet(path: Path) -> Table:
    try:
        frame = pl.read_parquet(path, glob=False)
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"cannot be read as Parquet: {reason}", path=path) from error
    return Table(path, frame.columns, {column.name: column.to_list() for column in frame})


def _read_text(path: Path) -> Table:
    with convert_read_errors(path):
        raw = path.read_bytes()
    try:
        records = list(_split_records(raw.decode("utf-8-sig"), path))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"not UTF-8 text ({error.reason})", path=path, line=line) from error
    if not records:
        raise DataError("the file is empty: its first line must name the columns", path=path)
    (_, names), *rows = records
    table = Table(path, names, {}, [line for line, _ in rows])
    for row, (_, fields) in enumerate(rows):
        if len(fields) != len(names):
            what = f"must have {len(names)} fields as in the header, but has {len(fields)}"
            table.problems.append((row, what))
    table.raise_problems()
    table.cells = {name: [fields[place] for _, fields in rows] for place, name in enumerate(names)}
    return table


def _split_records(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the stripped fields of each record; skip empty records."""
    separator = _FIELD_SEPARATORS[path.suffix]
    line = 1
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for fields in reader:
            if any(stripped := [field.strip() for field in fields]):
                yield line, stripped
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"malformed quoting or line ends: {error}", path=path, line=line) from error
