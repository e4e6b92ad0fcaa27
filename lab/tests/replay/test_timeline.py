"""A data set in the order of its days."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.replay.living import DAY, living_people
from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.errors import DataError, SettingsError
from sottovoce_lab.replay.timeline import ALIKE, Timeline
from tests.people import histories


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.of(living_people(), 10)


def test_periods_have_like_numbers_and_no_moment_is_cut(timeline: Timeline) -> None:
    sizes = np.bincount(timeline.periods)
    assert sizes.sum() == timeline.data.histories.n_interactions
    most_of_a_day = np.unique(timeline.times, return_counts=True)[1].max()
    assert np.abs(sizes - sizes.mean()).max() <= most_of_a_day
    for (_, end), (begin, _) in zip(timeline.span, timeline.span[1:], strict=False):
        assert end < begin


@settings(max_examples=40)
@given(histories(max_users=6, max_items=8), st.integers(0, 2**32 - 1))
def test_it_is_the_same_data_in_order(h: Histories, seed: int) -> None:
    times = np.random.default_rng(seed).integers(0, 5, h.n_interactions)
    data = Interactions("any", h, np.arange(h.n_users), np.arange(h.n_items), times)
    try:
        timeline = Timeline.of(data, 3)
    except DataError:
        return
    cut = dict(zip(timeline.times.tolist(), timeline.periods.tolist(), strict=True))
    assert sorted(cut.values()) == [cut[when] for when in sorted(cut)]
    touched = {
        (user, int(item)): int(when)
        for user, item, when in zip(h.users_of_entries(), h.indices, times, strict=True)
    }
    for until in range(3):
        size = int(timeline.catalogue_sizes[until])
        some = np.flatnonzero(timeline.joined <= until)
        found, when = timeline.so_far(some, until, size)
        rows = zip(some[found.users_of_entries()], timeline.rows[found.indices], strict=True)
        expected = {pair: at for pair, at in touched.items() if cut[at] <= until}
        assert dict(zip(rows, when, strict=True)) == expected
        assert len({item for _, item in expected}) == size
        assert timeline.arrival[:size].max(initial=0) <= until


def test_what_cannot_be_replayed_is_refused() -> None:
    data = living_people(20)
    with pytest.raises(DataError):
        Timeline.of(replace(data, timestamps=None), 5)
    with pytest.raises(SettingsError):
        Timeline.of(data, 2)
    with pytest.raises(DataError):
        Timeline.of(data, 500)
    with pytest.raises(SettingsError):
        Timeline.of(data, 5).switched(5, 0)


def test_a_switch_changes_what_comes_later_and_nothing_else(timeline: Timeline) -> None:
    at = 6
    moved = timeline.switched(at, seed=3)
    assert np.array_equal(moved.catalogue_sizes, timeline.catalogue_sizes)
    assert np.array_equal(moved.joined, timeline.joined)
    assert np.array_equal(moved.counts[:at], timeline.counts[:at])
    assert not np.array_equal(moved.counts[at:], timeline.counts[at:])
    everybody = np.arange(400)
    for until in range(at):
        before, after = (each.so_far(everybody, until, 60)[0] for each in (timeline, moved))
        assert np.array_equal(before.indices, after.indices)
    assert (np.diff(moved.histories[7]) > 0).all()
    assert moved.histories.n_interactions < timeline.histories.n_interactions


def test_a_switch_is_among_items_of_like_popularity() -> None:
    """So many items that there are ten groups, and nobody has an item that they get again."""
    n = 10 * ALIKE
    lists = [[item] for item in range(n) for _ in range(1 + item // ALIKE)]
    pairs = [*lists, *([[item] for item in range(n)])]
    early = len(lists)
    order = np.arange(len(pairs)) * DAY
    data = Interactions.from_lists("ladder", pairs, n)
    timeline = Timeline.of(replace(data, timestamps=order), 40)
    at = int(timeline.periods[early]) + 1
    ever = timeline.counts[:at].sum(axis=0)
    moved = timeline.switched(at, seed=0)
    late = np.flatnonzero(timeline.periods >= at)
    assert len(late) > 100
    assert (moved.histories.indices[late] != timeline.histories.indices[late]).mean() > 0.5
    pairs_of_items = zip(
        timeline.histories.indices[late], moved.histories.indices[late], strict=True
    )
    assert all(abs(int(ever[old] - ever[new])) <= 1 for old, new in pairs_of_items)
    assert np.array_equal(timeline.switched(at, seed=0).histories.indices, moved.histories.indices)
    assert not np.array_equal(
        timeline.switched(at, seed=1).histories.indices, moved.histories.indices
    )
