"""Checked arguments of `FederatedMF`: people and items, with ids or by number."""

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
from sottovoce.data.frames import is_table, read_frame
from sottovoce.data.split import select_entries
from sottovoce.errors import DataError, DataWarning
from sottovoce.settings import Setting

if TYPE_CHECKING:
    # The protocol imports cryptography, which a simulator does not need.
    from sottovoce.protocol import Catalogue

Int64 = NDArray[np.int64]
Matrix = sparse.csr_matrix | sparse.csr_array
# `ArrayLike` includes dense arrays and the DataFrames of any library.
UserItems: TypeAlias = "Matrix | Histories | Interactions | ArrayLike | Mapping[str, Any]"
ItemFeatures: TypeAlias = "Matrix | Catalogue | Sequence[Mapping[str, Any]]"

# What error messages say of arguments of the wrong kind.
EXPECTED_INPUTS = (
    "a matrix, a DataFrame with columns user and item, a pair (users, items) or from "
    "sottovoce.data.load; of one person also a table {'item': [...]}"
)
EXPECTED_FEATURES = "a Catalogue, a mapping for each item or a sparse matrix"


class Labels:
    """The ids of items or people in a table, or their numbers from 0 on in a matrix."""

    def __init__(self, ids: NDArray[Any]):
        self.ids = ids

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        # By Python's own objects: ids of int32 and int64 are the same, and lookup is fast.
        return {label: number for number, label in enumerate(self.ids.tolist())}

    def __len__(self) -> int:
        return len(self.ids)

    def find_numbers(self, ids: NDArray[Any]) -> Int64:
        """Return the numbers of ids, -1 for an unknown one."""
        return np.array([self._numbers.get(label, -1) for label in ids.tolist()], np.int64)

    def parse_numbers(self, raw: ArrayLike, name: str) -> Int64:
        """Return the numbers of ids, all of which must be known."""
        ids = parse_ids(raw, name)
        numbers = self.find_numbers(ids)
        if (numbers < 0).any():
            unknown, n = ids[numbers < 0].tolist()[0], len(self)
            labels = f"there are {n:,}, from {self.ids.item(0)!r} to {self.ids.item(n - 1)!r}"
            raise DataError(f"{name} must be known here, and {unknown!r} is not; {labels}")
        return numbers

    def get_ids(self, numbers: NDArray[np.integer]) -> NDArray[Any]:
        """Return the ids of numbers; of -1 it is None where ids are text, else -1."""
        no_id = np.array([None if self.ids.dtype == object else -1], self.ids.dtype)
        return np.asarray(np.concatenate([self.ids, no_id])[numbers])

    def select_columns(self, data: Interactions, name: str) -> Histories:
        """Return the people of the data with these items; warn about interactions with others."""
        if np.array_equal(data.item_ids, self.ids):
            return data.histories
        # Each id is looked up once, and not for each interaction.
        columns = self.find_numbers(data.item_ids)[data.histories.indices]
        is_known = columns >= 0
        if not is_known.all():
            unknown = f"{(~is_known).sum():,} of {len(columns):,} interactions"
            hint = ""
            if np.array_equal(self.ids, np.arange(len(self))):
                hint = f" (it knows items by number, from 0 to {len(self) - 1}, as after a matrix)"
            items = f"items that the model does not know{hint}, and do not count"
            warn_caller(f"{name}: {unknown} are with {items}")
        selected = select_entries(data.histories, is_known)
        return Histories.from_arrays(selected.indptr, columns[is_known], len(self))


def parse_ids(raw: ArrayLike, name: str) -> NDArray[Any]:
    """Return whole numbers or texts in one dimension."""
    try:
        ids = np.atleast_1d(np.asarray(raw))
    except ValueError as error:
        raise DataError(f"{name} must be one id, or ids in one dimension: {error}") from error
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iuUTO"):
        kind = f"{ids.dtype} with {ids.ndim} dimensions"
        raise DataError(f"{name} must be one id, or ids in one dimension, got {kind}")
    return ids


