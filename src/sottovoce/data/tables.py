"""Tables of interactions: CSV, TSV, Parquet, DataFrames, and matrices.

Tables are read in blocks, and only 32-bit numbers and timestamps are stored: the strings of a large
file are never all in memory. polars parses whole blocks. A block of text that does not parse, or
that has a gap, is read a second time line by line, so that the error names the line.
"""

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import unquote

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError
from scipy import sparse

from sottovoce.core.histories import Histories
from sottovoce.data.interactions import Interactions, LoadCounts, Pairs, pack, to_id_array
from sottovoce.errors import DataError, get_reason

# Endings of file names, by format.
TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
MATRIX_SUFFIX = ".npz"
# Column names that are recognised without `columns`. Case, `_`, `-`, `.` and spaces are ignored.
COLUMN_ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("user", "userid", "uid", "customer", "customerid", "viewer", "viewerid"),
    "item": ("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product", "productid"),
    "rating": ("rating", "ratings", "score", "stars"),
    "timestamp": ("timestamp", "time", "ts", "unixtime", "date", "datetime"),
}
# Roles that every table must have.
_REQUIRED_ROLES = ("user", "item")
# The byte order mark that some programs write before UTF-8 text.
_UTF8_BOM = b"\xef\xbb\xbf"
# Separators of CSV files; the one that the header has most often is used.
_FIELD_SEPARATORS = (",", "\t", ";", "|")
# Bytes of text that are read and parsed at once.
_BLOCK_BYTES = 1 << 24
# Rows of Parquet that are read at once.
_PARQUET_BLOCK_ROWS = 1 << 20
# Columns that an error message lists.
_MAX_COLUMNS_IN_ERROR = 12
# A record that has not ended after this many blocks is an error.
_MAX_BLOCKS_PER_RECORD = 4
# Widest range of integer ids that is encoded by a look-up table (64 MiB of int32).
_MAX_LOOKUP_RANGE = 1 << 24
# Ids that may become integers: no leading zeros, so that "007" and "7" stay different.
_INTEGER_ID = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64_RANGE = np.iinfo(np.int64)
_DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.fZ",
)

Columns = Mapping[str, str] | None


