"""Checks and conversions of the arguments of `FederatedMF` that describe people and items."""

from __future__ import annotations

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
from sottovoce.data.items import read_items
from sottovoce.data.split import select_entries
from sottovoce.errors import DataError, warn_about_ratings, warn_caller
from sottovoce.settings import Setting

if TYPE_CHECKING:
    # The protocol imports cryptography, which a simulator does not need.
    from sottovoce.protocol import Catalogue

Int64 = NDArray[np.int64]
Matrix = sparse.csr_matrix | sparse.csr_array
# `ArrayLike` includes dense arrays and the DataFrames of any library.
UserItems: TypeAlias = "Matrix | Histories | Interactions | ArrayLike | Mapping[str, Any]"
ItemFeatures: TypeAlias = "Matrix | Catalogue | Sequence[Mapping[str, Any]] | UserItems"
# Times of interactions: a matrix, a time for each entry, or True for those of the table.
Times: TypeAlias = "Matrix | ArrayLike | bool"

# The accepted kinds of `user_items` and `item_features`, as error messages list them.
EXPECTED_INPUTS = (
    "a matrix, a DataFrame with columns user and item, a pair (users, items) or from "
    "sottovoce.data.load; of one person also a table {'item': [...]}"
)
EXPECTED_FEATURES = (
    "a Catalogue, a table with a column item, a mapping of tags for each item, in their order or "
    "by id, or a sparse matrix"
)


