"""Reading tables and matrices in memory, and files with a matrix of scipy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError
from scipy import sparse

from sottovoce.core.histories import Histories
from sottovoce.data.collecting import Collector
from sottovoce.data.columns import REQUIRED_ROLES, Columns, check_frame, find_roles
from sottovoce.data.files import convert_read_errors, derive_name, get_first_line
from sottovoce.data.interactions import Interactions, LoadCounts, Pairs, pack, to_id_array
from sottovoce.errors import DataError


def is_table(source: Any) -> bool:
    """Return whether `source` is a DataFrame of any library, a mapping or a tuple of columns."""
    protocols = ("__arrow_c_stream__", "__dataframe__")
    return isinstance(source, Mapping | tuple) or any(hasattr(source, name) for name in protocols)


def read_frame(source: Any, columns: Columns = None, user: Any = None) -> Interactions:
    """Read the interactions of a table in memory; its ids keep their types.

    Args:
        source: A DataFrame, a mapping of columns, or a pair (users, items).
        columns: Column names by role, for columns whose names are not in `COLUMN_ALIASES`.
        user: Id of the only user. It is needed if the table has no column of users.
    """
    path = Path(type(source).__name__)
    frame = _to_frame(source, path)
    roles = find_roles(frame.columns, columns, str(path), ("item",))
    # A column without a role may be the column of users under a name that is not recognised, so a
    # column of users is required then.
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
    collector.add(check_frame(frame, 0, path))
    return collector.finish(path, "table in memory", keep_types=True)


def _to_frame(source: Any, path: Path) -> pl.DataFrame:
    if isinstance(source, tuple):
        if len(source) != len(REQUIRED_ROLES):
            raise DataError(f"must be a pair (users, items), not {len(source)} parts", path=path)
        source = dict(zip(REQUIRED_ROLES, source, strict=True))
    elif hasattr(source, "to_frame"):  # a Series, which is a single column
        source = source.to_frame()
    try:
        try:
            return pl.DataFrame(source)
        # Without pyarrow, polars cannot read a DataFrame of pandas as a whole. But its columns have
        # tolist().
        except (ImportError, TypeError):
            columns = {str(name): source[name] for name in source}
            to_lists = ((name, getattr(col, "tolist", None)) for name, col in columns.items())
            lists = {name: to_list() for name, to_list in to_lists if to_list}
            return pl.DataFrame({**columns, **lists})
    except (TypeError, ValueError, PolarsError) as error:
        raise DataError(
            f"must be columns of equal length, each of one type: {get_first_line(error)}", path=path
        ) from error


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
