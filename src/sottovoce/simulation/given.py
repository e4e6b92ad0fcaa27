"""What the methods of `FederatedMF` are given, checked: people and items with or without ids."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sottovoce.core import Histories
from sottovoce.core.tags import Tag, Tags, Traits, build_tags
from sottovoce.data import Interactions
from sottovoce.data.split import select_entries
from sottovoce.data.tables import is_table, read_frame
from sottovoce.errors import DataError, DataWarning
from sottovoce.settings import Setting

if TYPE_CHECKING:
    # The protocol brings cryptography, which a simulator does not need.
    from sottovoce.protocol import Catalogue

Int64 = NDArray[np.int64]
Matrix = sparse.csr_matrix | sparse.csr_array
UserItems: TypeAlias = "Matrix | Histories | Interactions | ArrayLike | Mapping[str, Any]"
"""Dense arrays and the DataFrames of any library are among `ArrayLike`."""
ItemFeatures: TypeAlias = "Matrix | Catalogue | Sequence[Mapping[str, Any]]"
KINDS = (
    "a matrix, a DataFrame with columns user and item, a pair (users, items) or from "
    "sottovoce.data.load; of one person also a table {'item': [...]}"
)


class Labels:
    """What items (or people) are called: ids of a table, or numbers of a matrix from 0 on."""

    def __init__(self, ids: NDArray[Any]):
        self.ids = ids

    @cached_property
    def _place(self) -> dict[Any, int]:
        return {label: number for number, label in enumerate(self.ids.tolist())}

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: NDArray[Any]) -> Int64:
        """Their numbers, -1 where one is not known."""
        return np.array([self._place.get(label, -1) for label in ids.tolist()], np.int64)

    def numbers(self, given: ArrayLike, name: str) -> Int64:
        """Of ids, all of which must be known."""
        ids = ids_in(given, name)
        places = self.places(ids)
        if (places < 0).any():
            unknown, n = ids[places < 0].tolist()[0], len(self)
            known = f"there are {n:,}, from {self.ids.item(0)!r} to {self.ids.item(n - 1)!r}"
            raise DataError(f"{name} must be known here, and {unknown!r} is not; {known}")
        return places

    def named(self, lists: NDArray[np.integer]) -> NDArray[Any]:
        """The ids of numbers; where a number is -1, None or -1."""
        nothing = np.array([None if self.ids.dtype == object else -1], self.ids.dtype)
        return np.asarray(np.concatenate([self.ids, nothing])[lists])

    def columns_of(self, data: Interactions, name: str) -> Histories:
        """The same people with these items; of others it is said how often they come up."""
        if np.array_equal(data.item_ids, self.ids):
            return data.histories
        places = self.places(data.item_ids)[data.histories.indices]
        if (places < 0).any():
            lost = f"{(places < 0).sum():,} of {len(places):,} interactions"
            known = ""
            if np.array_equal(self.ids, np.arange(len(self))):
                known = f" (it knows items by number, from 0 to {len(self) - 1}, as after a matrix)"
            what = f"items that the model does not know{known}, and do not count"
            tell(f"{name}: {lost} are with {what}")
        kept = select_entries(data.histories, places >= 0)
        return Histories.from_arrays(kept.indptr, places[places >= 0], len(self))


def ids_in(given: ArrayLike, name: str) -> NDArray[Any]:
    """Whole numbers or texts, in one dimension."""
    try:
        ids = np.atleast_1d(np.asarray(given))
    except ValueError as error:
        raise DataError(f"{name} must be one id, or ids in one dimension: {error}") from error
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iuUTO"):
        found = f"{ids.dtype} with {ids.ndim} dimensions"
        raise DataError(f"{name} must be one id, or ids in one dimension, got {found}")
    return ids


def rows_from(
    given: Any, items: Labels | None, name: str = "user_items", user: Any = None
) -> tuple[Histories, Labels | None, Labels]:
    """People, what they are called (None in a matrix), and what the items are called.

    Items are those of a model; None: of what is given. `user` is whose a table without users is.
    """
    data = read_frame(given, user=user) if is_table(given) else given
    if isinstance(data, Interactions):
        if data.load_counts:
            tell_ratings(name, data.load_counts.not_positive, data.load_counts.rows)
        items = Labels(data.item_ids) if items is None else items
        return items.columns_of(data, name), Labels(data.user_ids), items
    histories = histories_from(given, name)
    items = Labels(np.arange(histories.n_items, dtype=np.int32)) if items is None else items
    if histories.n_items != len(items):
        raise DataError(f"{name} must have {len(items)} columns, not {histories.n_items}")
    return histories, None, items


def hidden_from(given: Any, items: Labels, histories: Histories, users: Labels | None) -> Histories:
    """What was left out of these people's histories: a row for each, something in any of them."""
    hidden, theirs, _ = rows_from(given, items, "test")
    if theirs is None and users is not None:
        raise DataError("test must name its users, as user_items does: rows do not say whose")
    users = Labels(np.arange(histories.n_users)) if users is None else users
    if theirs is not None:
        row = theirs.places(users.ids)
        unknown = hidden.n_interactions - int(np.diff(hidden.indptr)[row[row >= 0]].sum())
        if unknown:
            lost = f"{unknown:,} of {hidden.n_interactions:,} interactions"
            tell(f"test: {lost} are of people who are not in user_items, and do not count")
        ends = np.append(hidden.indptr, hidden.indptr[-1])  # the last row is of nobody: -1
        hidden = Histories(ends, hidden.indices, len(items)).take(row)
    if hidden.n_users != histories.n_users:
        raise DataError(f"test must have {histories.n_users} rows, not {hidden.n_users}")
    if not hidden.n_interactions:
        raise DataError("test must hold something to find")
    both = np.intersect1d(_cells(histories), _cells(hidden))
    if len(both):
        user, item = divmod(int(both[0]), histories.n_items)
        pair = f"user {users.ids.item(user)!r} has item {items.ids.item(item)!r}"
        raise DataError(f"test must hold what user_items does not: {pair} in both")
    return hidden


