"""Tables of interactions: CSV, TSV, Parquet, DataFrames, and matrices.

Tables are read in blocks, of which only 32-bit numbers and timestamps are kept: the strings of a
large file are never all in memory. polars parses whole blocks. Only a block of text that does not
parse, or holds a gap, is read again line by line, to name the line at fault.
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

from sottovoce.core.model import Histories
from sottovoce.data.interactions import Interactions, Loaded, Pairs, id_array, pack
from sottovoce.errors import DataError, reason

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
MATRIX = ".npz"
ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("user", "userid", "uid", "customer", "customerid", "viewer", "viewerid"),
    "item": ("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product", "productid"),
    "rating": ("rating", "ratings", "score", "stars"),
    "timestamp": ("timestamp", "time", "ts", "unixtime", "date", "datetime"),
}
"""Names that are recognised, whatever their case, with or without `_`, `-`, `.` and spaces."""
_NEEDED = ("user", "item")
_BOM = b"\xef\xbb\xbf"
_SEPARATORS = (",", "\t", ";", "|")
_BLOCK = 1 << 24  # bytes of text
_ROWS = 1 << 20  # of Parquet
_LISTED = 12  # columns that an error names
_PATIENCE = 4  # blocks without the end of a record before it counts as damaged
_TABLE = 1 << 24  # the widest range of integers for which a look-up table is worth its memory
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64 = np.iinfo(np.int64)
_DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ")

Columns = Mapping[str, str] | None


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turns what can go wrong while reading bytes into a `DataError` that names the file."""
    try:
        yield
    except zipfile.BadZipFile as error:
        raise DataError(f"damaged, truncated or not a zip archive ({error})", path=path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {reason(error)}", path=path) from error
    except (RuntimeError, NotImplementedError) as error:  # zipfile: encrypted, or odd compression
        raise DataError(f"cannot be decompressed: {error}", path=path) from error


def open_file(path: Path | zipfile.Path) -> IO[bytes]:
    """A file's bytes; one whose name ends in `.gz` is decompressed."""
    with reading(str(path)):
        if isinstance(path, Path) and path.suffix == ".gz":
            return cast("IO[bytes]", gzip.open(path))
        return path.open("rb")


def parse_columns(text: str | None, example: str = "user=NAME,item=NAME") -> dict[str, str] | None:
    """What the command line takes: `user=who,item=what`, or None, which stays so.

    >>> parse_columns("user=who, item=what")
    {'user': 'who', 'item': 'what'}
    """
    if text is None:
        return None
    named: dict[str, str] = {}
    for role, _, name in (map(str.strip, part.partition("=")) for part in text.split(",")):
        if not role or not name:
            raise DataError(f"columns must look like {example!r}, found {text!r}")
        if role in named:
            both = f"{role}={named[role]} and {role}={name}"
            raise DataError(f"columns name the {role} twice, {both}: say one of them")
        named[role] = name
    return named


def roles_of(
    names: Sequence[str], columns: Columns, path: str, needed: Sequence[str] = _NEEDED
) -> tuple[str | None, ...]:
    """The role of each column, None where it has none.

    >>> roles_of(["userId", "movieId", "note"], None, "x.csv")
    ('user', 'item', None)
    """
    given, listed = dict(columns or {}), ", ".join(map(repr, names[:_LISTED]))
    listed += f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    if unknown := sorted(set(given) - set(ALIASES)):
        raise DataError(f"columns must be of {', '.join(ALIASES)}, not {', '.join(unknown)}")
    roles: list[str | None] = [None] * len(names)
    for role, aliases in ALIASES.items():
        matches = [
            place
            for place, name in enumerate(names)
            if (name == given[role] if role in given else _plain(name) in aliases)
        ]
        if len(matches) > 1:
            several = ", ".join(repr(names[place]) for place in matches)
            raise DataError(f"{several} could be the {role}: say which with columns", path=path)
        if not matches and role in given:
            raise DataError(f"no column is called {given[role]!r}; there are {listed}", path=path)
        if not matches and role in needed:
            raise DataError(
                f"no column for the {role} among {listed}. Call it {' / '.join(aliases)}, or say "
                f"which it is: load(..., columns={{{role!r}: NAME}}), --columns {role}=NAME",
                path=path,
            )
        for place in matches:
            if roles[place]:
                raise DataError("a column must be given for one purpose alone", path=path)
            roles[place] = role
    return tuple(roles)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in "_-. ")


