"""numpy and compiled loops: the same bits, and the candidates that were always drawn."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, initial_items
from sottovoce.data import Split
from sottovoce.simulation.evaluation import ranking, sample_candidates, wide_vectors
from tests.people import histories
from tests.simulation.evaluation.test_side_information import model_for

if TYPE_CHECKING:
    from collections.abc import Callable


GOLD = {3: "c5134ed6ba858201", 12: "7886a1aa347ce34b", 99: "95bde95a256fd302"}
"""By number of negatives, how the hash of the candidates of 1.0.0 begins."""


def both(ask: Callable[[], Any]) -> tuple[Any, Any]:
    found = []
    for seconds in (float("inf"), -1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranking, "NUMPY_FIRST", seconds)
            found.append(ask())
    return found[0], found[1]


@given(histories(max_items=20), st.integers(0, 2**32), st.integers(0, 6), st.booleans())
def test_vectors_with_tags(h: Histories, seed: int, columns: int, weighted: bool) -> None:
    model = model_for(h.n_items, seed, columns=columns)
    drawn = np.random.default_rng(seed).uniform(0.03, 1, h.n_interactions)
    plain, compiled = both(lambda: wide_vectors(model, h, drawn if weighted else None))
    assert np.array_equal(plain, compiled)


@given(histories(max_items=20), st.integers(0, 2**32), st.booleans(), st.integers(1, 25))
def test_places_and_lists(h: Histories, seed: int, tied: bool, length: int) -> None:
    X, V = initial_items(h.n_users, 3, 1.0, seed), initial_items(h.n_items, 3, 1.0, seed + 1)
    X, V = (np.round(X), np.round(V)) if tied else (X, V)
    nothing = Histories.from_lists([[]] * h.n_users, h.n_items)
    plain, compiled = both(lambda: ranking.rank_hidden(X, V, nothing, h))
    assert np.array_equal(plain.better, compiled.better)
    assert np.array_equal(plain.ties, compiled.ties)
    plain, compiled = both(lambda: ranking.best_untouched(X, V, h, length))
    assert np.array_equal(plain, compiled)


def test_candidates_are_those_of_every_version() -> None:
    h = Histories.from_lists([range(user % 41) for user in range(300)], 41)
    test = np.where(np.arange(300) % 41 < 40, 40, -1).astype(np.int32)
    split = Split(h, test, "random", 0)
    for negatives, expected in GOLD.items():
        items = sample_candidates(split, negatives, 2**63 + 5, 7).items
        assert hashlib.sha256(items.tobytes()).hexdigest().startswith(expected)