@contextmanager
def convert_read_errors(path: Path | str) -> Iterator[None]:
    """Convert I/O and decompression errors to a `DataError` that names the file."""
    try:
        yield
    except zipfile.BadZipFile as error:
        raise DataError(f"damaged, truncated or not a zip archive ({error})", path=path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {get_reason(error)}", path=path) from error
    # zipfile raises these for encrypted members and for unknown compression methods.
    except (RuntimeError, NotImplementedError) as error:
        raise DataError(f"cannot be decompressed: {error}", path=path) from error


def open_file(path: Path | zipfile.Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressing it if its name ends in `.gz`."""
    with convert_read_errors(str(path)):
        if isinstance(path, Path) and path.suffix == ".gz":
            return cast("IO[bytes]", gzip.open(path))
        return path.open("rb")


def parse_columns(text: str | None, example: str = "user=NAME,item=NAME") -> dict[str, str] | None:
    """Parse the value of `--columns`, such as `user=who,item=what`; None stays None.

    >>> parse_columns("user=who, item=what")
    {'user': 'who', 'item': 'what'}
    """
    if text is None:
        return None
    columns: dict[str, str] = {}
    for role, _, name in (map(str.strip, part.partition("=")) for part in text.split(",")):
        if not role or not name:
            raise DataError(f"columns must look like {example!r}, not {text!r}")
        if role in columns:
            both = f"{role}={columns[role]} and {role}={name}"
            raise DataError(f"columns name the {role} twice, {both}: give only one of them")
        columns[role] = name
    return columns


def find_roles(
    names: Sequence[str],
    columns: Columns,
    path: str,
    required: Sequence[str] = _REQUIRED_ROLES,
) -> tuple[str | None, ...]:
    """Return the role of each column, or None for a column that is not used.

    Args:
        names: The names of all columns, in order.
        columns: Column names by role; roles that are not in it go by `COLUMN_ALIASES`.
        path: Where the table is from, for error messages.
        required: Roles that a column must have.

    >>> find_roles(["userId", "movieId", "note"], None, "x.csv")
    ('user', 'item', None)
    """
    chosen = dict(columns or {})
    listed = ", ".join(map(repr, names[:_MAX_COLUMNS_IN_ERROR]))
    if len(names) > _MAX_COLUMNS_IN_ERROR:
        listed += f" and {len(names) - _MAX_COLUMNS_IN_ERROR} more"
    if unknown := sorted(set(chosen) - set(COLUMN_ALIASES)):
        raise DataError(
            f"roles of columns must be among {', '.join(COLUMN_ALIASES)}, not {', '.join(unknown)}"
        )
    roles: list[str | None] = [None] * len(names)
    for role, aliases in COLUMN_ALIASES.items():
        matches = [
            place
            for place, name in enumerate(names)
            if (name == chosen[role] if role in chosen else _normalize_name(name) in aliases)
        ]
        if len(matches) > 1:
            several = ", ".join(repr(names[place]) for place in matches)
            raise DataError(
                f"more than one column could be the {role} ({several}): choose one with columns",
                path=path,
            )
        if not matches and role in chosen:
            raise DataError(f"no column is called {chosen[role]!r}; there are {listed}", path=path)
        if not matches and role in required:
            raise DataError(
                f"no column for the {role} among {listed}. Call it {' / '.join(aliases)}, or name "
                f"it with load(..., columns={{{role!r}: NAME}}) or --columns {role}=NAME",
                path=path,
            )
        for place in matches:
            if roles[place]:
                raise DataError(
                    f"column {names[place]!r} must have one role, not {roles[place]} and {role}",
                    path=path,
                )
            roles[place] = role
    return tuple(roles)


def _normalize_name(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in "_-. ")


class IdEncoder:
    """A map from ids of any hashable type to 0, 1, 2, ... in the order of their appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def encode(self, ids: pl.Series) -> NDArray[np.int32]:
        """Return the numbers of a block of ids; new ids get the next free numbers."""
        if ids.is_empty():
            return np.empty(0, np.int32)
        if ids.dtype.is_integer():
            low, high = int(ids.min()), int(ids.max())  # type: ignore[arg-type]  # integers
            if (
                high - low < _MAX_LOOKUP_RANGE
                and _INT64_RANGE.min <= low
                and high <= _INT64_RANGE.max
            ):
                return self._encode_by_table(ids.cast(pl.Int64).to_numpy() - low, low, high)
        # Only distinct ids become Python objects, since these are slow and large.
        distinct = ids.unique(maintain_order=True)
        numbers = pl.Series(self._assign_numbers(distinct.to_list()), dtype=pl.Int32)
        return ids.replace_strict(distinct, numbers, return_dtype=pl.Int32).to_numpy()

    def _encode_by_table(
        self, offsets: NDArray[np.int64], low: int, high: int
    ) -> NDArray[np.int32]:
        # The table first marks the ids that occur, and then holds their numbers.
        table = np.zeros(high - low + 1, np.int32)
        table[offsets] = 1
        distinct = np.flatnonzero(table)
        table[distinct] = self._assign_numbers((distinct + low).tolist())
        return table[offsets]

    def _assign_numbers(self, ids: Iterable[Any]) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(value, len(numbers)) for value in ids]

    def sort_ids(self, *, keep_types: bool = False) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the sorted ids and, for each assigned number, the rank of its id.

        Args:
            keep_types: Whether text stays text; otherwise text ids become integers if all of them
                are whole numbers.
        """
        ids = list(self._numbers)
        if not keep_types and all(isinstance(x, str) and _INTEGER_ID.fullmatch(x) for x in ids):
            ids = [int(text) for text in ids]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        ranks = np.empty(len(ids), np.int32)
        ranks[order] = np.arange(len(ids), dtype=np.int32)
        return to_id_array([ids[number] for number in order]), ranks


class Collector:
    """Accumulator of blocks of interactions, which become one data set.

    A block has the columns `user` and `item`, perhaps `rating` and `timestamp`, and no gaps.
    """

    def __init__(self) -> None:
        self._users = IdEncoder()
        self._items = IdEncoder()
        self._blocks: dict[str, list[NDArray[Any]]] = {"user": [], "item": [], "timestamp": []}
        self._n_rows = 0
        self._n_not_positive = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Add a block; rows with a rating of 0 or less are only counted."""
        positive = drop_nonpositive(frame)
        self._n_rows += frame.height
        self._n_not_positive += frame.height - positive.height
        self._blocks["user"].append(self._users.encode(positive["user"]))
        self._blocks["item"].append(self._items.encode(positive["item"]))
        if "timestamp" in positive.columns:
            # The smallest integer type saves memory: seconds since 1970 nearly always fit 32 bits.
            self._blocks["timestamp"].append(positive["timestamp"].shrink_dtype().to_numpy())

    def finish(self, path: Path, layout: str, *, keep_types: bool = False) -> Interactions:
        """Return everything that was added as one data set.

        Args:
            path: The source, which the data set is named after.
            layout: The recognised layout, for `LoadCounts.format`.
            keep_types: As in `IdEncoder.sort_ids`.

        Raises:
            DataError: There is no interaction.
        """
        if self._n_rows == self._n_not_positive:
            why = (
                f"all {self._n_rows:,} ratings are 0 or less" if self._n_rows else "it has no rows"
            )
            raise DataError(f"there must be at least one interaction: {why}", path=path)
        user_ids, user_ranks = self._users.sort_ids(keep_types=keep_types)
        item_ids, item_ranks = self._items.sort_ids(keep_types=keep_types)
        has_times = bool(self._blocks["timestamp"])
        pairs = Pairs(
            _remap(_concatenate(self._blocks["user"], np.int32), user_ranks),
            _remap(_concatenate(self._blocks["item"], np.int32), item_ranks),
            _concatenate(self._blocks["timestamp"], np.int64) if has_times else None,
        )
        histories, times, duplicates = pack(pairs, len(user_ids), len(item_ids))
        load_counts = LoadCounts(layout, self._n_rows, self._n_not_positive, duplicates)
        return Interactions(
            derive_name(path), histories, user_ids, item_ids, times, load_counts=load_counts
        )


def drop_nonpositive(frame: pl.DataFrame) -> pl.DataFrame:
    """Drop rows with a rating of 0 or less, which by rule are not interactions."""
    return frame.filter(pl.col("rating") > 0) if "rating" in frame.columns else frame


def derive_name(path: Path) -> str:
    """Return the name of the data set in a file or folder: `ml-1m` for `/data/ml-1m.zip`."""
    name = path.resolve().name.removesuffix(".gz")
    return name if path.is_dir() else name.rsplit(".", 1)[0]


def _concatenate(blocks: list[NDArray[Any]], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Concatenate blocks and empty the list, so that each block is freed once it is copied."""
    # Filled from the end, because pop() takes the last block.
    result = np.empty(sum(map(len, blocks)), dtype)
    end = len(result)
    while blocks:
        block = blocks.pop()
        result[end - len(block) : end] = block
        end -= len(block)
    return result


def _remap(numbers: NDArray[np.int32], ranks: NDArray[np.int32]) -> NDArray[np.int32]:
    return numbers if np.array_equal(ranks, np.arange(len(ranks))) else ranks[numbers]


def _cast_values(frame: pl.DataFrame, *, integers: bool = False) -> pl.DataFrame:
    """Cast ratings to floats and timestamps to seconds; invalid values become null.

    If `integers`, ids and timestamps must be integers too.
    """
    if integers:
        frame = frame.with_columns(pl.all().exclude("rating").cast(pl.Int64, strict=False))
    elif "timestamp" in frame.columns:
        frame = frame.with_columns(to_seconds(frame["timestamp"]))
    if "rating" in frame.columns:
        frame = frame.with_columns(pl.col("rating").cast(pl.Float64, strict=False))
    return frame


def to_seconds(times: pl.Series) -> pl.Series:
    """Convert numbers or ISO dates to seconds since 1970; other values become null."""
    if times.dtype == pl.Date or times.dtype == pl.Datetime:
        return times.dt.epoch("s")
    integers = times.cast(pl.Int64, strict=False)
    if not integers.null_count():
        return integers
    converted = times.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    for date_format in _DATE_FORMATS if times.dtype == pl.String else ():
        if not converted.null_count():
            break
        converted = times.str.to_datetime(date_format, strict=False).dt.epoch("s")
    # Neither floats nor one date format fit the whole column: all but integers is invalid.
    return integers if converted.null_count() else converted


def _mark_gaps(column: pl.Series) -> pl.Series:
    """Mark values that are missing, empty, NaN or infinite."""
    if column.dtype == pl.String:
        return (column == "").fill_null(value=True)
    if column.dtype.is_float():
        return ~column.is_finite().fill_null(value=False)
    return column.is_null()


def _find_first_gap(frame: pl.DataFrame) -> tuple[int, str] | None:
    """Return row and role of the first missing, empty, NaN or infinite value."""
    gaps = ((marks.arg_true(), marks.name) for marks in map(_mark_gaps, frame))
    return min(((int(rows[0]), role) for rows, role in gaps if len(rows)), default=None)


@dataclass(frozen=True)
class Layout:
    """How a line is split into fields, and which field has which role."""

    separator: str
    roles: tuple[str | None, ...]
    """`user`, `item`, `rating`, `timestamp`; None for a field that is not used."""
    integers: bool = True
    """Whether ids and timestamps must be integers; otherwise ids may be any text and timestamps
    ISO dates."""
    quoted: bool = False
    """Whether a field may stand in double quotes and then hold separators and line ends."""


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    label: str
    """The file's path, for error messages."""
    first_line: int
    """Number of the first line, counted from 1."""
    data: bytes


def read_text(path: Path, columns: Columns = None) -> Interactions:
    """Read a CSV or TSV file with a header and one line for each interaction."""
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
        collector: What the interactions are added to.
        file: The open file.
        label: The file's path, for error messages.
        columns: Column names by role, where `COLUMN_ALIASES` does not have them.
        integers: As in `Layout`.
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
    names = split_fields(header, separator)
    layout = Layout(separator, find_roles(names, columns, label), integers, quoted=True)
    # The first block without the header, which may leave nothing.
    for block in chain([replace(first, first_line=2, data=body)] if body else [], blocks):
        collector.add(parse_block(block, layout))


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
    # The last line may lack its line end.
    if rest.strip(b"\r\n"):
        yield Block(label, line, rest)


def _find_last_record_end(data: bytes, *, quoted: bool) -> int:
    """Return the offset just after the last complete record that is not an empty line.

    If fields may be quoted, a line end counts only outside of quotes.
    """
    end = data.rfind(b"\n") + 1
    is_open = quoted and data.count(b'"', 0, end) % 2 == 1
    while is_open and end:
        # The last quotation mark opens a field that has not ended: stop before its line.
        line_start = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
        is_open ^= data.count(b'"', line_start, end) % 2 == 1
        end = line_start
    text_end = len(data[:end].rstrip(b"\r\n"))
    return data.index(b"\n", text_end) + 1 if text_end else 0


def parse_block(block: Block, layout: Layout) -> pl.DataFrame:
    """Return the columns of a block that have a role, named by role.

    Raises:
        DataError: A line cannot be read; names the first such line.
    """
    data, separator = block.data, layout.separator
    if len(separator) > 1:
        # polars splits at one byte only; a tab never occurs in these files of plain numbers.
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
        raise _locate_error(block, layout, _first_line(error)) from error
    frame = _cast_values(frame, integers=layout.integers)
    # polars fills up a line that is too short, so count the separators. With quotes that is not
    # possible, since a separator may be part of a field.
    is_countable = not (layout.quoted and b'"' in data)
    expected = frame.height * (len(layout.roles) - 1)
    if _find_first_gap(frame) or (
        is_countable and block.data.count(layout.separator.encode()) != expected
    ):
        raise _locate_error(block, layout, "every field must be there and have a valid value")
    return frame


def _locate_error(block: Block, layout: Layout, fallback: str) -> DataError:
    """Return the error that names the first bad line, or `fallback` if no single line is bad."""
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
    # A gap in the lines before comes first.
    raw = pl.DataFrame(rows, [(role, pl.String) for role in layout.roles if role], orient="row")
    if gap := _find_first_gap(_cast_values(raw, integers=layout.integers)):
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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def read_parquet(path: Path, columns: Columns = None) -> Interactions:
    """Read the interactions of a Parquet file, or of all such files in a folder."""
    collector = Collector()
    for frame in read_parquet_blocks(path, columns):
        collector.add(frame)
    return collector.finish(path, "Parquet")


def read_parquet_blocks(path: Path, columns: Columns = None) -> Iterator[pl.DataFrame]:
    """Yield the interactions of Parquet files in blocks of limited size.

    A block has the columns `user`, `item`, and perhaps `rating` and `timestamp`.
    """
    first_types: dict[str, str] | None = None
    for file in find_parquet_files(path) if path.is_dir() else [path]:
        try:
            # Lazy: only the columns with a role are read from the file.
            table = _scan_partition(file, path)
            schema = table.collect_schema()
            roles = zip(schema, find_roles(schema.names(), columns, str(file)), strict=True)
            table = table.select([pl.col(name).alias(role) for name, role in roles if role])
            types = _classify_columns(table)
            first_types = first_types or types
            if types != first_types:
                raise DataError(
                    "the files of a folder must have the same columns: "
                    f"this one has {types}, the ones before it have {first_types}",
                    path=file,
                )
            n_rows = int(table.select(pl.len()).collect().item())
            for start in range(0, n_rows, _PARQUET_BLOCK_ROWS):
                block = table.slice(start, _PARQUET_BLOCK_ROWS).collect()
                yield _check_frame(block, start, file)
        except (PolarsError, OSError) as error:
            raise DataError(
                f"cannot be read as Parquet: {_first_line(error)}", path=file
            ) from error


def find_parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and in all folders below it, sorted by name."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in PARQUET_SUFFIXES)


def _scan_partition(file: Path, folder: Path) -> pl.LazyFrame:
    """Scan a file, with a column for each folder above it that is called `name=value`.

    This is the layout of partitioned tables.
    """
    above = file.relative_to(folder).parts[:-1] if file != folder else ()
    partitions = [part.partition("=")[::2] for part in above if "=" in part]
    table = pl.scan_parquet(file, glob=False, hive_partitioning=False)
    return table.with_columns([pl.lit(unquote(value)).alias(name) for name, value in partitions])


def _classify_columns(table: pl.LazyFrame) -> dict[str, str]:
    """Return by role whether a column of ids holds numbers or text; other roles take any type."""
    return {
        role: ("numbers" if dtype.is_integer() else "text") if role in _REQUIRED_ROLES else "any"
        for role, dtype in sorted(table.collect_schema().items())
    }


def _check_frame(raw: pl.DataFrame, start: int, path: Path) -> pl.DataFrame:
    """Return a block with its values cast, or raise a `DataError` that names the row.

    `start` rows of the file come before this block.
    """
    frame = _cast_values(raw.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)))
    if gap := _find_first_gap(frame):
        row, role = gap
        raise DataError(f"row {start + row + 1}: {role} must not be {raw[role][row]!r}", path=path)
    # Without rows, polars has no useful types.
    for role in _REQUIRED_ROLES if frame.height else ():
        if not (frame[role].dtype.is_integer() or frame[role].dtype in (pl.String, pl.Binary)):
            dtype = raw[role].dtype
            raise DataError(f"the {role} is {dtype}; ids must be integers or text", path=path)
    return frame


