"""Leave-one-out splits, and the random streams that they use."""

import datetime as dt
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sottovoce.data import Interactions, leave_one_out, leave_out, load, split_by_time
from sottovoce.data.interactions import to_object_array
from sottovoce.data.split import MAX_FRACTION_BEFORE, SplitRule
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation.evaluation.ranking import rank_factors, sample_candidates

N_ITEMS = 9
lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), unique=True), min_size=1, max_size=15)


def make_data(rows: list[list[int]], times: list[int]) -> Interactions:
    data = Interactions.from_lists("made up", rows, N_ITEMS)
    repeated = np.resize(np.array(times, np.int64), data.histories.n_interactions)
    return replace(data, timestamps=repeated)


@given(
    lists,
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.sampled_from(["random", "latest"]),
    st.integers(0, 5),
)
def test_training_and_test_together_are_the_history(
    rows: list[list[int]], times: list[int], rule: SplitRule, seed: int
) -> None:
    data = make_data(rows, times)
    split = leave_one_out(data, rule, seed)
    for user in range(data.histories.n_users):
        history, train, test = data.histories[user], split.train[user], split.test[user]
        if len(history) < 2:
            assert test == -1
            assert train.tolist() == history.tolist()
        else:
            assert test not in train
            assert sorted([*train.tolist(), int(test)]) == history.tolist()


