"""Tables of text: CSV, TSV, RecBole's `.inter`, and the published formats that resemble them.

A file is read in blocks, which polars parses. A block that polars cannot parse, or that has a
missing or invalid value, is read a second time line by line, so that the error names the line.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.collecting import Collector
from sottovoce.data.columns import Columns, cast_values, find_first_gap, find_roles
from sottovoce.data.files import convert_read_errors, get_first_line, open_file
from sottovoce.data.interactions import Interactions
from sottovoce.errors import DataError

# The byte order mark that some programs write before UTF-8 text.
_UTF8_BOM = b"\xef\xbb\xbf"
# Separators of CSV files. The one that occurs most often in the header is used.
_FIELD_SEPARATORS = (",", "\t", ";", "|")
# The type after the name of a column in RecBole's files, such as `user_id:token`.
_RECBOLE_TYPE = re.compile(r":(?:token|float)(?:_seq)?$")
# Bytes of text that are read and parsed at once.
_BLOCK_BYTES = 1 << 24
# A record may extend over at most this many blocks.
_MAX_BLOCKS_PER_RECORD = 4


@dataclass(frozen=True)
class Layout:
    """How a line is split into fields, and which field has which role."""

    separator: str
    """One or more characters between two fields."""
    roles: tuple[str | None, ...]
    """Role of each field: `user`, `item`, `rating` or `timestamp`, or None if it is not used."""
    integers: bool = True
    """Whether ids and timestamps must be integers. Otherwise ids may be any text, and timestamps
    may be ISO dates."""
    quoted: bool = False
    """Whether a field may be in double quotes, within which it may contain separators and line
    ends."""


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    label: str
    """The file's path, for error messages."""
    first_line: int
    """Number of the first line, counted from 1."""
    data: bytes


def read_text(path: Path, columns: Columns = None) -> Interactions:
    """Read a CSV, TSV or `.inter` file with a header and one line for each interaction."""
    collector = Collector()
    with open_file(path) as file:
        add_text(collector, file, str(path), columns)
    return collector.finish(path, "table of text")


def add_text(
    collector: Collector,
    file: IO[bytes],
    label: str,
    columns: Columns = None,
    *,
    integers: bool = False,
) -> None:
    """Add every interaction of a text file with a header line to a collector.

    Args:
        collector: The collector to which the interactions are added.
        file: The open file.
        label: The file's path, for error messages.
        columns: Column names by role, for columns whose names are not in `COLUMN_ALIASES`.
        integers: Whether ids and timestamps must be integers.
    """
    blocks = read_blocks(file, label, quoted=True)
    first = next(blocks, None)
    if first is None:
        raise DataError("the file is empty: its first line must name the columns", path=label)
    head, _, body = first.data.removeprefix(_UTF8_BOM).partition(b"\n")
    try:
        header = head.decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError("the header must be UTF-8 text", path=label, line=1) from error
    separator = max(_FIELD_SEPARATORS, key=header.count)
    names = _strip_types(split_fields(header, separator))
    layout = Layout(separator, find_roles(names, columns, label), integers, quoted=True)
    # The first block is parsed without the header, and skipped if nothing else is in it.
    for block in chain([replace(first, first_line=2, data=body)] if body else [], blocks):
        collector.add(parse_block(block, layout))


def _strip_types(names: list[str]) -> list[str]:
    """Return the names of columns without RecBole's types, if every column has one."""
    if not all(map(_RECBOLE_TYPE.search, names)):
        return names
    return [_RECBOLE_TYPE.sub("", name) for name in names]


