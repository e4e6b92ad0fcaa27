"""What the items of a data set are called and tagged with, from a file next to it.

Either a catalogue as the protocol has it, or a table: one column for the item, perhaps one called
`title`; of the others those with numbers are numbers (year, price), those with text are labels,
several of them joined by `|`. A column with mostly numbers and some text is refused: one "n/a"
would make labels of all prices. Whatever is wrong is told by the file's own columns and lines.
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

from sottovoce.characters import CONTROL, named
from sottovoce.core.recommending import KIND
from sottovoce.data.interactions import Described, Interactions
from sottovoce.data.tables import ALIASES, PARQUET, Columns, reading
from sottovoce.errors import DataError, MissingExtraError, ProtocolError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLES = (*_SEPARATORS, *PARQUET)
"""Suffixes of what can be read."""
SHOWN = 10
"""Problems that are told at once."""
SINGULAR = {"genres": "genre", "categories": "category", "brands": "brand", "tags": "tag"}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE
)


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

    def where(self, row: int) -> str:
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def note(self, row: int, column: str, said: str) -> None:
        self.problems.append((row, f"column {column!r} {said}"))

    def check(self) -> None:
        """Tell what is wrong, the first of it where there is much."""
        found = sorted(self.problems)
        if not found:
            return
        told = [f"{self.where(row)}: {what}" for row, what in found[:SHOWN]]
        if len(found) == 1:
            row, what = found[0]
            if self.lines is not None:
                raise DataError(what, path=self.path, line=self.lines[row])
            raise DataError(told[0], path=self.path)
        more = [f"and {len(found) - SHOWN:,} more"] if len(found) > SHOWN else []
        raise DataError("\n  ".join([f"{len(found):,} problems", *told, *more]), path=self.path)


def with_items(data: Interactions, path: Path) -> Interactions:
    """The data set with titles and tags from a file; an item that is not in it has none."""
    known = read_items(path)
    if not any(any(known.get(str(item), ())) for item in data.item_ids.tolist()):
        raise DataError(
            f"must describe some of the {data.n_items:,} items of {data.name}: the first is "
            f"{str(data.item_ids[0])!r}, here it is {next(iter(known), None)!r}",
            path=path,
        )
    return data.with_described(known)


def read_items(path: Path, columns: Columns = None, *, advice: str = "") -> Described:
    """By the suffix: `.json` is a catalogue, `.csv`, `.tsv` and `.parquet` are tables.

    `columns` names those of a table that are read: `{"item": "sku", "title": "name"}`. `advice`
    says how to do that, where no column is the item.
    """
    if path.suffix == ".json":
        return _from_catalogue(path)
    if path.suffix not in TABLES:
        raise DataError(f"items must be in .json, {', '.join(TABLES)}", path=path)
    return _from_table(read_table(path), columns, advice)


def _from_catalogue(path: Path) -> Described:
    # Here and not above: a simulation needs no cryptography.
    try:
        from sottovoce.protocol import Catalogue
    except ImportError as error:
        raise MissingExtraError(
            f"a catalogue needs {error.name}: pip install 'sottovoce[client]', or give a table"
        ) from error
    try:
        with reading(path):
            items = Catalogue.decode(path.read_bytes()).items
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error
    return {item.id: (item.title, item.tags) for item in items}


def _from_table(table: Table, columns: Columns, advice: str) -> Described:
    item, kinds = _roles(table, columns, advice)
    ids = _ids(table, item)
    for column in (item, *kinds.values()):
        _check_characters(table, column, ids)
    titles = [""] * len(ids)
    tags: list[dict[str, Any]] = [{} for _ in ids]
    for kind, column in kinds.items():
        if kind == "title":
            cells = table.cells[column]
            titles = ["" if title is None else str(title).strip() for title in cells]
        else:
            for row, value in _values(table, column):
                tags[row][kind] = value
    table.check()
    return dict(zip(ids, zip(titles, tags, strict=True), strict=True))


def _roles(table: Table, columns: Columns, advice: str) -> tuple[str, dict[str, str]]:
    """The column of the item; those of title and tags, by kind."""
    given = {name: name for name in table.names} if columns is None else dict(columns)
    listed = ", ".join(map(repr, table.names))
    if missing := [name for name in given.values() if name not in table.names]:
        lacking = ", ".join(map(repr, missing))
        raise DataError(f"no column is called {lacking}; there are {listed}", path=table.path)
    if twice := [name for name in given.values() if table.names.count(name) > 1]:
        raise DataError(f"one column alone must be called {twice[0]!r}", path=table.path)
    items = [role for role in given if _plain(role).replace("_", "") in ALIASES["item"]]
    if len(items) != 1:
        names = ", ".join(ALIASES["item"])
        said = f"one column must be the item ({names}); there are {listed}{advice}"
        raise DataError(said, path=table.path)
    item = given.pop(items[0])
    kinds: dict[str, str] = {}
    for role, name in given.items():
        plain = _plain(role)
        kind = SINGULAR.get(plain, plain)
        if not KIND.fullmatch(kind):
            raise DataError(
                f"column {name!r} must name a kind of tag: {KIND.pattern}", path=table.path
            )
        if kind in kinds:
            both = f"columns {kinds[kind]!r} and {name!r} are both {kind!r}: leave one out"
            raise DataError(both, path=table.path)
        kinds[kind] = name
    return item, kinds


def _ids(table: Table, column: str) -> list[str]:
    """As they are written: "007" and "7" are two items."""
    first: dict[str, int] = {}
    ids = ["" if cell is None else str(cell).strip() for cell in table.cells[column]]
    if any(isinstance(cell, float) for cell in table.cells[column]):
        said = f"column {column!r} has decimal numbers; ids must be integers or text"
        raise DataError(said, path=table.path)
    for row, each in enumerate(ids):
        if not each:
            table.note(row, column, "is empty: every item needs an id")
        elif first.setdefault(each, row) != row:
            table.note(row, column, f"must not repeat {each!r}, as in {table.where(first[each])}")
    return ids


def _check_characters(table: Table, column: str, ids: list[str]) -> None:
    """Every text of a catalogue is shown, perhaps on a terminal."""
    for row, cell in enumerate(table.cells[column]):
        if isinstance(cell, str) and (found := CONTROL.search(cell.strip())):
            said = f"of item {ids[row]!r:.80} must have no control character, {named(found[0])}"
            table.note(row, column, said)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _values(table: Table, column: str) -> Iterator[tuple[int, tuple[str, ...] | float]]:
    """Row and tag of each item that has one."""
    filled = [(row, cell) for row, cell in enumerate(table.cells[column]) if cell not in (None, "")]
    if table.lines is not None:  # text has no type but what it looks like
        filled = _judged(table, column, filled)
    for row, value in filled:
        if isinstance(value, str):
            labels = (label for part in value.split("|") if (label := part.strip()))
            yield row, tuple(dict.fromkeys(labels))
        elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            said = f"column {column!r} must have numbers or text"
            raise DataError(said, path=table.path)
        elif not 0 <= value < 2**53:  # a NaN is not
            table.note(row, column, f"has {value}; a number must be 0 or more, below 2^53")
        else:
            yield row, float(value) if isinstance(value, Decimal) else value


def _judged(
    table: Table, column: str, filled: list[tuple[int, str]]
) -> list[tuple[int, str | float]]:
    """Numbers if all cells are, labels if most are not. Between that somebody mistyped a number."""
    numbers = [cell for _, cell in filled if _NUMBER.fullmatch(cell)]
    others = [(row, cell) for row, cell in filled if not _NUMBER.fullmatch(cell)]
    if others and len(numbers) > len(others):
        row, example = others[0]
        more = f" (and {len(others) - 1:,} more)" if len(others) > 1 else ""
        said = f"has {len(numbers):,} numbers, but here {example!r:.80}{more}"
        table.note(row, column, f"{said}: mend or empty the cell, or leave the column out")
    if others:
        return list(filled)
    if all(_WHOLE.fullmatch(cell) for cell in numbers):
        # Thirty digits are too large already; Python reads no more than some thousands.
        return [(row, int(cell[:30])) for row, cell in filled]
    return [(row, float(cell)) for row, cell in filled]


def read_table(path: Path) -> Table:
    """A text file with a header line, or Parquet; there is at least one row."""
    table = _text(path) if path.suffix in _SEPARATORS else _parquet(path)
    if not any(table.cells.values()):
        raise DataError("an item must stand below the header", path=path)
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
        raw = path.read_bytes()
    try:
        records = list(_records(raw.decode("utf-8-sig"), path))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"not UTF-8 text ({error.reason})", path=path, line=line) from error
    if not records:
        raise DataError("the file is empty: its first line must name the columns", path=path)
    (_, names), *rows = records
    table = Table(path, names, {}, [line for line, _ in rows])
    for row, (_, fields) in enumerate(rows):
        if len(fields) != len(names):
            said = f"must have {len(names)} fields as in the header, found {len(fields)}"
            table.problems.append((row, said))
    table.check()
    table.cells = {name: [fields[at] for _, fields in rows] for at, name in enumerate(names)}
    return table


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
