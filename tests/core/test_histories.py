from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sottovoce.core import Histories
from sottovoce.errors import DataError
from tests.people import histories, random_people


@given(histories())
def test_csr_round_trip(h: Histories) -> None:
    back = Histories.from_csr(h.to_csr())
    assert np.array_equal(back.indptr, h.indptr)
    assert np.array_equal(back.indices, h.indices)
    assert back.n_items == h.n_items


@given(histories(), st.data())
def test_take_is_what_it_says(h: Histories, data: st.DataObject) -> None:
    users = np.array(data.draw(st.lists(st.integers(0, h.n_users - 1), min_size=1)))
    taken = h.take(users)
    for position, user in enumerate(users):
        assert np.array_equal(taken[position], h[int(user)])


def test_unsorted_rows_are_sorted() -> None:
    h = Histories.from_arrays(np.array([0, 3, 4]), np.array([5, 1, 3, 0]), 6)
    assert h[0].tolist() == [1, 3, 5]


def test_values_above_zero_count_once_and_others_not() -> None:
    matrix = sparse.csr_matrix((np.array([3.0, 0.0, -1.0, 0.5]), ([0, 0, 1, 1], [0, 1, 0, 2])))
    h = Histories.from_csr(matrix)
    assert h[0].tolist() == [0]
    assert h[1].tolist() == [2]


def test_duplicates_of_a_matrix_collapse() -> None:
    matrix = sparse.csr_matrix((np.ones(3), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert Histories.from_csr(matrix)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [([0, 2], [0]), ([1, 2], [0, 1]), ([0, 2, 1], [0]), ([], []), ([0, 1], [7]), ([0, 1], [-1])],
)
def test_nonsense_is_refused(indptr: list[int], indices: list[int]) -> None:
    with pytest.raises(DataError):
        Histories.from_arrays(np.array(indptr, int), np.array(indices, int), 3)


def test_a_repeated_item_is_refused() -> None:
    with pytest.raises(DataError, match="repeats"):
        Histories.from_arrays(np.array([0, 2]), np.array([1, 1]), 3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(DataError, match="NaN"):
        Histories.from_csr(sparse.csr_matrix([[value, 1.0]]))


def test_a_typical_length_has_two_digits() -> None:
    lists = [[*range(n)] for n in (3, 197, 250)]
    assert Histories.from_lists(lists, 300).typical_length() == 200
    assert Histories.from_lists([], 300).typical_length() == 0


def test_popularity_counts_users() -> None:
    h = random_people(50, 7, seed=3)
    dense = h.to_csr().toarray()
    assert np.array_equal(h.popularity(), dense.sum(axis=0).astype(int))
