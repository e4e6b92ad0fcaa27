"""Leave one out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.data import Interactions, leave_one_out, load
from sottovoce.errors import DataError, SettingsError

if TYPE_CHECKING:
    from sottovoce.data.split import SplitRule

N_ITEMS = 9
lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), unique=True), min_size=1, max_size=15)


def timed(rows: list[list[int]], times: list[int]) -> Interactions:
    data = Interactions.from_lists("made up", rows, N_ITEMS)
    repeated = np.resize(np.array(times, np.int64), data.histories.n_interactions)
    return replace(data, timestamps=repeated)


@given(
    lists,
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.sampled_from(["random", "latest"]),
    st.integers(0, 5),
)
def test_training_and_test_make_up_the_history(
    rows: list[list[int]], times: list[int], rule: SplitRule, seed: int
) -> None:
    data = timed(rows, times)
    split = leave_one_out(data, rule, seed)
    for user in range(data.histories.n_users):
        whole, train, test = data.histories[user], split.train[user], split.test[user]
        if len(whole) < 2:
            assert test == -1
            assert train.tolist() == whole.tolist()
        else:
            assert test not in train
            assert sorted([*train.tolist(), int(test)]) == whole.tolist()


@given(lists, st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_latest_has_the_largest_timestamp(rows: list[list[int]], times: list[int]) -> None:
    data = timed(rows, times)
    assert data.timestamps is not None
    split = leave_one_out(data, "latest", 0)
    for user, (begin, end) in enumerate(
        zip(data.histories.indptr[:-1], data.histories.indptr[1:], strict=True)
    ):
        if end - begin >= 2:
            mine = data.timestamps[begin:end]
            place = data.histories[user].tolist().index(split.test[user])
            assert mine[place] == mine.max()


@pytest.mark.parametrize("rule", ["random", "latest"])
def test_every_candidate_is_equally_likely(rule: SplitRule) -> None:
    """5,000 users with items 0..3; in `latest` items 1 and 3 tie for the last place."""
    data = timed([[0, 1, 2, 3]] * 5000, [0, 7, 0, 7])
    counts = np.bincount(leave_one_out(data, rule, 1).test, minlength=4)
    expected = [1250] * 4 if rule == "random" else [0, 2500, 0, 2500]
    assert np.allclose(counts, expected, atol=200)  # more than 5 standard deviations


def test_the_seed_decides() -> None:
    data = load("ml-latest-small")
    first, again, other = (leave_one_out(data, "random", seed) for seed in (0, 0, 1))
    assert (first.test == again.test).all()
    assert (first.test != other.test).mean() > 0.9
    assert (first.rule, first.seed) == ("random", 0)


def test_types_are_those_of_histories() -> None:
    split = leave_one_out(load("ml-latest-small"), "latest", 0)
    arrays = (split.train.indptr, split.train.indices, split.test)
    assert [str(array.dtype) for array in arrays] == ["int64", "int32", "int32"]


def test_latest_needs_timestamps() -> None:
    data = Interactions.from_lists("bare", [[0, 1]], 2)
    with pytest.raises(DataError, match="bare has no timestamps: use the random split"):
        leave_one_out(data, "latest", 0)


def test_unknown_rule() -> None:
    data = Interactions.from_lists("bare", [[0, 1]], 2)
    with pytest.raises(SettingsError, match="'oldest'"):
        leave_one_out(data, "oldest", 0)  # type: ignore[arg-type]  # on purpose