class Numbering:
    """Ids of any hashable kind to 0, 1, 2, ... in the order in which they turn up."""

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}

    def add(self, ids: pl.Series) -> NDArray[np.int32]:
        """The numbers of a block of ids."""
        if ids.is_empty():
            return np.empty(0, np.int32)
        if ids.dtype.is_integer():
            low, high = int(ids.min()), int(ids.max())  # type: ignore[arg-type]  # integers
            if high - low < _TABLE and _INT64.min <= low and high <= _INT64.max:
                return self._by_table(ids.cast(pl.Int64).to_numpy() - low, low, high)
        known = ids.unique(maintain_order=True)
        numbers = pl.Series(self._numbers(known.to_list()), dtype=pl.Int32)
        return ids.replace_strict(known, numbers, return_dtype=pl.Int32).to_numpy()

    def _by_table(self, offsets: NDArray[np.int64], low: int, high: int) -> NDArray[np.int32]:
        table = np.zeros(high - low + 1, np.int32)
        table[offsets] = 1
        known = np.flatnonzero(table)
        table[known] = self._numbers((known + low).tolist())
        return table[offsets]

    def _numbers(self, ids: Iterable[Any]) -> list[int]:
        number = self._number
        return [number.setdefault(one, len(number)) for one in ids]

    def in_order(self, *, keep: bool = False) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """The ids, ascending, and for each number given out its place among them.

        Text that is a whole number becomes one, unless ids are to be kept as they are.
        """
        ids = list(self._number)
        if not keep and all(isinstance(one, str) and _INTEGER.fullmatch(one) for one in ids):
            ids = [int(one) for one in ids]  # not if one is "007", which is another id than "7"
        order = sorted(range(len(ids)), key=ids.__getitem__)
        place = np.empty(len(ids), np.int32)
        place[order] = np.arange(len(ids), dtype=np.int32)
        return id_array([ids[number] for number in order]), place


class Collector:
    """Takes blocks (`user`, `item`, perhaps `rating`, `timestamp`, no gaps): a data set."""

    def __init__(self) -> None:
        self._users, self._items = Numbering(), Numbering()
        self._blocks: dict[str, list[NDArray[Any]]] = {"user": [], "item": [], "timestamp": []}
        self._rows = self._not_positive = 0

    def add(self, frame: pl.DataFrame) -> None:
        """One block; ratings of 0 or less are counted and left out."""
        some = positive(frame)
        self._rows += frame.height
        self._not_positive += frame.height - some.height
        self._blocks["user"].append(self._users.add(some["user"]))
        self._blocks["item"].append(self._items.add(some["item"]))
        if "timestamp" in some.columns:
            # Narrow until the end: seconds since 1970 fit 32 bits in every data set so far.
            self._blocks["timestamp"].append(some["timestamp"].shrink_dtype().to_numpy())

    def finish(self, path: Path, layout: str, *, keep: bool = False) -> Interactions:
        """Everything that was added; `path` names the source. `keep` as in `Numbering`."""
        if self._rows == self._not_positive:
            why = f"all {self._rows:,} ratings are 0 or less" if self._rows else "it has no rows"
            raise DataError(f"there must be an interaction: {why}", path=path)
        user_ids, user_place = self._users.in_order(keep=keep)
        item_ids, item_place = self._items.in_order(keep=keep)
        timed = bool(self._blocks["timestamp"])
        pairs = Pairs(
            _placed(_joined(self._blocks["user"], np.int32), user_place),
            _placed(_joined(self._blocks["item"], np.int32), item_place),
            _joined(self._blocks["timestamp"], np.int64) if timed else None,
        )
        histories, times, duplicates = pack(pairs, len(user_ids), len(item_ids))
        loaded = Loaded(layout, self._rows, self._not_positive, duplicates)
        name = plain_name(path)
        return Interactions(name, histories, user_ids, item_ids, times, loaded=loaded)


def positive(frame: pl.DataFrame) -> pl.DataFrame:
    """Without ratings of 0 or less, which are no interactions."""
    return frame.filter(pl.col("rating") > 0) if "rating" in frame.columns else frame


def plain_name(path: Path) -> str:
    """`ml-1m` for `/somewhere/ml-1m.zip`."""
    name = path.resolve().name.removesuffix(".gz")
    return name if path.is_dir() else name.rsplit(".", 1)[0]


