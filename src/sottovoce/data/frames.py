"""Reading tables and matrices in memory, and files with a matrix of scipy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError
from scipy import sparse

from sottovoce.core.histories import Histories
from sottovoce.data.collecting import Collector
from sottovoce.data.columns import REQUIRED_ROLES, Columns, check_frame, find_roles
from sottovoce.data.files import convert_read_errors, derive_name, get_first_line
from sottovoce.data.interactions import Interactions, LoadCounts, Pairs, pack, to_id_array
from sottovoce.errors import DataError, warn_caller


def is_table(source: Any) -> bool:
    """Return whether `source` is a DataFrame of any library, a mapping or a tuple of columns."""
    protocols = ("__arrow_c_stream__", "__dataframe__")
    is_collected = isinstance(source, Mapping | tuple | pl.LazyFrame)
    return is_collected or any(hasattr(source, name) for name in protocols)


def read_frame(source: Any, columns: Columns = None, user: Any = None) -> Interactions:
    """Read the interactions of a table in memory; its ids keep their types.

    Args:
        source: A DataFrame, a mapping of columns, or a pair (users, items).
        columns: Column names by role, for columns whose names are not in `COLUMN_ALIASES`.
        user: Id of the only user. It is needed if the table has no column of users.
    """
    path = Path(type(source).__name__)
    frame = read_roles(source, columns, user)
    if "user" not in frame.columns:
        frame = frame.with_columns(pl.lit(user).alias("user"))
        if not frame.height:
            empty = Histories.from_lists([[]], 0)
            return Interactions(str(path), empty, to_id_array([user]), to_id_array([]))
    collector = Collector()
    collector.add(check_frame(frame, 0, path))
    data = collector.finish(path, "table in memory", keep_types=True)
    _warn_about_blanks("user", data.user_ids)
    _warn_about_blanks("item", data.item_ids)
    return data


def read_roles(source: Any, columns: Columns = None, user: Any = None) -> pl.DataFrame:
    """Return the columns of a table that have a role, named by it; see `read_frame`."""
    path = Path(type(source).__name__)
    frame = to_frame(source, path)
    roles = find_roles(frame.columns, columns, str(path), ("item",))
    # A column without a role may be the column of users under a name that is not recognised, so a
    # column of users is required then.
    if user is None or None in roles:
        roles = find_roles(frame.columns, columns, str(path))
    columns_with_roles = zip(frame.columns, roles, strict=True)
    return frame.select([pl.col(name).alias(role) for name, role in columns_with_roles if role])


def _warn_about_blanks(role: str, ids: NDArray[Any]) -> None:
    """Warn if ids differ only by blanks around them, because they then stay different."""
    texts = [value for value in ids.tolist() if isinstance(value, str)]
    bare = {text for text in texts if text == text.strip()}
    if repeated := [text for text in texts if text not in bare and text.strip() in bare]:
        warn_caller(
            f"{role} ids: {len(repeated):,} differ from another id only by blanks around them, and "
            f"stay different, as {repeated[0]!r:.80}: strip the column"
        )


def to_frame(source: Any, path: Path) -> pl.DataFrame:
    """Convert a table in memory to a DataFrame of polars. Errors name `path`."""
    if isinstance(source, pl.LazyFrame):
        try:
            return source.collect()
        except PolarsError as error:
            raise DataError(
                f"must be a query that can be collected: {get_first_line(error)}", path=path
            ) from error
    if isinstance(source, tuple):
        if len(source) != len(REQUIRED_ROLES):
            raise DataError(f"must be a pair (users, items), not {len(source)} parts", path=path)
        source = dict(zip(REQUIRED_ROLES, source, strict=True))
    elif hasattr(source, "to_frame"):  # a Series, which is a single column
        source = source.to_frame()
    if isinstance(source, Mapping):
        source = {name: _to_microseconds(column) for name, column in source.items()}
    try:
        try:
            return pl.DataFrame(source)
        # Without pyarrow, polars cannot read a DataFrame of pandas as a whole. But its columns have
        # tolist().
        except (ImportError, TypeError):
            return pl.DataFrame({str(name): _to_list(source[name]) for name in source})
    except (TypeError, ValueError, PolarsError) as error:
        raise DataError(
            f"must be columns of equal length, each of one type: {get_first_line(error)}", path=path
        ) from error


def _to_microseconds(column: Any) -> Any:
    """Convert times of numpy to a resolution that polars has; leave other columns as they are."""
    is_array = isinstance(column, np.ndarray) and column.dtype.kind == "M"
    return column.astype("datetime64[us]") if is_array else column


def _to_list(column: Any) -> Any:
    """Convert a column of pandas, and its marks for missing values, to a list with None."""
    values = column.tolist() if hasattr(column, "tolist") else column
    if not isinstance(values, list):
        return values
    # NaN and NaT differ from themselves. A comparison with pandas' NA gives NA, which has no truth.
    return [None if type(x).__name__ in ("NAType", "NaTType") or x != x else x for x in values]  # noqa: PLR0124


def read_matrix(path: Path) -> Interactions:
    """Read a matrix from a file of `scipy.sparse.save_npz`."""
    try:
        with convert_read_errors(path):
            matrix = sparse.load_npz(path)
    except (ValueError, KeyError, TypeError) as error:
        # DataError is a ValueError, and convert_read_errors() has named the file in it already.
        if isinstance(error, DataError):
            raise
        raise DataError(f"not a matrix of scipy.sparse.save_npz ({error})", path=path) from error
    return from_matrix(matrix, path)


def from_matrix(matrix: Any, path: Path) -> Interactions:
    """Convert a dense or sparse matrix, whose rows are users and whose columns are items.

    Values above 0 are interactions. Users and items without interactions stay in the data set.

    Args:
        matrix: A matrix of scipy, or anything that numpy converts to an array.
        path: The file of the matrix, or its type if it is in memory; the data set is named after
            it, and errors name it.
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
