"""What `FederatedMF` is asked: matrices, ids and numbers, checked; and the best of many scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import DataError
from sottovoce.model import Histories
from sottovoce.settings import Setting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sottovoce.simulation.features import Matrix

    Float32 = NDArray[np.float32]
    Int32 = NDArray[np.int32]
    Int64 = NDArray[np.int64]


def histories_from(user_items: Matrix | Histories, name: str = "user_items") -> Histories:
    """Of a sparse matrix; one row of a sparse array, which has one dimension, is one person."""
    if isinstance(user_items, Histories):
        return user_items
    return Histories.from_csr(matrix_from(user_items, name, "a sparse matrix or Histories"))


def matrix_from(given: Any, name: str, kind: str = "a sparse matrix") -> Matrix:
    """A sparse matrix of numbers whose arrays fit together; compiled code relies on that."""
    if not hasattr(given, "tocsr"):
        raise DataError(f"{name} must be {kind}, got {type(given).__name__}")
    if given.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, got {given.dtype}")
    if hasattr(given, "indptr"):
        try:
            if (np.diff(given.indptr) < 0).any():
                raise ValueError("indptr decreases")
            # Another one around the same arrays: the check may cut them off.
            given = type(given)((given.data, given.indices, given.indptr), shape=given.shape)
            given.check_format(full_check=True)
        except ValueError as error:
            raise DataError(f"{name} is a damaged sparse matrix: {error}") from error
    if given.ndim == 1:
        given = given.reshape((1, given.shape[0]))
    matrix: Matrix = given.tocsr()
    return matrix


def number(name: str, value: Any) -> float | None:
    """A finite number or None; numpy's numbers too."""
    checked: float | None = Setting(name, float, optional=True).checked(value)
    return checked


def at_least_one(name: str, value: Any) -> int:
    return int(Setting(name, int, least=1).checked(value))


def ids_in(given: ArrayLike, n: int | None, name: str) -> Int64:
    """Whole numbers below n (None: any), in one dimension."""
    try:
        ids = np.atleast_1d(np.asarray(given))
    except ValueError as error:
        raise DataError(
            f"{name} must be a whole number or an array of them with one dimension: {error}"
        ) from error
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        raise DataError(
            f"{name} must be a whole number or an array of them with one dimension, got "
            f"{ids.dtype} with {ids.ndim}"
        )
    outside = ids[(ids < 0) | (ids >= (np.iinfo(np.int64).max if n is None else n))]
    if len(outside):
        bounds = "at least 0" if n is None else f"from 0 to {n - 1}"
        raise DataError(f"{name} must be {bounds}, found {outside[0]}")
    return ids.astype(np.int64)


def left_to_rank(
    n_items: int, items: ArrayLike | None, filter_items: ArrayLike | None
) -> NDArray[np.bool_]:
    """Which items a list may hold: `items` alone (None: all), without `filter_items`."""
    allowed = np.full(n_items, items is None)
    if items is not None:
        allowed[ids_in(items, n_items, "items")] = True
    if filter_items is not None:
        allowed[ids_in(filter_items, n_items, "filter_items")] = False
    return allowed


def best(scores: Float32, n: int) -> tuple[Int32, Float32]:
    """The n largest of every row, ties to the lower number; -1 where nothing is left."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    found = np.take_along_axis(scores, order, axis=1)
    return np.where(np.isneginf(found), -1, order).astype(np.int32), found


def most_similar(
    V: Float32, ids: Int64, allowed: NDArray[np.bool_], n: int
) -> tuple[Int32, Float32]:
    """By cosine, a row for each id; an item is itself first, whatever rounding says."""
    length = np.linalg.norm(V, axis=1)
    products = np.maximum(length[ids][:, None] * length, np.float32(1e-30))
    cosine = ((V[ids] @ V.T) / products).astype(np.float32)
    cosine[np.arange(len(ids)), ids] = np.inf
    cosine[:, ~allowed] = -np.inf
    items, scores = best(cosine, n)
    return items, np.where(np.isposinf(scores), np.float32(1), scores)
