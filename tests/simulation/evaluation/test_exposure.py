from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import DataError
from sottovoce.simulation.evaluation import coverage, exposure, gini
from tests.people import histories

if TYPE_CHECKING:
    from sottovoce.core import Histories


@given(histories(max_items=15), st.integers(1, 6), st.integers(0, 2**32))
def test_exposure_is_that_of_sorted_lists(h: Histories, length: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 4, (h.n_users, h.n_items)).astype(np.float32)
    expected = np.zeros(h.n_items, np.int64)
    for user, row in enumerate(scores):
        left = np.setdiff1d(np.arange(h.n_items), h[user])
        expected[left[np.argsort(-row[left], kind="stable")][:length]] += 1
    everybody = np.eye(h.n_users, dtype=np.float32)
    found = exposure(everybody, np.ascontiguousarray(scores.T), h, length)
    assert np.array_equal(found, expected)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_gini_is_half_the_mean_difference_over_the_mean(counts: list[int]) -> None:
    exposed = np.array(counts)
    differences = np.abs(exposed[:, None] - exposed).mean()
    expected = differences / (2 * exposed.mean()) if any(counts) else 0.0
    assert gini(exposed) == pytest.approx(expected)
    assert coverage(exposed) == pytest.approx(np.mean(exposed > 0))


def test_an_empty_catalogue_is_refused() -> None:
    for measure in (coverage, gini):
        with pytest.raises(DataError, match="empty catalogue"):
            measure(np.empty(0, np.int64))