def is_table(source: Any) -> bool:
    """Return whether this is a DataFrame of any library, a mapping, or a pair (users, items)."""
    protocols = ("__arrow_c_stream__", "__dataframe__")
    return isinstance(source, Mapping | tuple) or any(hasattr(source, name) for name in protocols)


def read_frame(source: Any, columns: Columns = None, user: Any = None) -> Interactions:
    """Read the interactions of a table in memory; its ids keep their types.

    Args:
        source: A DataFrame, a mapping of columns, or a pair (users, items).
        columns: Column names by role, where `COLUMN_ALIASES` does not have them.
        user: Id of the user who has all interactions, if no column names users.
    """
    path = Path(type(source).__name__)
    frame = _to_frame(source, path)
    roles = find_roles(frame.columns, columns, str(path), ("item",))
    # A column without a role may be the user's under a name that is not recognised.
    if user is None or None in roles:
        roles = find_roles(frame.columns, columns, str(path))
    columns_with_roles = zip(frame.columns, roles, strict=True)
    frame = frame.select([pl.col(name).alias(role) for name, role in columns_with_roles if role])
    if "user" not in frame.columns:
        frame = frame.with_columns(pl.lit(user).alias("user"))
        if not frame.height:
            empty = Histories.from_lists([[]], 0)
            return Interactions(str(path), empty, to_id_array([user]), to_id_array([]))
    collector = Collector()
    collector.add(_check_frame(frame, 0, path))
    return collector.finish(path, "table in memory", keep_types=True)