def parse_rows(
    raw: Any, items: Labels | None, name: str = "user_items", user: Any = None
) -> tuple[Histories, Labels | None, Labels]:
    """Return histories, the labels of their people (None in a matrix) and of the items.

    Args:
        raw: What a caller passed as `user_items` or `test`.
        items: The items of a model; None: those in `raw`.
        name: The argument's name in errors.
        user: Whose interactions a table without users has.
    """
    data = read_frame(raw, user=user) if is_table(raw) else raw
    if isinstance(data, Interactions):
        if data.load_counts:
            warn_about_ratings(name, data.load_counts.not_positive, data.load_counts.rows)
        items = Labels(data.item_ids) if items is None else items
        return items.select_columns(data, name), Labels(data.user_ids), items
    histories = parse_histories(raw, name)
    items = Labels(np.arange(histories.n_items, dtype=np.int32)) if items is None else items
    if histories.n_items != len(items):
        raise DataError(f"{name} must have {len(items)} columns, not {histories.n_items}")
    return histories, None, items


def parse_test(raw: Any, items: Labels, histories: Histories, users: Labels | None) -> Histories:
    """Return held-out items in the rows of these people; at least one person has some."""
    hidden, test_users, _ = parse_rows(raw, items, "test")
    if test_users is None and users is not None:
        raise DataError("test must name its users, as user_items does: rows do not say whose")
    users = Labels(np.arange(histories.n_users)) if users is None else users
    if test_users is not None:
        rows = test_users.find_numbers(users.ids)
        unknown = hidden.n_interactions - int(np.diff(hidden.indptr)[rows[rows >= 0]].sum())
        if unknown:
            share = f"{unknown:,} of {hidden.n_interactions:,} interactions"
            warn_caller(f"test: {share} are of people who are not in user_items, and do not count")
        # An empty last row, which people who are not in the test get as row -1.
        indptr = np.append(hidden.indptr, hidden.indptr[-1])
        hidden = Histories(indptr, hidden.indices, len(items)).take(rows)
    if hidden.n_users != histories.n_users:
        raise DataError(f"test must have {histories.n_users} rows, not {hidden.n_users}")
    if not hidden.n_interactions:
        raise DataError("test must hold something to find")
    cells, wanted = _number_cells(histories), _number_cells(hidden)
    # Cells ascend, so that few of them are found without looking at all.
    in_both = wanted[np.append(cells, -1)[np.searchsorted(cells, wanted)] == wanted]
    if len(in_both):
        user, item = divmod(int(in_both[0]), histories.n_items)
        pair = f"user {users.ids.item(user)!r} has item {items.ids.item(item)!r}"
        raise DataError(f"test must hold what user_items does not: {pair} in both")
    return hidden


def _number_cells(histories: Histories) -> Int64:
    """Return a number for the row and the column of each entry."""
    return histories.users_of_entries() * histories.n_items + histories.indices


def warn_about_ratings(name: str, not_positive: int, rows: int) -> None:
    if not_positive:
        warn_caller(f"{name}: {not_positive:,} of {rows:,} ratings are 0 or less, and do not count")


def warn_caller(message: str) -> None:
    """Warn at the line outside of this package that called."""
    # A warning is shown once for each line, which should be one of the caller's program.
    frame, depth = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).startswith("sottovoce."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, DataWarning, stacklevel=depth)


def parse_histories(raw: Any, name: str = "user_items") -> Histories:
    """Return the histories in a matrix; a sparse array of one dimension is one person."""
    if isinstance(raw, Histories):
        return raw
    matrix = check_matrix(raw if hasattr(raw, "tocsr") else _to_sparse(raw, name), name)
    warn_about_ratings(name, int((matrix.data <= 0).sum()), matrix.nnz)
    return Histories.from_csr(matrix)