class Labels:
    """The ids of items or people. In a matrix, the ids are the numbers of its columns or rows."""

    def __init__(self, ids: NDArray[Any]):
        self.ids = ids

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        # The keys are Python objects, because lookup is fast and ids of int32 equal ids of int64.
        return {label: number for number, label in enumerate(self.ids.tolist())}

    def __len__(self) -> int:
        return len(self.ids)

    def find_numbers(self, ids: NDArray[Any]) -> Int64:
        """Return the numbers of ids; -1 for an unknown id."""
        return np.array([self._numbers.get(label, -1) for label in ids.tolist()], np.int64)

    def parse_numbers(self, raw: ArrayLike, name: str) -> Int64:
        """Return the numbers of ids, or raise a `DataError` if one is not known.

        Args:
            raw: One id, or several in one dimension.
            name: The argument's name in errors.
        """
        ids = parse_ids(raw, name)
        numbers = self.find_numbers(ids)
        if (numbers < 0).any():
            unknown, n = ids[numbers < 0].tolist()[0], len(self)
            labels = f"there are {n:,}, from {self.ids.item(0)!r} to {self.ids.item(n - 1)!r}"
            raise DataError(f"{name} must be known here, and {unknown!r} is not; {labels}")
        return numbers

    def get_ids(self, numbers: NDArray[np.integer]) -> NDArray[Any]:
        """Return the ids of numbers. The id of -1 is None if ids are text, otherwise -1."""
        no_id = np.array([None if self.ids.dtype == object else -1], self.ids.dtype)
        return np.asarray(np.concatenate([self.ids, no_id])[numbers])

    def select_columns(self, data: Interactions, name: str) -> Histories:
        """Return the histories of the data, restricted to these items.

        Warn about interactions with other items. `name` is the argument's name in the warning.
        """
        if np.array_equal(data.item_ids, self.ids):
            return data.histories
        # Each id is looked up once, and not once for each interaction.
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
    """Convert one id or several to an array of one dimension, of whole numbers or texts."""
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
    """Return histories, the labels of their people, and the labels of the items.

    The labels of the people are None if `raw` is a matrix.

    Args:
        raw: The value that a caller passed as `user_items` or `test`.
        items: The items of a model; None: the items in `raw`.
        name: The argument's name in errors.
        user: The id of the person if `raw` is a table without a column of users.
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


def parse_test(
    raw: Any,
    items: Labels,
    histories: Histories,
    users: Labels | None,
    *,
    repurchases: bool = False,
) -> Histories:
    """Return the held-out items of these people, a row for each person in the same order.

    What people have in `histories` too does not count, with a warning, unless `repurchases`.

    Args:
        raw: The value that a caller passed as `test`.
        items: The items of the model.
        histories: The people's histories.
        users: The labels of the people; None if their histories came as a matrix.
        repurchases: Whether held-out items may be in `histories`.

    Raises:
        DataError: The users or shapes do not match, or nobody has a held-out item.
    """
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
        # People who are not in the test have row -1. Append an empty row, which -1 selects.
        indptr = np.append(hidden.indptr, hidden.indptr[-1])
        hidden = Histories(indptr, hidden.indices, len(items)).take(rows)
    if hidden.n_users != histories.n_users:
        raise DataError(f"test must have {histories.n_users} rows, not {hidden.n_users}")
    if not hidden.n_interactions:
        raise DataError("test must have at least one held-out interaction")
    cells, wanted = _number_cells(histories), _number_cells(hidden)
    # Cells are in ascending order, so each of `wanted` is found by bisection.
    in_both = np.append(cells, -1)[np.searchsorted(cells, wanted)] == wanted
    if repurchases or not in_both.any():
        return hidden
    user, item = divmod(int(wanted[in_both][0]), histories.n_items)
    pair = f"user {users.ids.item(user)!r} has item {items.ids.item(item)!r} in both"
    if in_both.all():
        raise DataError(f"test must hold what user_items does not: {pair}")
    warn_caller(
        f"test: {in_both.sum():,} of {len(wanted):,} interactions are in user_items too, as "
        f"{pair}, and do not count; filter_already_liked_items=False counts them"
    )
    return select_entries(hidden, ~in_both)


def _number_cells(histories: Histories) -> Int64:
    """Return one number for each entry, which combines its row and its column."""
    return histories.users_of_entries() * histories.n_items + histories.indices


def parse_histories(raw: Any, name: str = "user_items") -> Histories:
    """Return the histories in a matrix. An array of one dimension is the history of one person."""
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
    """Return a sparse matrix of numbers, or raise a `DataError`.

    Compiled code reads the arrays of the matrix without checks, so they are checked here.
    """
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


def parse_tags(item_features: Any, items: Labels) -> Tags:
    """Return the tags of the items of a model; each column of a matrix is a tag."""
    n_items = len(items)
    # A catalogue is recognised by its attribute `tags`, because importing its class would import
    # the package cryptography.
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
        if (traits := _read_traits_by_id(item_features, items)) is not None:
            return build_tags(traits)
        if hasattr(item_features, "columns") or not hasattr(item_features, "__iter__"):
            example = "[{'genre': ['Horror'], 'year': 1979}, ...]"
            raise DataError(f"item_features must be {EXPECTED_FEATURES}, as {example}; got {kind}")
        tags = build_tags([_parse_traits(row, raw) for row, raw in enumerate(item_features)])
    if tags.n_items != n_items:
        raise DataError(f"item_features must describe {n_items} items, not {tags.n_items}")
    return tags


def _read_traits_by_id(item_features: Any, items: Labels) -> list[Traits] | None:
    """Return the traits of each item from a table or a mapping by id; None for anything else.

    Items without a row have no traits.
    """
    is_by_id = isinstance(item_features, Mapping) and all(
        isinstance(value, Mapping) for value in item_features.values()
    )
    if is_by_id:
        by_id = {str(item): _parse_traits(item, raw) for item, raw in item_features.items()}
    elif is_table(item_features) and not isinstance(item_features, tuple):
        by_id = {item: traits for item, (_, traits) in read_items(item_features).items()}
    else:
        return None
    # Ids in a catalogue are text, even if the ids of the data are integers.
    ids = [str(item) for item in items.ids.tolist()]
    if not any(item in by_id for item in ids):
        raise DataError(
            f"item_features must describe some of the {len(ids):,} items by their ids: the first "
            f"id of the model is {ids[0]!r}, the first one here {next(iter(by_id), None)!r}"
        )
    return [by_id.get(item, {}) for item in ids]


def _parse_traits(row: Any, raw: Any) -> Traits:
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


def read_times(raw: Any, items: Labels, user: Any = None) -> Matrix:
    """Return the timestamps of a table as a matrix of people and items.

    Raises:
        DataError: `raw` is no table, or has no timestamps.
    """
    data = read_frame(raw, user=user) if is_table(raw) else raw
    if not isinstance(data, Interactions) or data.timestamps is None:
        raise DataError(
            "user_items must have timestamps for times=True: pass a table with a column of times, "
            "or a time for each interaction"
        )
    columns = items.find_numbers(data.item_ids)[data.histories.indices]
    is_known = columns >= 0
    rows = data.histories.users_of_entries()[is_known]
    entries = (data.timestamps[is_known], (rows, columns[is_known]))
    return sparse.coo_array(entries, shape=(data.n_users, len(items))).tocsr()


def parse_times(raw: Any, histories: Histories) -> NDArray[np.int64]:
    """Return a rank for each entry of the histories, by its time.

    Args:
        raw: A matrix with a time for each interaction, or an array in the order of the entries.
        histories: The histories.
    """
    if not hasattr(raw, "tocsr"):
        return _rank_times(_to_time_array(raw, histories.n_interactions))
    times = check_matrix(raw, "times")
    if times.shape != (histories.n_users, histories.n_items):
        raise DataError(
            f"times must have the shape of user_items, {histories.n_users} x {histories.n_items}, "
            f"not {times.shape[0]} x {times.shape[1]}"
        )
    times = sparse.csr_array(times, copy=True)
    times.sort_indices()
    entries, wanted = times.tocoo(), _number_cells(histories)
    # The search returns the last place for an entry beyond all cells. That place has -1, which
    # equals no entry.
    cells = np.append(entries.row.astype(np.int64) * histories.n_items + entries.col, -1)
    places = np.searchsorted(cells[:-1], wanted)
    if (cells[places] != wanted).any():
        raise DataError("times must have an entry wherever user_items has an interaction")
    return _rank_times(entries.data[places])


def _to_time_array(raw: Any, n_entries: int) -> NDArray[Any]:
    """Convert a time for each interaction to an array of numbers."""
    try:
        times = np.asarray(raw)
    except ValueError:
        times = np.empty(0, object)
    if times.ndim != 1 or times.dtype.kind not in "biufM" or len(times) != n_entries:
        raise DataError(
            f"times must be a sparse matrix, True, or one number or date for each of the "
            f"{n_entries:,} interactions, got {type(raw).__name__} of {times.dtype} with shape "
            f"{times.shape}"
        )
    if times.dtype.kind == "M":
        # NaT becomes NaN, which is refused.
        return np.where(np.isnat(times), np.nan, times.astype("datetime64[us]").astype(np.int64))
    return times


def _rank_times(times: NDArray[Any]) -> NDArray[np.int64]:
    if not np.isfinite(times).all():
        entry = int(np.flatnonzero(~np.isfinite(times))[0])
        raise DataError(f"times must be finite numbers, and entry {entry} is {times[entry]}")
    return np.unique(times, return_inverse=True)[1].astype(np.int64)
