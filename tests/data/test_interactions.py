"""Filters, subsets and summaries of a data set, and packing pairs into histories."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.histories import Histories
from sottovoce.data import Interactions, load
from sottovoce.data.interactions import LoadCounts, Pairs, _sort_with_timestamps, pack
from sottovoce.errors import DataError, SettingsError

N_ITEMS = 8
lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), unique=True), min_size=1, max_size=12)
rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(-5, 5)), max_size=60)


def make_data(rows: list[list[int]]) -> Interactions:
    """Make a data set whose ids, titles and timestamps differ from their positions."""
    histories = Histories.from_lists(rows, N_ITEMS)
    return Interactions(
        name="made up",
        histories=histories,
        user_ids=np.array([f"u{n}" for n in range(len(rows))], object),
        item_ids=np.arange(N_ITEMS) * 10,
        timestamps=histories.users_of_entries() * 100 + histories.indices,
        titles=np.array([f"film {n}" for n in range(N_ITEMS)], object),
        tags=np.array([{"genre": ("Drama",)}] * N_ITEMS, object),
        load_counts=LoadCounts("test", 5, 1, 2),
    )


def get_triples(data: Interactions) -> set[tuple[str, int, int]]:
    assert data.timestamps is not None
    users = data.user_ids[data.histories.users_of_entries()]
    items = data.item_ids[data.histories.indices]
    return set(zip(users.tolist(), items.tolist(), data.timestamps.tolist(), strict=True))


def test_summary_counts_users_items_and_interactions() -> None:
    summary = make_data([[0, 1, 2], [1]]).summary()
    assert (summary["users"], summary["items"], summary["interactions"]) == (2, N_ITEMS, 4)
    assert summary["density"] == 4 / 16
    assert summary["per_user"] == {"min": 1, "median": 2.0, "max": 3}
    assert summary["per_item"] == {"min": 0, "median": 0.0, "max": 2}
    assert summary["timestamps"] is summary["titles"] is True
    assert (summary["ratings_not_positive"], summary["duplicates_merged"]) == (1, 2)


@given(lists, st.sets(st.integers(0, 11)), st.sets(st.integers(0, N_ITEMS - 1)))
def test_select_returns_exactly_the_chosen_users_and_items(
    rows: list[list[int]], users: set[int], items: set[int]
) -> None:
    users = {user for user in users if user < len(rows)}
    data = make_data(rows)
    chosen = data.select(np.array(sorted(users), int), np.array(sorted(items), int))
    expected = {
        (f"u{user}", item * 10, user * 100 + item)
        for user in users
        for item in rows[user]
        if item in items
    }
    assert get_triples(chosen) == expected
    assert chosen.user_ids.tolist() == [f"u{user}" for user in sorted(users)]
    assert chosen.titles is not None
    assert chosen.titles.tolist() == [f"film {item}" for item in sorted(items)]


@given(lists, st.integers(1, 3))
def test_filter_returns_the_largest_set_with_enough_interactions(
    rows: list[list[int]], min_interactions: int
) -> None:
    """Compare with a filter that counts pairs in sets."""
    pairs = {(user, item) for user, row in enumerate(rows) for item in row}
    while True:
        users = [user for user, _ in pairs]
        items = [item for _, item in pairs]
        remaining = {
            (user, item)
            for user, item in pairs
            if users.count(user) >= min_interactions and items.count(item) >= min_interactions
        }
        if remaining == pairs:
            break
        pairs = remaining
    if not pairs:
        with pytest.raises(DataError):
            make_data(rows).filter(min_interactions)
        return
    expected = {(f"u{user}", item * 10, user * 100 + item) for user, item in pairs}
    assert get_triples(make_data(rows).filter(min_interactions)) == expected


def make_pairs(rows: list[tuple[int, int, int]], *, has_times: bool) -> Pairs:
    table = np.array(rows, np.int64).reshape(-1, 3)
    users, items = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32)
    return Pairs(users, items, table[:, 2].copy() if has_times else None)


@given(rows, st.booleans())
def test_pack_merges_repeated_pairs_and_takes_the_latest_time(
    rows: list[tuple[int, int, int]], has_times: bool
) -> None:
    histories, times, duplicates = pack(make_pairs(rows, has_times=has_times), 6, 7)
    latest: dict[tuple[int, int], int] = {}
    for user, item, time in rows:
        latest[user, item] = max(time, latest.get((user, item), time))
    packed = zip(histories.users_of_entries().tolist(), histories.indices.tolist(), strict=True)
    assert list(packed) == sorted(latest)
    assert duplicates == len(rows) - len(latest)
    assert (times is not None) == has_times
    if times is not None:
        assert times.tolist() == [latest[pair] for pair in sorted(latest)]


def test_sort_of_numbers_that_leave_no_bits_for_the_position() -> None:
    """Sort numbers of 31 bits each, which fill a 64-bit word."""
    # With their position they would need more than 63 bits.
    last = 2**31 - 2
    key = np.array([last << 31 | last, 5, last << 31 | last, 3], np.int64)
    ordered, times = _sort_with_timestamps(key.copy(), np.array([1, 2, 3, 4], np.int64))
    assert ordered.tolist() == sorted(key.tolist())
    assert times[:2].tolist() == [4, 2]
    assert sorted(times[2:].tolist()) == [1, 3]


def test_subsets_have_the_requested_size_and_larger_ones_include_smaller() -> None:
    data = load("ml-latest-small")
    few, many, other = (
        data.subset(users=n, items=1000, seed=seed) for n, seed in ((50, 5), (200, 5), (50, 6))
    )
    assert (few.histories.n_users, few.histories.n_items) == (50, 1000)
    # Every user can be tested.
    assert np.diff(few.histories.indptr).min() >= 2
    assert few.item_ids.tolist() == many.item_ids.tolist()
    # Fewer users of the same seed are a subset.
    assert set(few.user_ids) < set(many.user_ids)
    assert set(data.subset(items=500, seed=5).item_ids) < set(many.item_ids) < set(data.item_ids)
    assert other.user_ids.tolist() != few.user_ids.tolist()
    # Tags stay with their items.
    positions = {item: place for place, item in enumerate(data.item_ids.tolist())}
    assert data.tags is not None
    assert few.tags is not None
    expected = [data.tags[positions[item]] for item in few.item_ids.tolist()]
    assert few.tags.tolist() == expected


@pytest.mark.parametrize(
    "request_subset",
    [
        lambda data: data.select(np.array([9]), None), lambda data: data.filter(-1),
        lambda data: data.subset(users=3), lambda data: data.subset(items=9),
        lambda data: data.subset(users=0),
        lambda data: replace(data, item_ids=np.arange(3)),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused(request_subset: Any) -> None:
    with pytest.raises((DataError, SettingsError)):
        request_subset(make_data([[0, 1], [2], [3, 4]]))


def test_matched_items_have_the_rows_of_the_catalogue() -> None:
    data = Interactions.from_lists("tiny", [[0, 1, 2], [2], [1, 3]], n_items=4)
    data = replace(data, timestamps=np.arange(6) * 10)
    matched = data.match_items({"9": 0, "2": 1, "1": 2, "0": 3})
    histories = [matched.histories[user].tolist() for user in range(3)]
    assert histories == [[1, 2, 3], [1], [2]]
    assert matched.timestamps is not None
    assert matched.timestamps.tolist() == [20, 10, 0, 30, 40]
    assert matched.n_items == 4
    assert matched.item_ids.tolist() == ["9", "2", "1", "0"]
    with pytest.raises(DataError):
        data.match_items({"a": 0, "b": 1})
