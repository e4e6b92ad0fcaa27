"""From loose pairs to histories."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.data.packing import Pairs, _sorted_together, pack

rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(-5, 5)), max_size=60)


def pairs(listed: list[tuple[int, int, int]], *, timed: bool) -> Pairs:
    table = np.array(listed, np.int64).reshape(-1, 3)
    users, items = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32)
    return Pairs(users, items, table[:, 2].copy() if timed else None)


@given(rows, st.booleans())
def test_each_pair_once_with_its_latest_time(
    listed: list[tuple[int, int, int]], timed: bool
) -> None:
    packed = pack(pairs(listed, timed=timed), 6, 7)
    latest: dict[tuple[int, int], int] = {}
    for user, item, time in listed:
        latest[user, item] = max(time, latest.get((user, item), time))
    histories = packed.histories
    found = zip(histories.users_of_entries().tolist(), histories.indices.tolist(), strict=True)
    assert list(found) == sorted(latest)
    assert packed.duplicates == len(listed) - len(latest)
    assert (packed.timestamps is not None) == timed
    if packed.timestamps is not None:
        assert packed.timestamps.tolist() == [latest[pair] for pair in sorted(latest)]


def test_pairs_in_order_are_taken_over_without_a_copy() -> None:
    given_pairs = pairs([(0, 1, 5), (0, 3, 2), (2, 0, 9)], timed=True)
    packed = pack(given_pairs, 4, 4)
    assert np.shares_memory(packed.histories.indices, given_pairs.items)
    assert packed.timestamps is given_pairs.timestamps
    assert packed.histories.indptr.tolist() == [0, 2, 2, 3, 3]


def test_numbers_too_wide_to_share_a_word_with_their_position() -> None:
    """2^31 users and items leave no room for the position beside them."""
    last = 2**31 - 2
    key = np.array([last << 31 | last, 5, last << 31 | last, 3], np.int64)
    found, times = _sorted_together(key.copy(), np.array([1, 2, 3, 4], np.int64))
    assert found.tolist() == sorted(key.tolist())
    assert times[:2].tolist() == [4, 2]
    assert sorted(times[2:].tolist()) == [1, 3]


def test_types_are_those_of_histories() -> None:
    histories = pack(pairs([(1, 1, 1), (0, 0, 0)], timed=True), 2, 2).histories
    assert (str(histories.indptr.dtype), str(histories.indices.dtype)) == ("int64", "int32")