def _cells(histories: Histories) -> Int64:
    return histories.users_of_entries() * histories.n_items + histories.indices


def tell_ratings(name: str, lost: int, rows: int) -> None:
    if lost:
        tell(f"{name}: {lost:,} of {rows:,} ratings are 0 or less, and do not count")


def tell(said: str) -> None:
    """A warning at the line outside of this package that called."""
    frame, depth = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).startswith("sottovoce."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(said, DataWarning, stacklevel=depth)


def histories_from(given: Any, name: str = "user_items") -> Histories:
    """Of a matrix; one row of a sparse array, which has one dimension, is one person."""
    if isinstance(given, Histories):
        return given
    matrix = matrix_from(given if hasattr(given, "tocsr") else _dense(given, name), name)
    tell_ratings(name, int((matrix.data <= 0).sum()), matrix.nnz)
    return Histories.from_csr(matrix)


def _dense(given: Any, name: str) -> Matrix:
    try:
        array = np.atleast_2d(np.asarray(given))
    except ValueError as error:
        raise DataError(f"{name} must be {KINDS}: {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "biuf" or np.ndim(given) == 0:
        raise DataError(f"{name} is {type(given).__name__} of {array.dtype}: it must be {KINDS}")
    return sparse.csr_array(array)


def matrix_from(given: Any, name: str) -> Matrix:
    """A sparse matrix of numbers whose arrays fit together; compiled code relies on that."""
    if not hasattr(given, "tocsr"):
        raise DataError(f"{name} must be a sparse matrix, got {type(given).__name__}")
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


def at_least_one(name: str, value: Any) -> int:
    return int(Setting(name, int, min_value=1).check_value(value))


WANTED = "a Catalogue, a mapping for each item or a sparse matrix"


def tags_from(item_features: Any, n_items: int) -> Tags:
    """Columns of a catalogue, of a list of mappings, or of a matrix as it is."""
    known = getattr(item_features, "tags", None)  # of a catalogue, which needs cryptography
    if isinstance(known, Tags):
        tags = known
    elif hasattr(item_features, "tocsr"):
        matrix = matrix_from(item_features, "item_features")
        table = sparse.csr_array(matrix.astype(bool).astype(np.float64))
        names = (Tag("column", str(number)) for number in range(matrix.shape[1]))
        tags = Tags(tuple(names), table)
    else:
        kind = type(item_features).__name__
        named = hasattr(item_features, "columns") or isinstance(item_features, Mapping)
        if named or not hasattr(item_features, "__iter__"):
            example = "[{'genre': ['Horror'], 'year': 1979}, ...]"
            raise DataError(f"item_features must be {WANTED}, as {example}; got {kind}")
        tags = build_tags([_traits(row, given) for row, given in enumerate(item_features)])
    if tags.n_items != n_items:
        raise DataError(f"item_features must describe {n_items} items, not {tags.n_items}")
    return tags


def _traits(row: int, given: Any) -> Traits:
    """Of one item, as `build_tags` needs them: labels in a tuple, each once, or a finite number."""
    if not isinstance(given, Mapping):
        raise DataError(f"item_features must be {WANTED}; item {row} is {type(given).__name__}")
    traits: dict[str, tuple[str, ...] | float] = {}
    for kind, value in given.items():
        if isinstance(value, list | tuple) and all(isinstance(label, str) for label in value):
            traits[kind] = tuple(dict.fromkeys(value))
        elif isinstance(value, int | float | np.number) and abs(float(value)) < 2**53:
            traits[kind] = float(value)  # not a NaN
        else:
            raise DataError(
                f"item_features: {kind!r} of item {row} is {value!r}; it must be a list of labels "
                "or a finite number"
            )
    return traits


def times_of(given: Matrix, histories: Histories) -> NDArray[np.int64]:
    """In the order of the histories' entries; one that has no time there is an error."""
    times = matrix_from(given, "times")
    if times.shape != (histories.n_users, histories.n_items):
        raise DataError(
            f"times must have the shape of user_items, {histories.n_users} x {histories.n_items}, "
            f"not {times.shape[0]} x {times.shape[1]}"
        )
    at = sparse.csr_array(times, copy=True)
    at.sort_indices()
    known, wanted = at.tocoo(), _cells(histories)
    cells = np.append(known.row.astype(np.int64) * histories.n_items + known.col, -1)
    places = np.searchsorted(cells[:-1], wanted)
    if (cells[places] != wanted).any():
        raise DataError("times must have an entry wherever user_items has an interaction")
    when = known.data[places]
    if not np.isfinite(when).all():
        raise DataError("times must be finite numbers")
    return np.unique(when, return_inverse=True)[1].astype(np.int64)
