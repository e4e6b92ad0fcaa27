"""Leave one out, people who come late, and the random streams that decide."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sottovoce.data import Interactions, leave_one_out
from sottovoce.data.split import BEFORE, SplitRule
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation.evaluation.ranking import rank_factors, sample_candidates

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


@given(lists, st.lists(st.integers(0, 20), min_size=2, max_size=30), st.integers(0, 5))
def test_by_date_nothing_is_learnt_from_what_came_later(
    rows: list[list[int]], times: list[int], seed: int
) -> None:
    data = timed(rows, times)
    assert data.timestamps is not None
    assume(len(data.timestamps) > 0)
    date = np.quantile(data.timestamps, BEFORE, method="higher")
    assume((data.timestamps < date).any())
    split = leave_one_out(data, "date", seed)
    assert split.times is not None
    assert (split.times < date).all()
    for user, (begin, end) in enumerate(pairwise(data.histories.indptr)):
        items, when = data.histories[user], data.timestamps[begin:end]
        assert split.train[user].tolist() == items[when < date].tolist()
        later = when[when >= date]
        test = int(split.test[user])
        if len(later) and len(split.train[user]):
            assert when[items.tolist().index(test)] == later.min()
            assert split.not_competing[user].tolist() == items[items != test].tolist()
        else:
            assert test == -1
            assert split.not_competing[user].tolist() == items.tolist()


def test_by_date_what_comes_still_later_does_not_compete() -> None:
    people = timed([[0, 1, 2, 3, 4, 5]] * 10, [1])
    late = [1, 1, 1, 8, 9, 9, 1, 1, 1, 7, 8, 9]
    split = leave_one_out(replace(people, timestamps=np.array([*[1] * 48, *late])), "date", 0)
    assert split.test.tolist() == [-1] * 8 + [3, 3]
    assert split.train[9].tolist() == [0, 1, 2]
    drawn = sample_candidates(split, 99, 0)
    assert sorted(item for item in drawn.items[9].tolist() if item >= 0) == [6, 7, 8]
    everything = sample_candidates(split, 0, 0)
    above = np.arange(N_ITEMS, dtype=np.float32)[:, None]  # the later an item, the louder
    ranks = rank_factors(np.ones((10, 1), np.float32), above, everything)
    assert ranks.better.tolist() == [3, 3]


def test_what_cannot_be_split() -> None:
    bare = Interactions.from_lists("bare", [[0, 1]], 2)
    for data, rule in ((bare, "latest"), (bare, "date"), (timed([[0, 1], [1, 2]], [5]), "date")):
        with pytest.raises(DataError):
            leave_one_out(data, rule, 0)  # type: ignore[arg-type]  # a rule
    with pytest.raises(SettingsError):
        leave_one_out(bare, "oldest", 0)  # type: ignore[arg-type]  # on purpose
    for seed in (-1, 2**64):
        with pytest.raises(SettingsError):
            stream(seed, "split")


def test_seed_purpose_and_part_each_make_another_stream() -> None:
    streams = [stream(0, "split"), stream(1, "split"), stream(0, "users"), stream(0, "split", 1)]
    assert len({generator.integers(2**63) for generator in streams}) == 4
    assert stream(0, "split").integers(2**63) == stream(0, "split").integers(2**63)


def test_the_numbers_are_pinned() -> None:
    """A published split must stay what it was."""
    assert stream(0, "split").integers(0, 1000, 5).tolist() == [873, 388, 920, 525, 741]