def _to_frame(source: Any, path: Path) -> pl.DataFrame:
    if isinstance(source, tuple):
        if len(source) != len(_REQUIRED_ROLES):
            raise DataError(f"must be a pair (users, items), not {len(source)} parts", path=path)
        source = dict(zip(_REQUIRED_ROLES, source, strict=True))
    elif hasattr(source, "to_frame"):  # a Series, which is a single column
        source = source.to_frame()
    try:
        try:
            return pl.DataFrame(source)
        # pandas without pyarrow: polars cannot read it as a whole, but its columns have tolist().
        except (ImportError, TypeError):
            columns = {str(name): source[name] for name in source}
            to_lists = ((name, getattr(col, "tolist", None)) for name, col in columns.items())
            lists = {name: to_list() for name, to_list in to_lists if to_list}
            return pl.DataFrame({**columns, **lists})
    except (TypeError, ValueError, PolarsError) as error:
        raise DataError(
            f"must be columns of equal length, each of one type: {_first_line(error)}", path=path
        ) from error


def read_matrix(path: Path) -> Interactions:
    """Read a matrix from a file of `scipy.sparse.save_npz`."""
    try:
        with convert_read_errors(path):
            matrix = sparse.load_npz(path)
    except (ValueError, KeyError, TypeError) as error:
        # DataError is a ValueError: this one names the file already.
        if isinstance(error, DataError):
            raise
        raise DataError(f"not a matrix of scipy.sparse.save_npz ({error})", path=path) from error
    return from_matrix(matrix, path)


