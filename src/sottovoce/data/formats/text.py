"""Lines of text to columns: fast in blocks, and exact about the line when something is wrong.

polars parses whole blocks of lines. Only when a block does not parse, or holds a gap or a NaN,
is that block read again line by line to name the first line at fault.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.formats.sources import reading
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BLOCK = 1 << 24
_PATIENCE = 4  # blocks without the end of a record before it counts as damaged
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_WHOLE = ("user", "item", "timestamp")
_DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ")


@dataclass(frozen=True)
class Layout:
    """What stands in the fields of one line."""

    separator: str
    roles: tuple[str | None, ...]
    """`user`, `item`, `rating`, `timestamp`; None for a field that is not used."""
    integers: bool = True
    """Ids and timestamps must be integers; else any text is an id, and dates are understood."""
    quoted: bool = False
    """Whether a field may stand in double quotes, separators and line ends included."""

    @property
    def dtypes(self) -> dict[str, type[pl.DataType]]:
        """What polars is to read each role as."""
        whole = pl.Int64 if self.integers else pl.String
        return {"user": whole, "item": whole, "rating": pl.Float64, "timestamp": whole}


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    label: str
    first_line: int
    """The number of the first one, counted from 1."""
    data: bytes


def blocks(file: IO[bytes], label: str, *, quoted: bool, size: int = BLOCK) -> Iterator[Block]:
    """A file in blocks of whole lines (whole records, where quotes may enclose a line end).

    Empty lines at the end of the file are not passed on.
    """
    rest, line = b"", 1
    while True:
        with reading(label):
            more = file.read(size)
        if not more:
            break
        rest += more
        cut = _last_record_end(rest, quoted=quoted)
        if cut:
            yield Block(label, line, rest[:cut])
            line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
        elif len(rest) > _PATIENCE * size:
            raise DataError(
                "this line, or a quotation mark in it, has no end", path=label, line=line
            )
    if rest.strip(b"\r\n"):
        yield Block(label, line, rest)


def _last_record_end(data: bytes, *, quoted: bool) -> int:
    """Where the last whole record ends, less empty lines; with quotes, the last outside of them."""
    cut = data.rfind(b"\n") + 1
    odd = quoted and data.count(b'"', 0, cut) % 2 == 1
    while odd and cut:
        # The last quotation mark opens a field that is still open here: stop before its line.
        before = data.rfind(b"\n", 0, data.rfind(b'"', 0, cut)) + 1
        odd ^= data.count(b'"', before, cut) % 2 == 1
        cut = before
    text = len(data[:cut].rstrip(b"\r\n"))
    return data.index(b"\n", text) + 1 if text else 0


def parse(block: Block, layout: Layout) -> pl.DataFrame:
    """The used columns of a block; a `DataError` names the first line that cannot be read."""
    try:
        frame = _parse_fast(block, layout)
    except PolarsError as error:
        raise _explained(block, layout, str(error).splitlines()[0]) from error
    if "timestamp" in frame.columns and not layout.integers:
        frame = frame.with_columns(seconds(frame["timestamp"]))
    if has_gaps(frame) or not _right_width(block, layout, frame.height):
        raise _explained(block, layout, "a field is empty, missing or not a number")
    return frame


def _right_width(block: Block, layout: Layout, rows: int) -> bool:
    """Whether the separators add up: polars fills up a line that is too short."""
    if layout.quoted and b'"' in block.data:
        return True  # a separator may be part of a field; the columns that are used were checked
    return block.data.count(layout.separator.encode()) == rows * (len(layout.roles) - 1)


def _parse_fast(block: Block, layout: Layout) -> pl.DataFrame:
    data, separator = block.data, layout.separator
    if len(separator) > 1:
        # polars splits at one byte only; a tab never occurs in these files of plain numbers.
        data, separator = data.replace(separator.encode(), b"\t"), "\t"
    names = [role or f"unused {place}" for place, role in enumerate(layout.roles)]
    return pl.read_csv(
        data,
        has_header=False,
        separator=separator,
        quote_char='"' if layout.quoted else None,
        schema={name: layout.dtypes.get(name, pl.String) for name in names},
        columns=[place for place, role in enumerate(layout.roles) if role],
    )


def has_gaps(frame: pl.DataFrame) -> bool:
    """Whether a value is missing, empty, NaN or infinite."""
    return any(gaps(column).any() for column in frame)


def gaps(column: pl.Series) -> pl.Series:
    """Marks values that are missing, empty, NaN or infinite."""
    missing = column.is_null()
    if column.dtype == pl.String:
        return missing | (column == "").fill_null(value=True)
    if column.dtype.is_float():
        return missing | ~column.is_finite().fill_null(value=False)
    return missing


def seconds(times: pl.Series) -> pl.Series:
    """Seconds since 1970 from whole or decimal numbers or ISO dates; null where it is neither."""
    if times.dtype == pl.Date or times.dtype == pl.Datetime:
        return times.dt.epoch("s").alias("timestamp")
    attempts: list[Callable[[], pl.Series]] = [
        lambda: times.cast(pl.Int64, strict=False),
        lambda: times.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False),
    ]
    if times.dtype == pl.String:
        attempts += [lambda form=form: _dated(times, form) for form in _DATES]  # type: ignore[misc]
    for attempt in attempts:
        found = attempt()
        if not found.null_count():
            return found.alias("timestamp")
    return attempts[0]().alias("timestamp")


def _dated(times: pl.Series, form: str) -> pl.Series:
    return times.str.to_datetime(form, strict=False).dt.epoch("s")


def _explained(block: Block, layout: Layout, otherwise: str) -> DataError:
    """The error that names the first line at fault."""
    for line, fields in _records(block, layout):
        fault = fields if isinstance(fields, str) else _fault(fields, layout)
        if fault:
            return DataError(fault, path=block.label, line=line)
    last = block.first_line + max(block.data.rstrip(b"\n").count(b"\n"), 0)
    where = f"somewhere in lines {block.first_line}..{last}"
    return DataError(f"{where}: {otherwise}", path=block.label)


def _records(block: Block, layout: Layout) -> Iterator[tuple[int, list[str] | str]]:
    """Line number and fields of each record, or the number and what makes it unreadable."""
    lines = enumerate(block.data.removesuffix(b"\n").split(b"\n"), start=block.first_line)
    for number, raw in lines:
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            yield number, f"this is not UTF-8 text ({error.reason})"
            continue
        if not layout.quoted:
            yield number, text.removesuffix("\r").split(layout.separator)
            continue
        # A field in quotes may go on over line ends.
        while text.count('"') % 2 and (following := next(lines, None)):
            text += "\n" + following[1].decode(errors="replace")
        yield number, quoted_fields(text, layout.separator)


def quoted_fields(text: str, separator: str) -> list[str]:
    """The fields of one record; none if the quotation marks make no sense."""
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return []


def _fault(fields: Sequence[str], layout: Layout) -> str | None:
    if len(fields) != len(layout.roles):
        return f"expected {len(layout.roles)} fields, found {len(fields)}"
    for role, text in zip(layout.roles, fields, strict=True):
        if role and not text:
            return f"the {role} is empty"
        if role in _WHOLE and layout.integers and not _integer(text):
            return f"the {role} must be an integer, found {text!r}"
        if role == "rating" and not _finite(text):
            return f"the rating must be a finite number, found {text!r}"
        if role == "timestamp" and seconds(pl.Series([text])).null_count():
            return f"the timestamp must be a number or an ISO date, found {text!r}"
    return None


def _integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text[:30]) < 2**63


def _finite(text: str) -> bool:
    try:
        return "_" not in text and text == text.strip() and math.isfinite(float(text))
    except ValueError:
        return False
