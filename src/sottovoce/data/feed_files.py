"""Files of product feeds, as tables: text with a header line, or XML.

Both are read as streams, of which only the columns that a format knows are kept. A feed comes from
another program, perhaps over a network, so XML with a document type is refused: without one there
are no entities that grow or that read other files.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from xml.parsers import expat

from sottovoce.data.files import convert_read_errors
from sottovoce.data.items import Table
from sottovoce.errors import DataError

# Suffixes of feeds.
TEXT_FEED_SUFFIXES = (".csv", ".tsv", ".txt")
XML_FEED_SUFFIXES = (".xml", ".rss", ".atom")
# Separators of text feeds. Spreadsheets of some countries write semicolons.
_FEED_SEPARATORS = (",", "\t", ";", "|")
# Bounds that only a broken or hostile feed exceeds: of a file, and of one cell of it.
MAX_FEED_BYTES = 2**30
MAX_CELL_CHARACTERS = 2**24
# A table with this column is no feed, whatever its other columns are.
_OWN_ID_COLUMN = "item"
# Names of the elements of an article, in RSS and in Atom.
_ENTRY_NAMES = ("item", "entry")
# Where the names of Google's attributes stand. They have priority over those of RSS and Atom: the
# `id` of Atom is an address.
_GOOGLE_NAMESPACE = "http://base.google.com/ns/1.0"


@dataclass(frozen=True)
class FeedFormat:
    """The columns of a format, by which a file is recognised."""

    name: str
    columns: Mapping[str, tuple[str, ...]]
    """Names of the columns of each role. Case does not matter, nor `_` in place of a space."""
    required: tuple[str, ...]
    """Roles that every file has."""
    distinctive: tuple[str, ...]
    """Roles of which a file has at least one."""
    numbered: Mapping[str, re.Pattern[str]]
    """Patterns of columns that come in any number, by role; the first group is the number."""

    def find_columns(self, names: list[str]) -> dict[str, int] | None:
        """Return the place of the column of each role; None if this is another format."""
        normalized = [normalize_name(name) for name in names]
        if _OWN_ID_COLUMN in normalized:
            return None
        places = {
            role: normalized.index(next(alias for alias in aliases if alias in normalized))
            for role, aliases in self.columns.items()
            if any(alias in normalized for alias in aliases)
        }
        if any(role not in places for role in self.required):
            return None
        if not any(role in places for role in self.distinctive):
            return None
        for role, pattern in self.numbered.items():
            for place, name in enumerate(normalized):
                if match := pattern.fullmatch(name):
                    places.setdefault(f"{role} {match[1]}", place)
        return places


def normalize_name(name: str) -> str:
    """Return the name of a column in lower case, with spaces in place of underscores."""
    return " ".join(name.replace("_", " ").lower().split()).removeprefix("g:")


@dataclass(frozen=True)
class FeedRows:
    """The rows of a feed: a table whose columns have roles."""

    format: FeedFormat
    table: Table
    columns: Mapping[str, str]
    """Name of the column in the file, by role."""

    def __len__(self) -> int:
        return len(self.table.lines or ())

    def get(self, row: int, role: str) -> str:
        """Return a cell; "" if the file has no such column."""
        cells = self.table.cells.get(role)
        return cells[row] if cells else ""

    def add_problem(self, row: int, role: str, message: str) -> None:
        """Add a problem with a cell; `message` continues a sentence that begins with the column."""
        self.table.add_problem(row, self.columns.get(role, role), message)


def read_text_rows(path: Path, formats: tuple[FeedFormat, ...]) -> FeedRows | None:
    """Read a text file of one of these formats; return None if it is of none of them."""
    for separator in _FEED_SEPARATORS:
        with convert_read_errors(path), path.open("rb") as file, _allow_long_cells():
            records = _split_records(file, separator, path)
            try:
                _, names = next(records, (1, []))
            except DataError:
                continue  # the caller reads it as another table, whose errors are exact
            for feed_format in formats:
                if places := feed_format.find_columns(names):
                    _check_size(path)
                    return _collect_rows(path, feed_format, names, places, records)
    return None


def _collect_rows(
    path: Path,
    feed_format: FeedFormat,
    names: list[str],
    places: dict[str, int],
    records: Iterator[tuple[int, list[str]]],
) -> FeedRows:
    lines: list[int] = []
    cells: dict[str, list[str]] = {role: [] for role in places}
    table = Table(path, names, cells, lines, feed_format=feed_format.name)
    for line, fields in records:
        lines.append(line)
        if len(fields) != len(names):
            what = f"must have {len(names)} fields as in the header, but has {len(fields)}"
            table.problems.append((len(lines) - 1, what))
            table.raise_problems()
        for role, place in places.items():
            cells[role].append(fields[place].strip())
    return FeedRows(feed_format, table, {role: names[place] for role, place in places.items()})


def _split_records(file: IO[bytes], separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the fields of each record; skip empty records."""
    reader = csv.reader(_decode_lines(file, path), delimiter=separator, strict=True)
    line = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"malformed quoting or line ends: {error}", path=path, line=line) from error