def _to_sparse(raw: Any, name: str) -> Matrix:
    try:
        array = np.atleast_2d(np.asarray(raw))
    except ValueError as error:
        raise DataError(f"{name} must be {EXPECTED_INPUTS}: {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "biuf" or np.ndim(raw) == 0:
        kind = f"{type(raw).__name__} of {array.dtype}"
        raise DataError(f"{name} is {kind}: it must be {EXPECTED_INPUTS}")
    return sparse.csr_array(array)


def check_matrix(raw: Any, name: str) -> Matrix:
    """Return a sparse matrix of numbers whose arrays fit together, as compiled code needs it."""
    if not hasattr(raw, "tocsr"):
        raise DataError(f"{name} must be a sparse matrix, got {type(raw).__name__}")
    if raw.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, got {raw.dtype}")
    if hasattr(raw, "indptr"):
        try:
            if (np.diff(raw.indptr) < 0).any():
                raise ValueError("indptr decreases")
            # A copy around the same arrays, because check_format() may shorten them in place.
            raw = type(raw)((raw.data, raw.indices, raw.indptr), shape=raw.shape)
            raw.check_format(full_check=True)
        except ValueError as error:
            raise DataError(f"{name} is a damaged sparse matrix: {error}") from error
    if raw.ndim == 1:
        raw = raw.reshape((1, raw.shape[0]))
    matrix: Matrix = raw.tocsr()
    return matrix


def check_positive(name: str, value: Any) -> int:
    return int(Setting(name, int, min_value=1).check_value(value))


def parse_tags(item_features: Any, n_items: int) -> Tags:
    """Return the tags of a catalogue, of a list of mappings, or the columns of a matrix."""
    # A catalogue is recognised by its tags: its class would import cryptography.
    catalogue_tags = getattr(item_features, "tags", None)
    if isinstance(catalogue_tags, Tags):
        tags = catalogue_tags
    elif hasattr(item_features, "tocsr"):
        matrix = check_matrix(item_features, "item_features")
        table = sparse.csr_array(matrix.astype(bool).astype(np.float64))
        names = (Tag("column", str(number)) for number in range(matrix.shape[1]))
        tags = Tags(tuple(names), table)
    else:
        kind = type(item_features).__name__
        has_columns = hasattr(item_features, "columns") or isinstance(item_features, Mapping)
        if has_columns or not hasattr(item_features, "__iter__"):
            example = "[{'genre': ['Horror'], 'year': 1979}, ...]"
            raise DataError(f"item_features must be {EXPECTED_FEATURES}, as {example}; got {kind}")
        tags = build_tags([_parse_traits(row, raw) for row, raw in enumerate(item_features)])
    if tags.n_items != n_items:
        raise DataError(f"item_features must describe {n_items} items, not {tags.n_items}")
    return tags


def _parse_traits(row: int, raw: Any) -> Traits:
    """Return the traits of one item: distinct labels in a tuple, or a finite number."""
    if not isinstance(raw, Mapping):
        kind = type(raw).__name__
        raise DataError(f"item_features must be {EXPECTED_FEATURES}; item {row} is {kind}")
    traits: dict[str, tuple[str, ...] | float] = {}
    for name, value in raw.items():
        if isinstance(value, list | tuple) and all(isinstance(label, str) for label in value):
            traits[name] = tuple(dict.fromkeys(value))
        # The comparison is false for NaN.
        elif isinstance(value, int | float | np.number) and abs(float(value)) < 2**53:
            traits[name] = float(value)
        else:
            raise DataError(
                f"item_features: {name!r} of item {row} is {value!r}; it must be a list of labels "
                "or a finite number"
            )
    return traits


def parse_times(raw: Matrix, histories: Histories) -> NDArray[np.int64]:
    """Return the rank of the time of each entry of the histories, in their order."""
    times = check_matrix(raw, "times")
    if times.shape != (histories.n_users, histories.n_items):
        raise DataError(
            f"times must have the shape of user_items, {histories.n_users} x {histories.n_items}, "
            f"not {times.shape[0]} x {times.shape[1]}"
        )
    times = sparse.csr_array(times, copy=True)
    times.sort_indices()
    entries, wanted = times.tocoo(), _number_cells(histories)
    # -1 at the end: where nothing is found, the search returns a place that compares as different.
    cells = np.append(entries.row.astype(np.int64) * histories.n_items + entries.col, -1)
    places = np.searchsorted(cells[:-1], wanted)
    if (cells[places] != wanted).any():
        raise DataError("times must have an entry wherever user_items has an interaction")
    selected = entries.data[places]
    if not np.isfinite(selected).all():
        raise DataError("times must be finite numbers")
    return np.unique(selected, return_inverse=True)[1].astype(np.int64)
