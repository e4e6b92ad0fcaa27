"""A data set in the order of its days."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.replay.living import DAY_SECONDS, make_living_people
from sottovoce.core import Histories
from sottovoce.data import Interactions
from sottovoce.errors import DataError, SettingsError
from sottovoce_lab.replay.cases import select_cases
from sottovoce_lab.replay.timeline import ITEMS_PER_SWITCH_GROUP, SECONDS_PER_DAY, Timeline
from tests.people import histories


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.from_data(make_living_people(), 10)


def test_periods_have_similar_numbers_and_whole_moments(timeline: Timeline) -> None:
    sizes = np.bincount(timeline.periods)
    assert sizes.sum() == timeline.data.histories.n_interactions
    largest_moment = np.unique(timeline.times, return_counts=True)[1].max()
    assert np.abs(sizes - sizes.mean()).max() <= largest_moment
    for (_, end), (begin, _) in zip(timeline.span, timeline.span[1:], strict=False):
        assert end < begin


@settings(max_examples=40)
@given(histories(max_users=6, max_items=8), st.integers(0, 2**32 - 1))
def test_a_timeline_has_the_same_interactions(h: Histories, seed: int) -> None:
    times = np.random.default_rng(seed).integers(0, 5, h.n_interactions)
    data = Interactions("any", h, np.arange(h.n_users), np.arange(h.n_items), times)
    try:
        timeline = Timeline.from_data(data, 3)
    except DataError:
        return
    period_of = dict(zip(timeline.times.tolist(), timeline.periods.tolist(), strict=True))
    assert sorted(period_of.values()) == [period_of[time] for time in sorted(period_of)]
    touched = {
        (user, int(item)): int(time)
        for user, item, time in zip(h.users_of_entries(), h.indices, times, strict=True)
    }
    for until in range(3):
        size = int(timeline.catalogue_sizes[until])
        joined = np.flatnonzero(timeline.joined <= until)
        so_far, moments = timeline.collect_histories(joined, until, slice(0, size))
        rows = zip(joined[so_far.users_of_entries()], timeline.rows[so_far.indices], strict=True)
        expected = {pair: time for pair, time in touched.items() if period_of[time] <= until}
        assert dict(zip(rows, moments, strict=True)) == expected
        assert len({item for _, item in expected}) == size
        assert timeline.arrival[:size].max(initial=0) <= until


def test_wrong_data_and_periods_are_refused() -> None:
    data = make_living_people(20)
    with pytest.raises(DataError):
        Timeline.from_data(replace(data, timestamps=None), 5)
    with pytest.raises(SettingsError):
        Timeline.from_data(data, 2)
    with pytest.raises(DataError):
        Timeline.from_data(data, 500)
    with pytest.raises(SettingsError):
        Timeline.from_data(data, 5).switch_tastes(5, 0)


def test_a_switch_changes_only_later_periods(timeline: Timeline) -> None:
    at = 6
    moved = timeline.switch_tastes(at, seed=3)
    assert np.array_equal(moved.catalogue_sizes, timeline.catalogue_sizes)
    assert np.array_equal(moved.joined, timeline.joined)
    assert np.array_equal(moved.counts[:at], timeline.counts[:at])
    assert not np.array_equal(moved.counts[at:], timeline.counts[at:])
    everybody = np.arange(400)
    for until in range(at):
        before, after = (
            either.collect_histories(everybody, until, slice(0, 60))[0]
            for either in (timeline, moved)
        )
        assert np.array_equal(before.indices, after.indices)
    assert (np.diff(moved.histories[7]) > 0).all()
    assert moved.histories.n_interactions < timeline.histories.n_interactions


def test_a_switch_is_among_items_of_similar_popularity() -> None:
    # There are ten groups of items, and nobody receives an item that they have already.
    n = 10 * ITEMS_PER_SWITCH_GROUP
    lists = [[item] for item in range(n) for _ in range(1 + item // ITEMS_PER_SWITCH_GROUP)]
    pairs = [*lists, *([[item] for item in range(n)])]
    early = len(lists)
    times = np.arange(len(pairs)) * DAY_SECONDS
    data = Interactions.from_lists("ladder", pairs, n)
    timeline = Timeline.from_data(replace(data, timestamps=times), 40)
    at = int(timeline.periods[early]) + 1
    ever = timeline.counts[:at].sum(axis=0)
    moved = timeline.switch_tastes(at, seed=0)
    late = np.flatnonzero(timeline.periods >= at)
    assert len(late) > 100
    assert (moved.histories.indices[late] != timeline.histories.indices[late]).mean() > 0.5
    pairs_of_items = zip(
        timeline.histories.indices[late], moved.histories.indices[late], strict=True
    )
    assert all(abs(int(ever[old] - ever[new])) <= 1 for old, new in pairs_of_items)
    again, other = (timeline.switch_tastes(at, seed=seed).histories for seed in (0, 1))
    assert np.array_equal(again.indices, moved.histories.indices)
    assert not np.array_equal(other.indices, moved.histories.indices)


def test_items_leave_the_catalogue_after_their_last_day() -> None:
    data = make_living_people()
    whole = Timeline.from_data(data, 10)
    days = (int(whole.times.max()) - int(whole.times.min())) / SECONDS_PER_DAY
    timeline = Timeline.from_data(data, 10, max_age=days / 3)
    begins = [first for first, _ in timeline.span]
    for period, window in enumerate(timeline.windows):
        listed = [
            item
            for item in range(int(timeline.catalogue_sizes[period]))
            if begins[timeline.arrival[item]] >= begins[period] - timeline.max_age * SECONDS_PER_DAY
        ]
        assert listed == list(range(window.start, window.stop))
    everybody, last = np.arange(timeline.histories.n_users), timeline.windows[-1]
    assert last.start > 0
    own, _ = timeline.collect_histories(everybody, 9, last)
    both, _ = whole.collect_histories(everybody, 9, whole.windows[-1])
    is_kept = both.indices >= last.start
    assert np.array_equal(own.indices, both.indices[is_kept] - last.start)
    cases = select_cases(timeline, 9, 1_000, 5, 0)
    assert cases.split.train.n_items == last.stop - last.start
    assert (cases.split.test >= 0).all()
    assert (timeline.arrival[cases.split.test + last.start] == 9 - cases.age).all()