def split_fields(line: str, separator: str = ",") -> list[str]:
    """Return the fields of one record, or [] if its quoting is malformed."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def read_blocks(file: IO[bytes], label: str, *, quoted: bool) -> Iterator[Block]:
    """Read a file in blocks of whole lines, or of whole records if fields may be quoted.

    Empty lines at the end of the file are dropped.
    """
    rest = b""
    line = 1
    while True:
        with convert_read_errors(label):
            more = file.read(_BLOCK_BYTES)
        if not more:
            break
        # The bytes after the last complete record belong to the next block.
        rest += more
        end = _find_last_record_end(rest, quoted=quoted)
        if end:
            yield Block(label, line, rest[:end])
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        elif len(rest) > _MAX_BLOCKS_PER_RECORD * _BLOCK_BYTES:
            raise DataError(
                "unterminated quoted field, or a line that is too long: a record must be at most "
                f"{_MAX_BLOCKS_PER_RECORD * _BLOCK_BYTES:,} bytes",
                path=label,
                line=line,
            )
    # The last line need not have a line end.
    if rest.strip(b"\r\n"):
        yield Block(label, line, rest)


def _find_last_record_end(data: bytes, *, quoted: bool) -> int:
    """Return the offset just after the last complete record that is not an empty line.

    If fields may be quoted, line ends within quotes do not end a record.
    """
    end = data.rfind(b"\n") + 1
    is_open = quoted and data.count(b'"', 0, end) % 2 == 1
    while is_open and end:
        # The last quotation mark opens a field that does not end here, so stop before its line.
        line_start = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
        is_open ^= data.count(b'"', line_start, end) % 2 == 1
        end = line_start
    text_end = len(data[:end].rstrip(b"\r\n"))
    return data.index(b"\n", text_end) + 1 if text_end else 0


def parse_block(block: Block, layout: Layout) -> pl.DataFrame:
    """Return the columns of a block that have a role, named by role.

    Raises:
        DataError: A line is invalid. The error names the first such line.
    """
    data, separator = block.data, layout.separator
    if len(separator) > 1:
        # polars accepts only separators of one byte. Files with longer ones consist of numbers, so
        # they contain no tab.
        data, separator = data.replace(separator.encode(), b"\t"), "\t"
    id_type = pl.Int64 if layout.integers else pl.String
    types = {"user": id_type, "item": id_type, "timestamp": id_type, "rating": pl.Float64}
    names = [role or f"unused {place}" for place, role in enumerate(layout.roles)]
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            separator=separator,
            quote_char='"' if layout.quoted else None,
            schema={name: types.get(name, pl.String) for name in names},
            columns=[place for place, role in enumerate(layout.roles) if role],
        )
    except PolarsError as error:
        raise _locate_error(block, layout, get_first_line(error)) from error
    frame = cast_values(frame, integers=layout.integers)
    # polars adds missing fields to a line that is too short, so count the separators as well. With
    # quotes this is not possible, because a separator may be part of a field.
    is_countable = not (layout.quoted and b'"' in data)
    expected = frame.height * (len(layout.roles) - 1)
    if find_first_gap(frame) or (
        is_countable and block.data.count(layout.separator.encode()) != expected
    ):
        raise _locate_error(block, layout, "every field must be there and have a valid value")
    return frame


def _locate_error(block: Block, layout: Layout, fallback: str) -> DataError:
    """Return an error about the first bad line of a block.

    Args:
        block: The block that cannot be parsed.
        layout: How the lines should be split.
        fallback: The message if no single line is found to be bad.
    """
    try:
        text = block.data.decode()
    except UnicodeDecodeError as error:
        line = block.first_line + block.data.count(b"\n", 0, error.start)
        return DataError(f"must be UTF-8 text ({error.reason})", path=block.label, line=line)
    last_line = block.first_line + text.removesuffix("\n").count("\n")
    message = f"somewhere in lines {block.first_line}..{last_line}: {fallback}"
    bad_line: int | None = None
    lines: list[int] = []
    rows: list[list[str]] = []
    for offset, fields in _split_records(text, layout):
        if len(fields) != len(layout.roles):
            message = f"must have {len(layout.roles)} fields, but has {len(fields)}"
            bad_line = block.first_line + offset
            break
        lines.append(block.first_line + offset)
        rows.append([field for role, field in zip(layout.roles, fields, strict=True) if role])
    # A missing or invalid value in a line above has precedence.
    raw = pl.DataFrame(rows, [(role, pl.String) for role in layout.roles if role], orient="row")
    if gap := find_first_gap(cast_values(raw, integers=layout.integers)):
        row, role = gap
        message = f"the {role} must not be {raw[role][row]!r}"
        bad_line = lines[row]
    return DataError(message, path=block.label, line=bad_line)


def _split_records(text: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record with the offset of its first line, from 0.

    A record with malformed quoting is yielded without fields, and is the last one.
    """
    if not layout.quoted:
        for offset, line in enumerate(text.removesuffix("\n").split("\n")):
            yield offset, line.removesuffix("\r").split(layout.separator)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=layout.separator)
    offset = 0
    try:
        for fields in reader:
            yield offset, fields
            offset = reader.line_num
    except csv.Error:
        yield offset, []