def _joined(blocks: list[NDArray[Any]], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """The blocks as one array; each is let go as soon as it is copied."""
    joined = np.empty(sum(map(len, blocks)), dtype)
    end = len(joined)
    while blocks:
        block = blocks.pop()
        joined[end - len(block) : end] = block
        end -= len(block)
    return joined


def _placed(numbers: NDArray[np.int32], place: NDArray[np.int32]) -> NDArray[np.int32]:
    return numbers if np.array_equal(place, np.arange(len(place))) else place[numbers]


def _converted(frame: pl.DataFrame, *, integers: bool = False) -> pl.DataFrame:
    """A rating is a number, a timestamp seconds; null where a value is not what it must be."""
    if integers:
        frame = frame.with_columns(pl.all().exclude("rating").cast(pl.Int64, strict=False))
    elif "timestamp" in frame.columns:
        frame = frame.with_columns(seconds(frame["timestamp"]))
    if "rating" in frame.columns:
        frame = frame.with_columns(pl.col("rating").cast(pl.Float64, strict=False))
    return frame


def seconds(times: pl.Series) -> pl.Series:
    """Seconds since 1970 from whole or decimal numbers or ISO dates; null where it is neither."""
    if times.dtype == pl.Date or times.dtype == pl.Datetime:
        return times.dt.epoch("s")
    whole = times.cast(pl.Int64, strict=False)
    if not whole.null_count():
        return whole
    found = times.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    for form in _DATES if times.dtype == pl.String else ():
        if not found.null_count():
            break
        found = times.str.to_datetime(form, strict=False).dt.epoch("s")
    return whole if found.null_count() else found


def _gaps(column: pl.Series) -> pl.Series:
    """Marks values that are missing, empty, NaN or infinite."""
    if column.dtype == pl.String:
        return (column == "").fill_null(value=True)
    if column.dtype.is_float():
        return ~column.is_finite().fill_null(value=False)
    return column.is_null()


def _first_gap(frame: pl.DataFrame) -> tuple[int, str] | None:
    """Row and role of the first value that is missing, empty, NaN or infinite."""
    found = ((gaps.arg_true(), gaps.name) for gaps in map(_gaps, frame))
    return min(((int(rows[0]), role) for rows, role in found if len(rows)), default=None)


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


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    label: str
    first_line: int
    """The number of the first one, counted from 1."""
    data: bytes


def read_text(path: Path, columns: Columns = None) -> Interactions:
    """A CSV or TSV file with a header: one line for each interaction."""
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
    """Every interaction of a text file with a header line."""
    several = blocks(file, label, quoted=True)
    first = next(several, None)
    if first is None:
        raise DataError("the file is empty: its first line must name the columns", path=label)
    head, _, body = first.data.removeprefix(_BOM).partition(b"\n")
    try:
        header = head.decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError("the header must be UTF-8 text", path=label, line=1) from error
    separator = max(_SEPARATORS, key=header.count)
    names = fields_of(header, separator)
    layout = Layout(separator, roles_of(names, columns, label), integers, quoted=True)
    for block in chain([replace(first, first_line=2, data=body)] if body else [], several):
        collector.add(parse(block, layout))


def fields_of(line: str, separator: str = ",") -> list[str]:
    """The fields of one record; none if the quotation marks make no sense."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def blocks(file: IO[bytes], label: str, *, quoted: bool) -> Iterator[Block]:
    """A file in blocks of whole lines (whole records, where quotes may enclose a line end).

    Empty lines at the end of the file are not passed on.
    """
    rest, line = b"", 1
    while True:
        with reading(label):
            more = file.read(_BLOCK)
        if not more:
            break
        rest += more
        cut = _last_record_end(rest, quoted=quoted)
        if cut:
            yield Block(label, line, rest[:cut])
            line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
        elif len(rest) > _PATIENCE * _BLOCK:
            raise DataError("this line, or a quotation mark, must end", path=label, line=line)
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
    data, separator = block.data, layout.separator
    if len(separator) > 1:
        # polars splits at one byte only; a tab never occurs in these files of plain numbers.
        data, separator = data.replace(separator.encode(), b"\t"), "\t"
    whole = pl.Int64 if layout.integers else pl.String
    kinds = {"user": whole, "item": whole, "timestamp": whole, "rating": pl.Float64}
    names = [role or f"unused {place}" for place, role in enumerate(layout.roles)]
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            separator=separator,
            quote_char='"' if layout.quoted else None,
            schema={name: kinds.get(name, pl.String) for name in names},
            columns=[place for place, role in enumerate(layout.roles) if role],
        )
    except PolarsError as error:
        raise _fault(block, layout, str(error).splitlines()[0]) from error
    frame = _converted(frame, integers=layout.integers)
    # polars fills up a line that is too short. With quotes, a separator may be part of a field.
    countable = not (layout.quoted and b'"' in data)
    expected = frame.height * (len(layout.roles) - 1)
    if _first_gap(frame) or (countable and block.data.count(layout.separator.encode()) != expected):
        raise _fault(block, layout, "a field is empty, missing or not what it must be")
    return frame


def _fault(block: Block, layout: Layout, otherwise: str) -> DataError:
    """The error that names the first line at fault."""
    try:
        text = block.data.decode()
    except UnicodeDecodeError as error:
        line = block.first_line + block.data.count(b"\n", 0, error.start)
        return DataError(f"must be UTF-8 text ({error.reason})", path=block.label, line=line)
    lines, rows = [], []
    last = block.first_line + text.removesuffix("\n").count("\n")
    said, fault = f"somewhere in lines {block.first_line}..{last}: {otherwise}", None
    for line, fields in _records(text, layout):
        if len(fields) != len(layout.roles):
            said = f"must have {len(layout.roles)} fields, found {len(fields)}"
            fault = block.first_line + line
            break
        lines.append(block.first_line + line)
        rows.append([text for role, text in zip(layout.roles, fields, strict=True) if role])
    raw = pl.DataFrame(rows, [(role, pl.String) for role in layout.roles if role], orient="row")
    if gap := _first_gap(_converted(raw, integers=layout.integers)):
        row, role = gap
        said, fault = f"the {role} must not be {raw[role][row]!r}", lines[row]
    return DataError(said, path=block.label, line=fault)


def _records(text: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Each with the number of its first line, from 0; none after one that makes no sense."""
    if not layout.quoted:
        for line, each in enumerate(text.removesuffix("\n").split("\n")):
            yield line, each.removesuffix("\r").split(layout.separator)
        return
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=layout.separator), 0
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num
    except csv.Error:
        yield line, []


