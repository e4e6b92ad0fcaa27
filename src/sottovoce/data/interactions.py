"""Data sets of interactions: who touched which item and when, with titles and tags of the items.

They are prepared as in section 4.1 of the paper: every positive rating becomes `r_ui = 1`, users
and items with few interactions are left out, and subsets of several sizes are drawn.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sottovoce.characters import format_html_table, pluralize
from sottovoce.core.histories import Histories
from sottovoce.core.tags import Traits
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError

Bools = NDArray[np.bool_]
Times = NDArray[np.int64] | None
# Title and tags of each item, by the item's id as text.
ItemDescriptions = Mapping[str, tuple[str, Traits]]
_INT64_RANGE = np.iinfo(np.int64)


@dataclass(frozen=True)
class LoadCounts:
    """Counts of the rows that a loader read, left out and merged."""

    format: str
    """The layout that was recognised."""
    rows: int
    """Rows in the files."""
    not_positive: int
    """Rows with a rating of 0 or less, which are not interactions."""
    duplicates: int
    """Rows that repeat a (user, item) pair, and were merged."""


def summarize_load(counts: LoadCounts | None) -> dict[str, Any]:
    """Return the counts of a loader under the names that summaries use."""
    names = "format", "rows_read", "ratings_not_positive", "duplicates_merged"
    return dict(zip(names, astuple(counts) if counts else (None,) * 4, strict=True))


@dataclass(frozen=True, eq=False)
class Interactions:
    """A data set whose users and items have numbers: their positions in `user_ids` and `item_ids`.

    >>> data = Interactions.from_lists("tiny", [[0, 1], [1]], n_items=2)
    >>> data.summary()["interactions"]
    3
    """

    name: str
    """Name of the data set, for summaries."""
    histories: Histories
    """Numbers of the items that each user touched."""
    user_ids: NDArray[Any]
    """Ids of the users from the source: int64 if all are integers, otherwise Python objects."""
    item_ids: NDArray[Any]
    """Ids of the items from the source: int64 if all are integers, otherwise Python objects."""
    timestamps: Times = None
    """Time of each entry of `histories.indices`, in seconds or any other ascending unit."""
    titles: NDArray[np.object_] | None = None
    """Title of each item or an empty string, or None if no titles are known."""
    tags: NDArray[np.object_] | None = None
    """`Traits` of each item, or None if no tags are known."""
    load_counts: LoadCounts | None = None
    """Counts of the loader, or None for data that was not read from a file or table."""

    def __post_init__(self) -> None:
        _check_length("user ids", self.user_ids, self.histories.n_users)
        _check_length("item ids", self.item_ids, self.histories.n_items)
        _check_length("timestamps", self.timestamps, self.histories.n_interactions)
        _check_length("titles", self.titles, self.histories.n_items)
        _check_length("tags", self.tags, self.histories.n_items)

    def __repr__(self) -> str:
        optional = ("timestamps", "titles", "tags")
        present = [name for name in optional if getattr(self, name) is not None]
        return (
            f"{self.name}: {pluralize(self.n_users, 'user')} x {pluralize(self.n_items, 'item')}, "
            f"{pluralize(self.n_interactions, 'interaction')}"
            f"{' with ' if present else ''}{', '.join(present)}"
        )

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        names = ("name", "users", "items", "interactions", "timestamps", "titles", "tags")
        summary = self.summary()
        return format_html_table({name: summary[name] for name in names})

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items, as of a matrix. scikit-learn divides the rows of one."""
        return self.n_users, self.n_items

    def __getitem__(self, users: Any) -> Self:
        """Return some users with all items, in their current order.

        Args:
            users: Numbers of the users, or a mask. scikit-learn passes `(numbers, ...)`.
        """
        rows = users[0] if isinstance(users, tuple) else users
        some = self.select(np.atleast_1d(np.arange(self.n_users)[rows]), None)
        # The counts are of all users.
        return replace(some, load_counts=None)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.histories.n_users

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.histories.n_items

    @property
    def n_interactions(self) -> int:
        """Number of (user, item) pairs."""
        return self.histories.n_interactions

    @property
    def typical_length(self) -> float:
        """Median number of items in a history, rounded to two digits."""
        return self.histories.typical_length()

    @property
    def untouched_counts(self) -> NDArray[np.int64]:
        """Number of items that each user never touched."""
        return self.n_items - np.diff(self.histories.indptr)

    @classmethod
    def from_lists(cls, name: str, lists: list[list[int]], n_items: int) -> Self:
        """Make a small data set by hand, in which ids are equal to numbers.

        Args:
            name: Name of the data set.
            lists: Item numbers of each user.
            n_items: Number of items.
        """
        histories = Histories.from_lists(lists, n_items)
        return cls(name, histories, np.arange(histories.n_users), np.arange(n_items))

    def to_frame(self) -> pl.DataFrame:
        """Return a table with the columns `user_id`, `item_id` and, if it is known, `timestamp`.

        `to_pandas()` of the result gives what LensKit and others read.
        """
        users = self.user_ids[self.histories.users_of_entries()]
        items = self.item_ids[self.histories.indices]
        columns = {"user_id": users.tolist(), "item_id": items.tolist()}
        if self.timestamps is not None:
            columns["timestamp"] = self.timestamps.tolist()
        return pl.DataFrame(columns)

    def list_items(self) -> list[tuple[str, str, Traits]]:
        """Return id, title and tags of each item; a missing title is replaced by the id."""
        ids = [str(number) for number in self.item_ids.tolist()]
        titles = ids if self.titles is None else [str(title) for title in self.titles]
        tags = [{}] * len(ids) if self.tags is None else self.tags.tolist()
        return [
            (number, title or number, traits)
            for number, title, traits in zip(ids, titles, tags, strict=True)
        ]

    def replace_descriptions(self, descriptions: ItemDescriptions) -> Self:
        """Return a copy with other titles and tags.

        Args:
            descriptions: Title and tags by the id as text. Items whose ids are not in it get none.
        """
        # Ids in a catalogue are text, even if the ids of the data set are integers.
        rows = [descriptions.get(str(item), ("", {})) for item in self.item_ids.tolist()]
        titles, tags = ([row[place] for row in rows] for place in (0, 1))
        return replace(
            self,
            titles=to_object_array(titles),
            tags=to_object_array(tags) if any(tags) else None,
        )

    def summary(self) -> dict[str, Any]:
        """Return what `sottovoce data info` prints."""
        histories = self.histories
        cells = histories.n_users * histories.n_items
        tags = [] if self.tags is None else self.tags.tolist()
        return {
            "name": self.name,
            "users": histories.n_users,
            "items": histories.n_items,
            "interactions": histories.n_interactions,
            "density": histories.n_interactions / cells if cells else 0.0,
            "per_user": _summarize_counts(np.diff(histories.indptr)),
            "per_item": _summarize_counts(histories.popularity()),
            "timestamps": self.timestamps is not None,
            "titles": self.titles is not None,
            "tags": dict(Counter(kind for traits in tags for kind in traits)),
            **summarize_load(self.load_counts),
        }

    def filter(self, min_interactions: int) -> Self:
        """Return a data set with only the users and items that have enough interactions.

        The filter is repeated until all remaining users and items have enough interactions with
        each other. The paper does not say whether it repeats the filter.

        Args:
            min_interactions: Number of interactions that every user and item must have; the paper
                uses 60.
        """
        if min_interactions < 0:
            raise SettingsError(f"min_interactions must be at least 0, not {min_interactions}")
        everybody = [np.ones(self.n_users, bool)]
        (users,), items = mark_frequent(
            lambda: [self.histories], everybody, self.n_items, min_interactions
        )
        return self._keep(users, items)

    def subset(self, *, users: int | None = None, items: int | None = None, seed: int = 0) -> Self:
        """Draw items uniformly at random, and then users among those who can be tested.

        All users and all items are shuffled in an order that depends on the seed only, and the
        first ones are chosen. So a subset with more users, but the same seed and items, contains
        the smaller subset, and results for several sizes can be compared. Drawn items remain even
        if no drawn user touched them.

        Args:
            users: Number of users, or None for all. Only users with at least 2 of the drawn items
                are chosen, because the histories of others cannot be split into training and test.
            items: Number of items, or None for all.
            seed: Seed of the shuffles.
        """
        histories = self.histories
        chosen_items = np.ones(histories.n_items, bool)
        if items is not None:
            order = stream(seed, "items").permutation(histories.n_items)
            chosen_items = _mark_first(order, items, histories.n_items, "items", self.name)
        testable = count_marked(histories, chosen_items[histories.indices]) >= 2
        chosen_users = testable
        if users is not None:
            # All users are shuffled, not only the testable ones, so that their order does not
            # depend on the drawn items.
            order = stream(seed, "users").permutation(histories.n_users)
            candidates = order[testable[order]]
            chosen_users = _mark_first(candidates, users, histories.n_users, "users", self.name)
        return self._keep(chosen_users, chosen_items)

    def select(self, users: NDArray[np.integer] | None, items: NDArray[np.integer] | None) -> Self:
        """Return only some users and items, in their current order.

        Args:
            users: Numbers of the users, or None for all.
            items: Numbers of the items, or None for all.
        """
        return self._keep(
            _mark_numbers(users, self.histories.n_users, "user"),
            _mark_numbers(items, self.histories.n_items, "item"),
        )

    def match_items(self, rows: Mapping[str, int]) -> Self:
        """Return the same users with the items of a catalogue; other items are left out.

        Args:
            rows: Row of each item of the catalogue, by its id and in the order of the rows.
        """
        # Ids in a catalogue are text, even if the ids of the data set are integers.
        matches = np.array([rows.get(str(item), -1) for item in self.item_ids.tolist()], np.int32)
        if not (matches >= 0).any():
            raise DataError(
                f"{self.name}: none of its {len(matches):,} items is in the catalogue "
                f"({len(rows):,} items, the first is {next(iter(rows))!r}); name the data set that "
                "the catalogue was made from"
            )
        items = matches[self.histories.indices]
        matched = items >= 0
        users = self.histories.users_of_entries()[matched].astype(np.int32)
        times = None if self.timestamps is None else self.timestamps[matched]
        pairs = Pairs(users, items[matched], times)
        histories, timestamps, _ = pack(pairs, self.n_users, len(rows))
        ids = to_object_array(list(rows))
        return replace(
            self, histories=histories, item_ids=ids, timestamps=timestamps, titles=None, tags=None
        )

    def _keep(self, users: Bools, items: Bools) -> Self:
        # If everything stays, a copy of a large data set would only cost memory.
        if users.all() and items.all():
            return self
        entries = _mark_entries(self.histories, users, items)
        lengths = count_marked(self.histories, entries)[users]
        # The new number of an item is the number of chosen items before it.
        new_numbers = np.cumsum(items, dtype=np.int32) - np.int32(1)
        histories = Histories(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            new_numbers[self.histories.indices[entries]],
            int(items.sum()),
        )
        return replace(
            self,
            histories=histories,
            user_ids=self.user_ids[users],
            item_ids=self.item_ids[items],
            timestamps=None if self.timestamps is None else self.timestamps[entries],
            titles=None if self.titles is None else self.titles[items],
            tags=None if self.tags is None else self.tags[items],
        )


