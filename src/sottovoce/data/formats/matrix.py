"""A sparse matrix that scipy saved (`scipy.sparse.save_npz`): users are rows, items columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from sottovoce.data.formats.collecting import plain_name
from sottovoce.data.formats.sources import reading
from sottovoce.data.interactions import Interactions, Loaded
from sottovoce.data.packing import Pairs, pack
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = (".npz",)


def read(path: Path) -> Interactions:
    """The matrix's rows and columns are the ids; those without an interaction stay."""
    matrix = _loaded(path)
    n_users, n_items = matrix.shape
    values = np.asarray(matrix.data)
    if values.dtype.kind not in "biuf":
        raise DataError(f"the matrix holds {values.dtype}, not numbers", path=path)
    if not np.isfinite(values).all():
        raise DataError("the matrix holds a NaN or an infinity", path=path)
    positive = values > 0
    if not positive.any():
        raise DataError("the matrix holds no interaction (no value above 0)", path=path)
    users = matrix.row[positive].astype(np.int32)
    items = matrix.col[positive].astype(np.int32)
    packed = pack(Pairs(users, items, None), n_users, n_items)
    lost = int(len(values) - len(users))
    return Interactions(
        name=plain_name(path),
        histories=packed.histories,
        user_ids=np.arange(n_users),
        item_ids=np.arange(n_items),
        loaded=Loaded("sparse matrix", len(values), lost, packed.duplicates),
    )


def _loaded(path: Path) -> sparse.coo_matrix:
    try:
        with reading(path):
            matrix = sparse.load_npz(path)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"this is not a matrix saved by scipy.sparse.save_npz ({error})", path=path
        ) from error
    if len(matrix.shape) != 2:
        raise DataError(f"the matrix must have 2 dimensions, found {matrix.shape}", path=path)
    return sparse.coo_matrix(matrix)
