"""From loose (user, item) pairs to the two arrays of `Histories`, with little memory.

23 million interactions are common, so pairs that are already in order are not sorted again, and
nothing wider than one 64-bit word for each interaction is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.model.histories import Histories

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Pairs:
    """Interactions in any order, by user and item number; the same pair may come up again."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    timestamps: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Packed:
    """`Histories`, the timestamps in the same order, and how many repeated pairs were merged."""

    histories: Histories
    timestamps: NDArray[np.int64] | None
    duplicates: int


def pack(pairs: Pairs, n_users: int, n_items: int) -> Packed:
    """Sort by user and item; a repeated pair collapses to one with its latest timestamp."""
    given = len(pairs.users)
    if not _in_order(pairs):
        pairs = _sorted(pairs, item_bits=n_items.bit_length())
    # The users ascend, so a search finds the offsets without counting every entry.
    indptr = np.searchsorted(pairs.users, np.arange(n_users + 1, dtype=np.int32)).astype(np.int64)
    histories = Histories.from_arrays(indptr, pairs.items, n_items)
    return Packed(histories, pairs.timestamps, given - len(pairs.users))


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


def _merged(
    key: NDArray[np.int64], timestamps: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Each key once; of its timestamps the latest."""
    first = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=first[1:])
    if first.all():
        return key, timestamps
    if timestamps is not None:
        timestamps = np.maximum.reduceat(timestamps, np.flatnonzero(first))
    return key[first], timestamps
