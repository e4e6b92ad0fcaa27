"""Histories: conversions, checks and selections."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sottovoce.core import Histories
from sottovoce.errors import DataError
from tests.people import histories


@given(histories())
def test_csr_round_trip(h: Histories) -> None:
    copy = Histories.from_csr(h.to_csr())
    assert np.array_equal(copy.indptr, h.indptr)
    assert np.array_equal(copy.indices, h.indices)
    assert copy.n_items == h.n_items


@given(histories(), st.data())
def test_take_copies_the_chosen_users(h: Histories, data: st.DataObject) -> None:
    users = np.array(data.draw(st.lists(st.integers(0, h.n_users - 1), min_size=1)))
    taken = h.take(users)
    for position, user in enumerate(users):
        assert np.array_equal(taken[position], h[int(user)])


def test_items_are_sorted() -> None:
    h = Histories.from_arrays(np.array([0, 3, 4]), np.array([5, 1, 3, 0]), 6)
    assert h[0].tolist() == [1, 3, 5]


def test_values_above_zero_are_interactions() -> None:
    matrix = sparse.csr_matrix((np.array([3.0, 0.0, -1.0, 0.5]), ([0, 0, 1, 1], [0, 1, 0, 2])))
    h = Histories.from_csr(matrix)
    assert [h[0].tolist(), h[1].tolist()] == [[0], [2]]
    repeated = sparse.csr_matrix((np.ones(3), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert Histories.from_csr(repeated)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2], [0]), ([1, 2], [0, 1]), ([0, 2, 1], [0]), ([], []), ([0, 1], [7]), ([0, 1], [-1]),
        ([0, 2], [1, 1]),
    ],
)  # fmt: skip
def test_invalid_arrays_are_rejected(indptr: list[int], indices: list[int]) -> None:
    with pytest.raises(DataError):
        Histories.from_arrays(np.array(indptr, int), np.array(indices, int), 3)
    for value in (np.nan, np.inf):
        with pytest.raises(DataError):
            Histories.from_csr(sparse.csr_matrix([[value, 1.0]]))


def test_typical_length_has_two_digits() -> None:
    lists = [[*range(n)] for n in (3, 197, 250)]
    assert Histories.from_lists(lists, 300).typical_length() == 200
    assert Histories.from_lists([], 300).typical_length() == 0
