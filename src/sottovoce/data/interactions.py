"""A data set: who touched what, when, and what the things are called.

The paper's section 4.1: a rating of any size becomes `r_ui = 1`, users and items with few
interactions are left out, and subsets of several sizes are drawn.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.model import Histories
from sottovoce.core.recommending import Traits
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError

Bools = NDArray[np.bool_]
Times = NDArray[np.int64] | None
Described = Mapping[str, tuple[str, Traits]]
"""Title and tags of items, by their ids as text."""
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Loaded:
    """What reading a file came to: nothing is left out without being counted here."""

    format: str
    """Which layout was recognised."""
    rows: int
    """How many interactions the files hold."""
    not_positive: int
    """Rows with a rating of 0 or less: by rule not an interaction."""
    duplicates: int
    """Rows that repeat a (user, item) pair and were merged into one."""


def loaded_in_words(loaded: Loaded | None) -> dict[str, Any]:
    """For a summary."""
    names = "format", "rows_read", "ratings_not_positive", "duplicates_merged"
    return dict(zip(names, astuple(loaded) if loaded else (None,) * 4, strict=True))


@dataclass(frozen=True, eq=False)
class Interactions:
    """A data set with its original ids; position in `user_ids` and `item_ids` is the number.

    >>> data = Interactions.from_lists("tiny", [[0, 1], [1]], n_items=2)
    >>> data.summary()["interactions"]
    3
    """

    name: str
    """Of the data set, for summaries."""
    histories: Histories
    """Who touched what, by number."""
    user_ids: NDArray[Any]
    """The ids as the source has them: int64 where they are integers, else Python objects."""
    item_ids: NDArray[Any]
    """The same of items."""
    timestamps: Times = None
    """Seconds (or any ascending number) for each entry of `histories.indices`."""
    titles: NDArray[np.object_] | None = None
    """One string for each item."""
    tags: NDArray[np.object_] | None = None
    """What is known of each item: its `Traits`."""
    loaded: Loaded | None = None
    """What the loader counted; None for data that was not read from a file."""

    def __post_init__(self) -> None:
        _same_length("user ids", self.user_ids, self.histories.n_users)
        _same_length("item ids", self.item_ids, self.histories.n_items)
        _same_length("timestamps", self.timestamps, self.histories.n_interactions)
        _same_length("titles", self.titles, self.histories.n_items)
        _same_length("tags", self.tags, self.histories.n_items)

    @property
    def n_users(self) -> int:
        """Number of people."""
        return self.histories.n_users

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.histories.n_items

    @property
    def n_interactions(self) -> int:
        """Number of pairs of a person and an item."""
        return self.histories.n_interactions

    @property
    def typical_length(self) -> float:
        """Of a history: the median number of items, to two digits."""
        return self.histories.typical_length()

    @property
    def untouched(self) -> NDArray[np.int64]:
        """How many items each person never touched."""
        return self.n_items - np.diff(self.histories.indptr)

    @classmethod
    def from_lists(cls, name: str, lists: list[list[int]], n_items: int) -> Self:
        """Small data written by hand; ids are the numbers themselves.

        Args:
            name: Of the data set.
            lists: The numbers of each person's items.
            n_items: How many items there are.
        """
        histories = Histories.from_lists(lists, n_items)
        return cls(name, histories, np.arange(histories.n_users), np.arange(n_items))

    def described(self) -> list[tuple[str, str, Traits]]:
        """Of each item its id, its title (where it has none: the id), and its tags."""
        ids = [str(number) for number in self.item_ids.tolist()]
        titles = ids if self.titles is None else [str(title) for title in self.titles]
        tags = [{}] * len(ids) if self.tags is None else self.tags.tolist()
        return [
            (number, title or number, traits)
            for number, title, traits in zip(ids, titles, tags, strict=True)
        ]

    def with_described(self, items: Described) -> Self:
        """The same with other titles and tags.

        Args:
            items: Title and tags by the id as text; an item that is not among them has none.
        """
        rows = [items.get(str(item), ("", {})) for item in self.item_ids.tolist()]
        titles, tags = ([row[place] for row in rows] for place in (0, 1))
        kept = object_array(tags) if any(tags) else None
        return replace(self, titles=object_array(titles), tags=kept)

    def summary(self) -> dict[str, Any]:
        """What `sottovoce data info` prints."""
        histories = self.histories
        cells = histories.n_users * histories.n_items
        return {
            "name": self.name,
            "users": histories.n_users,
            "items": histories.n_items,
            "interactions": histories.n_interactions,
            "density": histories.n_interactions / cells if cells else 0.0,
            "per_user": _spread(np.diff(histories.indptr)),
            "per_item": _spread(histories.popularity()),
            "timestamps": self.timestamps is not None,
            "titles": self.titles is not None,
            "tags": self._kinds(),
            **loaded_in_words(self.loaded),
        }

    def _kinds(self) -> dict[str, int]:
        items = [] if self.tags is None else self.tags.tolist()
        return dict(Counter(kind for traits in items for kind in traits))

    def filter(self, min_interactions: int) -> Self:
        """Only users and items with enough interactions.

        Repeated until every user and every item that is left has enough *in what is left*, so the
        number asked for holds in the result. The paper does not say whether it does so.

        Args:
            min_interactions: How many are enough; the paper has 60.
        """
        if min_interactions < 0:
            raise SettingsError(f"min_interactions must not be negative, found {min_interactions}")
        parts, users = lambda: [self.histories], [np.ones(self.n_users, bool)]
        (kept,), items = enough(parts, users, self.n_items, min_interactions)
        return self._keep(kept, items)

    def subset(self, *, users: int | None = None, items: int | None = None, seed: int = 0) -> Self:
        """Uniformly random items, then uniformly random users among those who can be tested.

        Both are the first ones of one shuffle for each seed: more users with the same seed (and
        items) are a superset, so sizes can be compared. Drawn items stay in the catalogue even if
        no drawn user touched them.

        Args:
            users: How many, of those with at least 2 of the chosen items, since others cannot be
                split into training and test; None: all of these.
            items: How many; None: all.
            seed: Of the shuffles.
        """
        histories = self.histories
        kept_items = np.ones(histories.n_items, bool)
        if items is not None:
            order = stream(seed, "items").permutation(histories.n_items)
            kept_items = _first(order, items, histories.n_items, "items", self.name)
        able = row_sums(histories, kept_items[histories.indices]) >= 2
        kept_users = able
        if users is not None:
            order = stream(seed, "users").permutation(histories.n_users)
            kept_users = _first(order[able[order]], users, histories.n_users, "users", self.name)
        return self._keep(kept_users, kept_items)

    def select(self, users: NDArray[np.integer] | None, items: NDArray[np.integer] | None) -> Self:
        """Only some users and items, in their present order.

        Args:
            users: Their numbers; None: all.
            items: Their numbers; None: all.
        """
        return self._keep(
            _mask(users, self.histories.n_users, "user"),
            _mask(items, self.histories.n_items, "item"),
        )

    def _keep(self, users: Bools, items: Bools) -> Self:
        if users.all() and items.all():
            return self
        entries = _entries(self.histories, users, items)
        lengths = row_sums(self.histories, entries)[users]
        number = np.cumsum(items, dtype=np.int32) - np.int32(1)
        histories = Histories(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            number[self.histories.indices[entries]],
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


def _same_length(what: str, values: NDArray[Any] | None, expected: int) -> None:
    if values is not None and len(values) != expected:
        raise DataError(f"there must be {expected} {what}, found {len(values)}")


def _spread(counts: NDArray[np.int64]) -> dict[str, float]:
    counts = counts if len(counts) else np.zeros(1, np.int64)
    least, most = int(counts.min()), int(counts.max())
    return {"min": least, "median": float(np.median(counts)), "max": most}


def _entries(histories: Histories, users: Bools, items: Bools) -> Bools:
    """Which interactions have both their user and their item kept; one byte each."""
    entries: Bools = np.repeat(users, np.diff(histories.indptr))
    entries &= items[histories.indices]
    return entries


def row_sums(histories: Histories, entries: Bools) -> NDArray[np.int64]:
    """How many of a user's entries are marked."""
    sums = np.zeros(histories.n_users, np.int64)
    filled = np.flatnonzero(np.diff(histories.indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(entries, histories.indptr[filled], dtype=np.int64)
    return sums


def enough(
    parts: Callable[[], Iterable[Histories]],
    users: list[Bools],
    n_items: int,
    least: int,
) -> tuple[list[Bools], Bools]:
    """Which of the users of each part, and which items, have enough in what is left."""
    items = np.ones(n_items, bool)
    changed = least > 0
    while changed:
        left, per_item = [], np.zeros(n_items, np.int64)
        for part, some in zip(parts(), users, strict=True):
            entries = _entries(part, some, items)
            left.append(some & (row_sums(part, entries) >= least))
            per_item += np.bincount(part.indices[entries], minlength=n_items)
        kept = items & (per_item >= least)
        changed = not (np.array_equal(kept, items) and all(map(np.array_equal, left, users)))
        users, items = left, kept
    if not items.any() or not any(some.any() for some in users):
        raise DataError(
            f"nothing is left when every user and item must have at least {least} interactions; "
            "ask for fewer (--min-interactions)"
        )
    return users, items


def _first(order: NDArray[np.int64], how_many: int, size: int, what: str, name: str) -> Bools:
    """Marks the first `how_many` of a shuffled list, out of `size`."""
    if how_many < 1:
        raise SettingsError(f"a subset needs at least 1 of its {what}, found {how_many}")
    if how_many > len(order):
        why = " with at least 2 interactions on the chosen items" if what == "users" else ""
        raise DataError(f"{name}: asked for {how_many:,} {what}, there are {len(order):,}{why}")
    mask = np.zeros(size, bool)
    mask[order[:how_many]] = True
    return mask


def _mask(numbers: NDArray[np.integer] | None, size: int, what: str) -> Bools:
    if numbers is None:
        return np.ones(size, bool)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= size):
        raise DataError(
            f"{what} numbers must be from 0 to {size - 1}, found {numbers.min()}..{numbers.max()}"
        )
    mask = np.zeros(size, bool)
    mask[numbers] = True
    return mask


def object_array(values: list[Any]) -> NDArray[np.object_]:
    """One element for each, whatever they are: numpy would look into lists and tuples."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def id_array(ids: list[Any]) -> NDArray[Any]:
    """Integers as int64 where they fit; anything else as Python objects, so nothing is changed."""
    if all(type(one) is int and _INT64.min <= one <= _INT64.max for one in ids):
        return np.array(ids, np.int64)
    return object_array(ids)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Interactions in any order, by user and item number; the same pair may come up again."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    timestamps: Times


def pack(pairs: Pairs, n_users: int, n_items: int) -> tuple[Histories, Times, int]:
    """By user and item, with timestamps in the same order, and how many repeats were merged.

    A repeated pair collapses to one with its latest timestamp. 23 million interactions are common,
    so pairs that are in order are not sorted again, and nothing wider than one 64-bit word for
    each interaction is made.
    """
    given = len(pairs.users)
    if not _in_order(pairs):
        pairs = _sorted(pairs, item_bits=n_items.bit_length())
    # The users ascend, so a search finds the offsets without counting every entry.
    indptr = np.searchsorted(pairs.users, np.arange(n_users + 1, dtype=np.int32)).astype(np.int64)
    histories = Histories.from_arrays(indptr, pairs.items, n_items)
    return histories, pairs.timestamps, given - len(pairs.users)


def _in_order(pairs: Pairs) -> bool:
    """Whether (user, item) strictly ascends: sorted, and no pair twice."""
    users, items = pairs.users, pairs.items
    ascends = items[1:] > items[:-1]
    ascends &= users[1:] == users[:-1]
    ascends |= users[1:] > users[:-1]
    return bool(ascends.all())


def _sorted(pairs: Pairs, item_bits: int) -> Pairs:
    """In order, each pair once. User and item share one word, which is what gets sorted."""
    key = pairs.users.astype(np.int64)
    key <<= np.int64(item_bits)
    key |= pairs.items
    timestamps = pairs.timestamps
    if timestamps is None:
        key.sort()
    else:
        key, timestamps = _sorted_together(key, timestamps)
    key, timestamps = _merged(key, timestamps)
    items = (key & np.int64((1 << item_bits) - 1)).astype(np.int32)
    key >>= np.int64(item_bits)
    return Pairs(key.astype(np.int32), items, timestamps)


def _sorted_together(
    key: NDArray[np.int64], timestamps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both in the order of the keys.

    Where key and position fit one word, the word is sorted in place: half the memory and the
    time of an argsort. They nearly always do.
    """
    bits = len(key).bit_length()
    if int(key.max()).bit_length() + bits > 63:
        order = np.argsort(key)
        return key[order], timestamps[order]
    key <<= np.int64(bits)
    key |= np.arange(len(key))
    key.sort()
    timestamps = timestamps[key & np.int64((1 << bits) - 1)]
    key >>= np.int64(bits)
    return key, timestamps


def _merged(key: NDArray[np.int64], timestamps: Times) -> tuple[NDArray[np.int64], Times]:
    """Each key once; of its timestamps the latest."""
    first = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    if first.all():
        return key, timestamps
    if timestamps is not None:
        timestamps = np.maximum.reduceat(timestamps, np.flatnonzero(first))
    return key[first], timestamps