def read_parquet(path: Path, columns: Columns = None) -> Interactions:
    """The interactions of one Parquet file or of all in a folder, some rows at a time."""
    collector = Collector()
    for frame in parquet_blocks(path, columns):
        collector.add(frame)
    return collector.finish(path, "Parquet")


def parquet_blocks(path: Path, columns: Columns = None) -> Iterator[pl.DataFrame]:
    """The same, block by block: `user`, `item` and perhaps `rating` and `timestamp`."""
    first: dict[str, str] | None = None
    for file in parquet_files(path) if path.is_dir() else [path]:
        try:
            table = _with_folders(file, path)
            schema = table.collect_schema()
            named = zip(schema, roles_of(schema.names(), columns, str(file)), strict=True)
            table = table.select([pl.col(name).alias(role) for name, role in named if role])
            first = first or _kinds(table)
            if _kinds(table) != first:
                both = f"this one has {_kinds(table)}, those before it have {first}"
                raise DataError(f"files of a folder must have the same columns: {both}", path=file)
            rows = int(table.select(pl.len()).collect().item())
            for start in range(0, rows, _ROWS):
                yield _checked(table.slice(start, _ROWS).collect(), start, file)
        except (PolarsError, OSError) as error:
            why = str(error).splitlines()[0]
            raise DataError(f"must be a Parquet file that can be read: {why}", path=file) from error


def parquet_files(folder: Path) -> list[Path]:
    """By name, in folders of any depth."""
    return sorted(each for each in folder.rglob("*") if each.suffix.lower() in PARQUET)


def _with_folders(file: Path, folder: Path) -> pl.LazyFrame:
    """With a column for each folder that is called `name=value`, as partitioned tables have."""
    within = file.relative_to(folder).parts[:-1] if file != folder else ()
    named = [part.partition("=")[::2] for part in within if "=" in part]
    table = pl.scan_parquet(file, glob=False, hive_partitioning=False)
    return table.with_columns([pl.lit(unquote(value)).alias(name) for name, value in named])