def _check_length(what: str, values: NDArray[Any] | None, expected: int) -> None:
    if values is not None and len(values) != expected:
        raise DataError(f"there must be {expected} {what}, not {len(values)}")


def _summarize_counts(counts: NDArray[np.int64]) -> dict[str, float]:
    counts = counts if len(counts) else np.zeros(1, np.int64)
    median = float(np.median(counts))
    return {"min": int(counts.min()), "median": median, "max": int(counts.max())}


def _mark_entries(histories: Histories, users: Bools, items: Bools) -> Bools:
    """Mark the interactions whose user and item are both marked."""
    # Marks are combined in place, because a data set may have hundreds of millions of entries.
    entries: Bools = np.repeat(users, np.diff(histories.indptr))
    entries &= items[histories.indices]
    return entries


def count_marked(histories: Histories, entries: Bools) -> NDArray[np.int64]:
    """Count the marked entries of each user."""
    sums = np.zeros(histories.n_users, np.int64)
    # Empty histories are left out, because reduceat() returns the next user's entry for them.
    filled = np.flatnonzero(np.diff(histories.indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(entries, histories.indptr[filled], dtype=np.int64)
    return sums


def mark_frequent(
    parts: Callable[[], Iterable[Histories]],
    users: list[Bools],
    n_items: int,
    min_interactions: int,
) -> tuple[list[Bools], Bools]:
    """Mark the largest set of users and items that all have enough interactions with each other.

    Args:
        parts: Returns the parts of the data set, each with the histories of some users. It is
            called once for each round of the filter.
        users: For each part, marks of the users to start with.
        n_items: Number of items.
        min_interactions: Number of interactions that every user and item must have.

    Returns:
        The marked users of each part, and the marked items.

    Raises:
        DataError: No user or no item is left.
    """
    items = np.ones(n_items, bool)
    # Each round may leave other users and items without enough interactions, so rounds are repeated
    # until nothing changes.
    changed = min_interactions > 0
    while changed:
        next_users, item_counts = [], np.zeros(n_items, np.int64)
        for part, marks in zip(parts(), users, strict=True):
            entries = _mark_entries(part, marks, items)
            next_users.append(marks & (count_marked(part, entries) >= min_interactions))
            item_counts += np.bincount(part.indices[entries], minlength=n_items)
        next_items = items & (item_counts >= min_interactions)
        same_users = all(map(np.array_equal, next_users, users))
        changed = not (np.array_equal(next_items, items) and same_users)
        users, items = next_users, next_items
    if not items.any() or not any(marks.any() for marks in users):
        raise DataError(
            "nothing is left when every user and item must have at least "
            f"{min_interactions} interactions; ask for fewer (--min-interactions)"
        )
    return users, items


def _mark_first(order: NDArray[np.int64], n: int, size: int, what: str, name: str) -> Bools:
    """Mark the first `n` numbers of a shuffled list.

    Args:
        order: The shuffled numbers.
        n: How many of them are marked.
        size: Length of the result.
        what: "users" or "items", for error messages.
        name: Name of the data set, for error messages.
    """
    if n < 1:
        raise SettingsError(f"a subset must have at least 1 of its {what}, not {n}")
    if n > len(order):
        which = " with at least 2 interactions on the drawn items" if what == "users" else ""
        raise DataError(f"{name}: asked for {n:,} {what}, but there are {len(order):,}{which}")
    mask = np.zeros(size, bool)
    mask[order[:n]] = True
    return mask


def _mark_numbers(numbers: NDArray[np.integer] | None, size: int, what: str) -> Bools:
    if numbers is None:
        return np.ones(size, bool)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= size):
        raise DataError(
            f"{what} numbers must be from 0 to {size - 1}, not {numbers.min()}..{numbers.max()}"
        )
    mask = np.zeros(size, bool)
    mask[numbers] = True
    return mask


def to_object_array(values: list[Any]) -> NDArray[np.object_]:
    """Convert a list to an array with one element for each value."""
    # np.array() would turn lists and tuples into further dimensions.
    array = np.empty(len(values), object)
    array[:] = values
    return array


def to_id_array(ids: list[Any]) -> NDArray[Any]:
    """Convert ids to int64 if all of them are integers that fit, otherwise to an object array."""
    # `type() is int` excludes booleans.
    if all(type(value) is int and _INT64_RANGE.min <= value <= _INT64_RANGE.max for value in ids):
        return np.array(ids, np.int64)
    return to_object_array(ids)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Interactions as pairs of numbers, in any order and perhaps with repeated pairs."""

    users: NDArray[np.int32]
    """Number of the user of each interaction."""
    items: NDArray[np.int32]
    """Number of the item of each interaction."""
    timestamps: Times
    """Time of each interaction, or None if times are not known."""


def pack(pairs: Pairs, n_users: int, n_items: int) -> tuple[Histories, Times, int]:
    """Sort interactions by user and item, and merge repeated pairs.

    Returns:
        The histories, the latest timestamp of each pair in the order of the histories' entries, and
        the number of rows that were merged into others.
    """
    n_pairs = len(pairs.users)
    # Data sets of 23 million interactions are common, so do not sort them if they are sorted.
    if not _is_sorted(pairs):
        pairs = _sort(pairs, item_bits=n_items.bit_length())
    # Users are in ascending order, so bisection finds the offsets without a pass over all entries.
    indptr = np.searchsorted(pairs.users, np.arange(n_users + 1, dtype=np.int32)).astype(np.int64)
    histories = Histories.from_arrays(indptr, pairs.items, n_items)
    return histories, pairs.timestamps, n_pairs - len(pairs.users)


def _is_sorted(pairs: Pairs) -> bool:
    """Return whether pairs (user, item) are strictly ascending, so that no pair is repeated."""
    users, items = pairs.users, pairs.items
    # The marks are combined in place, so they take one byte for each pair.
    ascends = items[1:] > items[:-1]
    ascends &= users[1:] == users[:-1]
    ascends |= users[1:] > users[:-1]
    return bool(ascends.all())


def _sort(pairs: Pairs, item_bits: int) -> Pairs:
    """Sort the pairs by user and item, and merge repeated ones."""
    # User and item share one 64-bit word, because sorting wider keys would need too much memory.
    key = pairs.users.astype(np.int64)
    key <<= np.int64(item_bits)
    key |= pairs.items
    timestamps = pairs.timestamps
    if timestamps is None:
        key.sort()
    else:
        key, timestamps = _sort_with_timestamps(key, timestamps)
    key, timestamps = _merge_repeats(key, timestamps)
    items = (key & np.int64((1 << item_bits) - 1)).astype(np.int32)
    key >>= np.int64(item_bits)
    return Pairs(key.astype(np.int32), items, timestamps)


def _sort_with_timestamps(
    key: NDArray[np.int64], timestamps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both arrays, sorted by the keys; `key` may be overwritten."""
    bits = len(key).bit_length()
    if int(key.max()).bit_length() + bits > 63:
        order = np.argsort(key)
        return key[order], timestamps[order]
    # Key and position fit into one word, which is nearly always so. Sorting such words in place
    # takes half the memory and time of an argsort.
    key <<= np.int64(bits)
    key |= np.arange(len(key))
    key.sort()
    timestamps = timestamps[key & np.int64((1 << bits) - 1)]
    key >>= np.int64(bits)
    return key, timestamps


def _merge_repeats(key: NDArray[np.int64], timestamps: Times) -> tuple[NDArray[np.int64], Times]:
    """Remove repeated keys from a sorted array, and keep the latest timestamp of each key."""
    first = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    if first.all():
        return key, timestamps
    if timestamps is not None:
        timestamps = np.maximum.reduceat(timestamps, np.flatnonzero(first))
    return key[first], timestamps
