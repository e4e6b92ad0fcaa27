"""Filters, subsets and summaries of a data set, and histories from loose pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.model import Histories
from sottovoce.data import Interactions, load
from sottovoce.data.interactions import Loaded, Pairs, _sorted_together, pack
from sottovoce.errors import DataError, SettingsError

N_ITEMS = 8
lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), unique=True), min_size=1, max_size=12)
rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(-5, 5)), max_size=60)


def stamped(rows: list[list[int]]) -> Interactions:
    """Data in which ids, titles and timestamps can be told from positions."""
    histories = Histories.from_lists(rows, N_ITEMS)
    return Interactions(
        name="made up",
        histories=histories,
        user_ids=np.array([f"u{n}" for n in range(len(rows))], object),
        item_ids=np.arange(N_ITEMS) * 10,
        timestamps=histories.users_of_entries() * 100 + histories.indices,
        titles=np.array([f"film {n}" for n in range(N_ITEMS)], object),
        tags=np.array([{"genre": ("Drama",)}] * N_ITEMS, object),
        loaded=Loaded("test", 5, 1, 2),
    )


def triples(data: Interactions) -> set[tuple[str, int, int]]:
    assert data.timestamps is not None
    users = data.user_ids[data.histories.users_of_entries()]
    items = data.item_ids[data.histories.indices]
    return set(zip(users.tolist(), items.tolist(), data.timestamps.tolist(), strict=True))


def test_summary_counts() -> None:
    summary = stamped([[0, 1, 2], [1]]).summary()
    assert (summary["users"], summary["items"], summary["interactions"]) == (2, N_ITEMS, 4)
    assert summary["density"] == 4 / 16
    assert summary["per_user"] == {"min": 1, "median": 2.0, "max": 3}
    assert summary["per_item"] == {"min": 0, "median": 0.0, "max": 2}
    assert summary["timestamps"] is summary["titles"] is True
    assert (summary["ratings_not_positive"], summary["duplicates_merged"]) == (1, 2)


@given(lists, st.sets(st.integers(0, 11)), st.sets(st.integers(0, N_ITEMS - 1)))
def test_select_keeps_exactly_what_was_chosen(
    rows: list[list[int]], users: set[int], items: set[int]
) -> None:
    users = {user for user in users if user < len(rows)}
    data = stamped(rows)
    chosen = data.select(np.array(sorted(users), int), np.array(sorted(items), int))
    expected = {
        (f"u{user}", item * 10, user * 100 + item)
        for user in users
        for item in rows[user]
        if item in items
    }
    assert triples(chosen) == expected
    assert chosen.user_ids.tolist() == [f"u{user}" for user in sorted(users)]
    assert chosen.titles is not None
    assert chosen.titles.tolist() == [f"film {item}" for item in sorted(items)]


@given(lists, st.integers(1, 3))
def test_stable_filter_is_the_largest_such_set(rows: list[list[int]], least: int) -> None:
    """Compared with peeling one user or item at a time."""
    kept = {(user, item) for user, row in enumerate(rows) for item in row}
    while True:
        users = [user for user, _ in kept]
        items = [item for _, item in kept]
        fewer = {(u, i) for u, i in kept if users.count(u) >= least and items.count(i) >= least}
        if fewer == kept:
            break
        kept = fewer
    if not kept:
        with pytest.raises(DataError):
            stamped(rows).filter(least)
        return
    expected = {(f"u{user}", item * 10, user * 100 + item) for user, item in kept}
    assert triples(stamped(rows).filter(least)) == expected


def loose(listed: list[tuple[int, int, int]], *, timed: bool) -> Pairs:
    table = np.array(listed, np.int64).reshape(-1, 3)
    users, items = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32)
    return Pairs(users, items, table[:, 2].copy() if timed else None)


@given(rows, st.booleans())
def test_each_pair_once_with_its_latest_time(
    listed: list[tuple[int, int, int]], timed: bool
) -> None:
    histories, times, duplicates = pack(loose(listed, timed=timed), 6, 7)
    latest: dict[tuple[int, int], int] = {}
    for user, item, time in listed:
        latest[user, item] = max(time, latest.get((user, item), time))
    found = zip(histories.users_of_entries().tolist(), histories.indices.tolist(), strict=True)
    assert list(found) == sorted(latest)
    assert duplicates == len(listed) - len(latest)
    assert (times is not None) == timed
    if times is not None:
        assert times.tolist() == [latest[pair] for pair in sorted(latest)]


def test_numbers_too_wide_to_share_a_word_with_their_position() -> None:
    """2^31 users and items leave no room for the position beside them."""
    last = 2**31 - 2
    key = np.array([last << 31 | last, 5, last << 31 | last, 3], np.int64)
    found, times = _sorted_together(key.copy(), np.array([1, 2, 3, 4], np.int64))
    assert found.tolist() == sorted(key.tolist())
    assert times[:2].tolist() == [4, 2]
    assert sorted(times[2:].tolist()) == [1, 3]


def test_subsets_have_the_size_asked_for_and_grow_with_it() -> None:
    data = load("ml-latest-small")
    few, many, other = (
        data.subset(users=n, items=1000, seed=seed) for n, seed in ((50, 5), (200, 5), (50, 6))
    )
    assert (few.histories.n_users, few.histories.n_items) == (50, 1000)
    assert np.diff(few.histories.indptr).min() >= 2, "everybody can be tested"
    assert few.item_ids.tolist() == many.item_ids.tolist()
    assert set(few.user_ids) < set(many.user_ids)
    assert set(data.subset(items=500, seed=5).item_ids) < set(many.item_ids) < set(data.item_ids)
    assert other.user_ids.tolist() != few.user_ids.tolist()
    places = {item: place for place, item in enumerate(data.item_ids.tolist())}
    assert data.tags is not None
    assert few.tags is not None
    known = [data.tags[places[item]] for item in few.item_ids.tolist()]
    assert few.tags.tolist() == known, "tags stay with their items"


@pytest.mark.parametrize(
    "asked",
    [
        lambda data: data.select(np.array([9]), None), lambda data: data.filter(-1),
        lambda data: data.subset(users=3), lambda data: data.subset(items=9),
        lambda data: data.subset(users=0),
        lambda data: replace(data, item_ids=np.arange(3)),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(asked: Any) -> None:
    with pytest.raises((DataError, SettingsError)):
        asked(stamped([[0, 1], [2], [3, 4]]))