def from_matrix(matrix: Any, path: Path) -> Interactions:
    """Convert a dense or sparse matrix, whose rows are users and whose columns are items.

    Values above 0 are interactions. Rows and columns without any stay in the data set.
    """
    try:
        matrix = matrix if sparse.issparse(matrix) else np.asarray(matrix)
        cells = sparse.coo_matrix(matrix) if len(matrix.shape) == 2 else None
    except (TypeError, ValueError):
        cells = None
    if cells is None or cells.dtype.kind not in "biuf" or not np.isfinite(cells.data).all():
        raise DataError("must be a matrix with 2 dimensions and finite numbers", path=path)
    n_users, n_items = cells.shape
    is_positive = cells.data > 0
    if not is_positive.any():
        raise DataError("the matrix must have at least one value above 0", path=path)
    users = cells.row[is_positive].astype(np.int32)
    items = cells.col[is_positive].astype(np.int32)
    histories, _, duplicates = pack(Pairs(users, items, None), n_users, n_items)
    n_not_positive = len(is_positive) - len(users)
    load_counts = LoadCounts("sparse matrix", len(is_positive), n_not_positive, duplicates)
    ids = np.arange(n_users), np.arange(n_items)
    return Interactions(derive_name(path), histories, *ids, load_counts=load_counts)