@given(lists, st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_latest_item_has_the_largest_timestamp(rows: list[list[int]], times: list[int]) -> None:
    data = make_data(rows, times)
    assert data.timestamps is not None
    split = leave_one_out(data, "latest", 0)
    for user, (begin, end) in enumerate(
        zip(data.histories.indptr[:-1], data.histories.indptr[1:], strict=True)
    ):
        if end - begin >= 2:
            times_of_user = data.timestamps[begin:end]
            place = data.histories[user].tolist().index(split.test[user])
            assert times_of_user[place] == times_of_user.max()


@pytest.mark.parametrize("rule", ["random", "latest"])
def test_test_items_are_drawn_uniformly(rule: SplitRule) -> None:
    """Split 5,000 users with items 0..3, of which 1 and 3 are equally late."""
    data = make_data([[0, 1, 2, 3]] * 5000, [0, 7, 0, 7])
    counts = np.bincount(leave_one_out(data, rule, 1).test, minlength=4)
    expected = [1250] * 4 if rule == "random" else [0, 2500, 0, 2500]
    assert np.allclose(counts, expected, atol=200)  # more than 5 standard deviations


@given(lists, st.lists(st.integers(0, 20), min_size=2, max_size=30), st.integers(0, 5))
def test_split_by_date_trains_only_on_earlier_interactions(
    rows: list[list[int]], times: list[int], seed: int
) -> None:
    data = make_data(rows, times)
    assert data.timestamps is not None
    assume(len(data.timestamps) > 0)
    # Some interactions must lie before the date, or there is no split.
    date = np.quantile(data.timestamps, MAX_FRACTION_BEFORE, method="higher")
    assume((data.timestamps < date).any())
    split = leave_one_out(data, "date", seed)
    assert split.times is not None
    assert (split.times < date).all()
    for user, (begin, end) in enumerate(pairwise(data.histories.indptr)):
        items, times_of_user = data.histories[user], data.timestamps[begin:end]
        assert split.train[user].tolist() == items[times_of_user < date].tolist()
        later = times_of_user[times_of_user >= date]
        test = int(split.test[user])
        if len(later) and len(split.train[user]):
            assert times_of_user[items.tolist().index(test)] == later.min()
            assert split.excluded_from_ranking[user].tolist() == items[items != test].tolist()
        else:
            assert test == -1
            assert split.excluded_from_ranking[user].tolist() == items.tolist()


def test_split_by_date_does_not_rank_against_later_items_of_the_user() -> None:
    people = make_data([[0, 1, 2, 3, 4, 5]] * 10, [1])
    # Only the last two users have interactions after the date.
    late = [1, 1, 1, 8, 9, 9, 1, 1, 1, 7, 8, 9]
    split = leave_one_out(replace(people, timestamps=np.array([*[1] * 48, *late])), "date", 0)
    assert split.test.tolist() == [-1] * 8 + [3, 3]
    assert split.train[9].tolist() == [0, 1, 2]
    drawn = sample_candidates(split, 99, 0)
    assert sorted(item for item in drawn.items[9].tolist() if item >= 0) == [6, 7, 8]
    everything = sample_candidates(split, 0, 0)
    above = np.arange(N_ITEMS, dtype=np.float32)[:, None]  # a higher number has a higher score
    ranks = rank_factors(np.ones((10, 1), np.float32), above, everything)
    assert ranks.better.tolist() == [3, 3]


def test_impossible_splits_are_refused() -> None:
    # No timestamps; or timestamps that are all equal.
    bare = Interactions.from_lists("bare", [[0, 1]], 2)
    for data, rule in (
        (bare, "latest"),
        (bare, "date"),
        (make_data([[0, 1], [1, 2]], [5]), "date"),
    ):
        with pytest.raises(DataError):
            leave_one_out(data, rule, 0)  # type: ignore[arg-type]  # a rule
    with pytest.raises(SettingsError):
        leave_one_out(bare, "oldest", 0)  # type: ignore[arg-type]  # on purpose
    for seed in (-1, 2**64):
        with pytest.raises(SettingsError):
            stream(seed, "split")


def test_seed_purpose_and_counter_each_select_another_stream() -> None:
    streams = [stream(0, "split"), stream(1, "split"), stream(0, "users"), stream(0, "split", 1)]
    assert len({generator.integers(2**63) for generator in streams}) == 4
    assert stream(0, "split").integers(2**63) == stream(0, "split").integers(2**63)


def test_numbers_of_a_stream_are_pinned() -> None:
    """Published splits must not change."""
    assert stream(0, "split").integers(0, 1000, 5).tolist() == [873, 388, 920, 525, 741]


@pytest.mark.parametrize("rule", ["random", "latest"])
def test_leave_out_takes_n_items_of_those_who_have_more(rule: Any) -> None:
    data = replace(
        make_data([[0, 1, 2, 3], [1, 2], [0, 3, 4]], [5, 9, 8, 9, 1, 2, 3, 3, 3]),
        user_ids=to_object_array(["ann", "bob", "cem"]),
    )
    train, test = leave_out(data, 2, rule, seed=4)
    assert [len(test.histories[user]) for user in range(3)] == [2, 0, 2]
    assert (train.user_ids.tolist(), test.item_ids.tolist()) == (
        ["ann", "bob", "cem"],
        [*range(N_ITEMS)],
    )
    for user in range(3):
        parts = [*train.histories[user], *test.histories[user]]
        assert sorted(parts) == data.histories[user].tolist()
    if rule == "latest":
        assert test.histories[0].tolist() == [1, 3]
        assert test.timestamps is not None
        assert test.timestamps[:2].tolist() == [9, 9]
    table = data.to_frame()
    assert leave_out(table, 2, rule, seed=4)[1].histories.indices.tolist() == (
        test.histories.indices.tolist()
    )
    one = leave_one_out(data, rule, seed=4)
    assert np.array_equal(leave_out(data, 1, rule, seed=4)[1].histories.indices, one.test)
    for wrong in ((0, "random"), (1, "date")):
        with pytest.raises(SettingsError):
            leave_out(data, *wrong)


def test_leave_out_draws_every_item_equally_often() -> None:
    """Leave each of 4 items out with probability 1/2; a false alarm has one below 1e-9."""
    _, test = leave_out(make_data([[0, 1, 2, 3]] * 5000, [0]), 2)
    counts = test.histories.popularity()
    assert (abs(counts[:4] - 2500) < 6.5 * (5000 / 4) ** 0.5).all()


def test_rows_of_a_table_are_split_before_repeated_ones_are_merged() -> None:
    rows = {
        "user": ["ann", "ann", "ann", "bob", "cem"],
        "item": ["tea", "tea", "pot", "tea", "pot"],
        "time": [1, 8, 9, 2, 9],
    }
    train, test = split_by_time(rows, since=5, repurchases=True)
    assert train.to_frame().rows() == [("ann", "tea", 1), ("bob", "tea", 2)]
    assert test.to_frame().rows() == [("ann", "pot", 9), ("ann", "tea", 8)]
    # Without repurchases the latest row of a pair counts.
    train, test = split_by_time(rows, since=5)
    assert train.to_frame().rows() == [("bob", "tea", 2)]
    assert test.n_interactions == 0
    for since in ("1970-01-01T00:00:05", dt.datetime(1970, 1, 1, 0, 0, 5)):
        assert split_by_time(rows, since=since)[0].to_frame().rows() == [("bob", "tea", 2)]
    with pytest.raises(DataError, match="2025-08-01"):
        split_by_time(rows, since="soon")
    with pytest.raises(DataError, match="DataFrame"):
        split_by_time(load(rows), since=5, repurchases=True)
