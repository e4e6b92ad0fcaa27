"""Weights by the order of a history, against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories
from sottovoce.core.recommending import recency, recency_of

MOMENTS = st.lists(st.integers(-5, 20) | st.integers(-(2**62), 2**62), max_size=40)


def by_definition(moments: list[int]) -> list[float]:
    """With a later ones and b others at its own moment: 20 / (2 + a + b/2); 1 if there is one."""
    if len(set(moments)) == 1:
        return [1.0] * len(moments)
    kept = []
    for own in moments:
        later = sum(other > own for other in moments)
        others = moments.count(own) - 1
        kept.append(20 / (2 + later + others / 2))
    return kept


@given(MOMENTS)
def test_weights_are_those_of_the_definition(moments: list[int]) -> None:
    assert recency(np.array(moments, np.int64)) == pytest.approx(by_definition(moments), rel=1e-12)


@given(MOMENTS.filter(bool))
def test_a_later_one_never_weighs_less(moments: list[int]) -> None:
    weights = recency(np.array(moments, np.int64))
    assert (np.diff(weights[np.argsort(moments, kind="stable")]) >= 0).all()
    assert weights.min() > 0
    assert weights.max() <= 10


@given(MOMENTS, st.integers(1, 100))
def test_the_order_counts_and_not_the_age(moments: list[int], years: int) -> None:
    ranks = np.unique(np.array(moments, np.int64), return_inverse=True)[1]
    assert np.array_equal(recency(np.array(moments, np.int64)), recency(ranks * years))


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_one_moment_weighs_everything_alike(n: int) -> None:
    assert recency(np.full(n, 7)).tolist() == [1.0] * n


def test_two_later_items_halve_a_weight_and_a_little_is_left() -> None:
    weights = recency(np.arange(1_000))
    assert weights[[-1, -3, 0]] == pytest.approx([10, 5, 20 / 1_001])


@given(st.lists(MOMENTS | st.lists(st.integers(0, 2), max_size=5), max_size=6))
def test_many_histories_at_once_are_each_of_them(people: list[list[int]]) -> None:
    """Empty ones among them: first, last and in between."""
    histories = Histories.from_lists([list(range(len(one))) for one in people], 40)
    times = np.array([moment for one in people for moment in one], np.int64)
    alone = [recency(np.array(one, np.int64)) for one in people]
    expected = np.concatenate([np.zeros(0), *alone])
    assert np.array_equal(recency_of(histories, times), expected)


def test_the_last_time_of_one_history_is_not_the_first_of_the_next() -> None:
    """Though they are neighbours, and of the same moment of the clock."""
    histories = Histories.from_lists([[0, 1], [0, 1, 2], [], [1]], 3)
    weights = recency_of(histories, np.array([1, 5, 5, 5, 9, 9]))
    expected = [recency(np.array(one)) for one in ([1, 5], [5, 5, 9], [9])]
    assert np.array_equal(weights, np.concatenate(expected))
    assert weights[[1, 4, 5]].tolist() == [10, 10, 1]