def _decode_lines(file: IO[bytes], path: Path) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"not UTF-8 text ({error.reason}): save it as UTF-8", path=path, line=number
            ) from error


@contextmanager
def _allow_long_cells() -> Iterator[None]:
    """Let the module `csv` read descriptions with pictures in them."""
    before = csv.field_size_limit(MAX_CELL_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _check_size(path: Path) -> None:
    with convert_read_errors(path):
        size = path.stat().st_size
    if size > MAX_FEED_BYTES:
        raise DataError(
            f"a feed must have at most {MAX_FEED_BYTES:,} bytes, but this file has {size:,}: "
            "export it without descriptions",
            path=path,
        )


def read_xml_rows(path: Path, feed_format: FeedFormat) -> FeedRows:
    """Read an XML file whose articles are the elements `item` (RSS) or `entry` (Atom).

    Raises:
        DataError: It is malformed, has a document type, or has no article.
    """
    _check_size(path)
    reader = _XmlReader(path, feed_format)
    with convert_read_errors(path), path.open("rb") as file:
        try:
            reader.parser.ParseFile(file)
        except expat.ExpatError as error:
            message = expat.errors.messages[error.code]
            raise DataError(f"malformed XML: {message}", path=path, line=error.lineno) from error
        except DataError:
            raise
        except (LookupError, ValueError) as error:  # an encoding that Python cannot read
            raise DataError(
                f"cannot be read as XML ({error}): save it as UTF-8", path=path
            ) from error
    if not reader.lines:
        raise DataError(
            f"{feed_format.name}: there must be elements <item> (RSS) or <entry> (Atom)", path=path
        )
    table = Table(path, [], reader.cells, reader.lines, feed_format=feed_format.name)
    columns = {
        role: f"g:{names[0].replace(' ', '_')}" for role, names in feed_format.columns.items()
    }
    return FeedRows(feed_format, table, columns)


class _XmlReader:
    """Collects the texts of the elements that stand directly in an article.

    Elements below them do not count: `g:shipping` has a `g:price` of its own.
    """

    def __init__(self, path: Path, feed_format: FeedFormat):
        self.lines: list[int] = []
        self.cells: dict[str, list[str]] = {role: [] for role in feed_format.columns}
        self._path = path
        self._roles = {name: role for role, names in feed_format.columns.items() for name in names}
        # The number of open elements, and how many were open where the article began.
        self._depth = 0
        self._entry_depth: int | None = None
        # The texts of the article by role, first those of Google's namespace.
        self._texts: dict[tuple[bool, str], list[str]] = {}
        self._key: tuple[bool, str] | None = None
        self._parts: list[str] = []
        self._size = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse_document_type
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add_text

    def _refuse_document_type(self, *_: object) -> None:
        raise DataError(
            "a feed must have no document type (<!DOCTYPE>), whose entities may be of any size, or "
            "other files: name the address of the feed itself, not of a web page",
            path=self._path,
            line=self.parser.CurrentLineNumber,
        )

    def _begin(self, name: str, _: object) -> None:
        namespace, _, local = name.rpartition(" ")
        self._depth += 1
        if self._entry_depth is None:
            if local in _ENTRY_NAMES:
                self._entry_depth = self._depth
                self.lines.append(self.parser.CurrentLineNumber)
                self._texts = {}
        elif self._depth == self._entry_depth + 1 and (
            role := self._roles.get(normalize_name(local))
        ):
            self._key = (namespace == _GOOGLE_NAMESPACE, role)
            self._parts, self._size = [], 0

    def _add_text(self, text: str) -> None:
        if self._key is None or self._entry_depth is None or self._depth != self._entry_depth + 1:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > MAX_CELL_CHARACTERS:
            raise DataError(
                f"a text must have at most {MAX_CELL_CHARACTERS:,} characters",
                path=self._path,
                line=self.parser.CurrentLineNumber,
            )

    def _end(self, _: str) -> None:
        if self._key is not None and self._entry_depth == self._depth - 1:
            text = "".join(self._parts).strip()
            if text:
                self._texts.setdefault(self._key, []).append(text)
            self._key = None
        elif self._entry_depth == self._depth:
            for role, cells in self.cells.items():
                texts = self._texts.get((True, role)) or self._texts.get((False, role), [])
                # An element may be repeated; text feeds separate its values by commas.
                cells.append(", ".join(dict.fromkeys(texts)))
            self._entry_depth = None
        self._depth -= 1