def _kinds(table: pl.LazyFrame) -> dict[str, str]:
    """What it has of each role; ids are whole numbers or text."""
    return {
        role: ("numbers" if kind.is_integer() else "text") if role in _NEEDED else "any"
        for role, kind in sorted(table.collect_schema().items())
    }


def _checked(raw: pl.DataFrame, start: int, path: Path) -> pl.DataFrame:
    frame = _converted(raw.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)))
    if gap := _first_gap(frame):
        row, role = gap
        raise DataError(f"row {start + row + 1}: {role} must not be {raw[role][row]!r}", path=path)
    for role in _NEEDED if frame.height else ():
        if not (frame[role].dtype.is_integer() or frame[role].dtype in (pl.String, pl.Binary)):
            kind = raw[role].dtype
            raise DataError(f"the {role} is {kind}; ids must be integers or text", path=path)
    return frame


def is_table(given: Any) -> bool:
    """Whether it has columns: a DataFrame of any library, a mapping, or a pair (users, items)."""
    protocols = ("__arrow_c_stream__", "__dataframe__")
    return isinstance(given, Mapping | tuple) or any(hasattr(given, each) for each in protocols)


def read_frame(given: Any, columns: Columns = None, user: Any = None) -> Interactions:
    """The interactions of a table in memory, with ids of the type that they have there.

    `user` is whose they all are, if no column says it.
    """
    path = Path(type(given).__name__)
    frame = _frame(given, path)
    roles = roles_of(frame.columns, columns, str(path), ("item",))
    if user is None or None in roles:  # a column without a role may be the user's, unrecognised
        roles = roles_of(frame.columns, columns, str(path))
    named = zip(frame.columns, roles, strict=True)
    frame = frame.select([pl.col(name).alias(role) for name, role in named if role])
    if "user" not in frame.columns:
        frame = frame.with_columns(pl.lit(user).alias("user"))
        if not frame.height:
            nothing = Histories.from_lists([[]], 0)
            return Interactions(str(path), nothing, id_array([user]), id_array([]))
    collector = Collector()
    collector.add(_checked(frame, 0, path))
    return collector.finish(path, "table in memory", keep=True)


def _frame(given: Any, path: Path) -> pl.DataFrame:
    if isinstance(given, tuple):
        if len(given) != len(_NEEDED):
            raise DataError(f"must be a pair (users, items), found {len(given)} parts", path=path)
        given = dict(zip(_NEEDED, given, strict=True))
    elif hasattr(given, "to_frame"):  # a column by itself
        given = given.to_frame()
    try:
        try:
            return pl.DataFrame(given)
        except (ImportError, TypeError):  # as pandas, where there is no pyarrow
            columns = {str(name): given[name] for name in given}
            lists = ((name, getattr(each, "tolist", None)) for name, each in columns.items())
            return pl.DataFrame({**columns, **{name: made() for name, made in lists if made}})
    except (TypeError, ValueError, PolarsError) as error:
        why = str(error).splitlines()[0]
        said = f"must be columns of equal lengths, each of one kind: {why}"
        raise DataError(said, path=path) from error


def read_matrix(path: Path) -> Interactions:
    """From a file of scipy."""
    try:
        with reading(path):
            matrix = sparse.load_npz(path)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not a matrix of scipy.sparse.save_npz ({error})", path=path) from error
    return of_matrix(matrix, path)


def of_matrix(matrix: Any, path: Path) -> Interactions:
    """Users are rows, items columns; those without an interaction stay. Sparse or dense."""
    try:
        matrix = matrix if sparse.issparse(matrix) else np.asarray(matrix)
        cells = sparse.coo_matrix(matrix) if len(matrix.shape) == 2 else None
    except (TypeError, ValueError):
        cells = None
    if cells is None or cells.dtype.kind not in "biuf" or not np.isfinite(cells.data).all():
        raise DataError("the matrix must have 2 dimensions, and finite numbers alone", path=path)
    n_users, n_items = cells.shape
    kept = cells.data > 0
    if not kept.any():
        raise DataError("the matrix must hold an interaction, a value above 0", path=path)
    pairs = Pairs(cells.row[kept].astype(np.int32), cells.col[kept].astype(np.int32), None)
    histories, _, duplicates = pack(pairs, n_users, n_items)
    lost = len(kept) - len(pairs.users)
    loaded = Loaded("sparse matrix", len(kept), lost, duplicates)
    ids = np.arange(n_users), np.arange(n_items)
    return Interactions(plain_name(path), histories, *ids, loaded=loaded)
