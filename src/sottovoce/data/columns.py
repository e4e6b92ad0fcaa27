"""Columns of a table: finding those of users, items, ratings and times, and checking the values."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from sottovoce.errors import DataError

# Column names that are recognised for each role if `columns` does not name a column for it. Case,
# `_`, `-`, `.` and spaces are ignored.
COLUMN_ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("user", "userid", "uid", "customer", "customerid", "viewer", "viewerid"),
    "item": (
        "item",
        "itemid",
        "iid",
        "movie",
        "movieid",
        "film",
        "filmid",
        "product",
        "productid",
        "article",
        "articleid",
    ),
    "rating": ("rating", "ratings", "score", "stars", "quantity", "qty", "plays", "playcount"),
    "timestamp": ("timestamp", "time", "ts", "unixtime", "date", "datetime"),
}
# Roles that every table must have.
REQUIRED_ROLES = ("user", "item")
# Number of columns that an error message lists.
_MAX_COLUMNS_IN_ERROR = 12
# Formats of dates in text, one of which must fit the whole column.
_DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.fZ",
)
# Names of columns by role, or None if all columns are recognised by their names.
Columns = Mapping[str, str] | None


def parse_columns(text: str | None, example: str = "user=NAME,item=NAME") -> dict[str, str] | None:
    """Parse the value of `--columns`, such as `user=who,item=what`; return None for None.

    Args:
        text: The value, or None if the option is not given.
        example: An example of a valid value, for error messages.

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
    required: Sequence[str] = REQUIRED_ROLES,
) -> tuple[str | None, ...]:
    """Return the role of each column, or None for a column that is not used.

    Args:
        names: The names of all columns, in order.
        columns: Column names by role. For other roles, the names in `COLUMN_ALIASES` are searched.
        path: The file or source of the table, for error messages.
        required: Roles for which there must be a column.

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


def cast_values(frame: pl.DataFrame, *, integers: bool = False) -> pl.DataFrame:
    """Cast ratings to floats and timestamps to seconds; invalid values become null.

    If `integers` is true, ids and timestamps that are not integers become null, too.
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
    best = times.cast(pl.Int64, strict=False)
    converters: list[Callable[[], pl.Series]] = [partial(_parse_floats, times)]
    if times.dtype == pl.String:
        converters += [partial(_parse_dates, times, date_format) for date_format in _DATE_FORMATS]
    # The format that fits most of the column is valid, so that an error names a row that is odd.
    for convert in converters:
        if not best.null_count():
            break
        best = min(best, convert(), key=pl.Series.null_count)
    return best


def _parse_floats(times: pl.Series) -> pl.Series:
    return times.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)


def _parse_dates(times: pl.Series, date_format: str) -> pl.Series:
    return times.str.to_datetime(date_format, strict=False).dt.epoch("s")


def _mark_gaps(column: pl.Series) -> pl.Series:
    """Mark values that are missing, blank, NaN or infinite."""
    if column.dtype == pl.String:
        return (column.str.strip_chars() == "").fill_null(value=True)
    if column.dtype.is_float():
        return ~column.is_finite().fill_null(value=False)
    return column.is_null()


def find_first_gap(frame: pl.DataFrame) -> tuple[int, str] | None:
    """Return row and role of the first missing, blank, NaN or infinite value."""
    gaps = ((marks.arg_true(), marks.name) for marks in map(_mark_gaps, frame))
    return min(((int(rows[0]), role) for rows, role in gaps if len(rows)), default=None)


def check_frame(raw: pl.DataFrame, start: int, path: Path) -> pl.DataFrame:
    """Cast the values of a block and check them.

    Args:
        raw: The block, whose columns are named by role.
        start: Number of rows of the file before this block.
        path: The file, for error messages.

    Raises:
        DataError: A value is missing or invalid; the error names its row.
    """
    frame = cast_values(raw.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)))
    if gap := find_first_gap(frame):
        row, role = gap
        raise DataError(
            f"row {start + row + 1}: {role} must not be {raw[role][row]!r}: drop the row, or fill "
            "in the value",
            path=path,
        )
    # The types of a block without rows mean nothing, so they are not checked.
    for role in REQUIRED_ROLES if frame.height else ():
        if frame[role].dtype.is_float():
            frame = frame.with_columns(_to_whole_numbers(frame[role], start, path))
        elif not (frame[role].dtype.is_integer() or frame[role].dtype in (pl.String, pl.Binary)):
            dtype = raw[role].dtype
            raise DataError(
                f"row {start + 1}: the {role} {raw[role][0]!r:.80} is {dtype}; ids must be whole "
                "numbers or text: convert the column",
                path=path,
            )
    return frame


def _to_whole_numbers(ids: pl.Series, start: int, path: Path) -> pl.Series:
    """Convert ids that are floats to integers, as pandas makes floats of integers with gaps."""
    # Floats of 2^53 and more do not tell neighbouring integers apart.
    fractions = ((ids != ids.floor()) | (ids.abs() >= 2.0**53)).arg_true()
    if len(fractions):
        row = int(fractions[0])
        raise DataError(
            f"row {start + row + 1}: {ids.name} must not be {ids[row]!r}; ids must be whole "
            "numbers or text: convert the column",
            path=path,
        )
    return ids.cast(pl.Int64)
