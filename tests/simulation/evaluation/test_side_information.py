"""What devices recommend, for many people at once, equals the model of one device."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sottovoce.core import Histories, draw_initial_items
from sottovoce.core.recommending import WideModel, weigh_history
from sottovoce.core.tags import Tag, Tags, make_empty_tags
from sottovoce.data import Interactions, leave_one_out, synthetic_people
from sottovoce.errors import DataError
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce.simulation.evaluation.side_information import (
    SideInformation,
    rank_devices,
    solve_wide_vectors,
)
from sottovoce_lab.baselines.models import rank_scores
from tests.people import histories

N_FACTORS = 3


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(60, 80, seed=3)


def make_model(n_items: int, seed: int, *, columns: int = 6, new: int = 0) -> WideModel:
    rng = np.random.default_rng(seed)
    V = draw_initial_items(n_items, N_FACTORS, 0.3, seed)
    V[:, 0] += 0.2
    V[n_items - new :] = 0
    names = tuple(Tag("genre", str(number)) for number in range(columns))
    table = sparse.csr_array((rng.random((n_items, columns)) < 0.4).astype(float))
    return WideModel.from_model(V, Tags(names, table), alpha=4.0, regularization=0.1)


def solve_one_by_one(model: WideModel, h: Histories, weights: np.ndarray) -> np.ndarray:
    return np.array(
        [
            model.shares(h[user].tolist(), weights[h.indptr[user] : h.indptr[user + 1]]).sum(axis=1)
            for user in range(h.n_users)
        ]
    )


@given(histories(max_items=20), st.integers(0, 2**32), st.integers(0, 6), st.integers(0, 5))
def test_vectors_equal_those_of_the_model(h: Histories, seed: int, columns: int, new: int) -> None:
    model = make_model(h.n_items, seed, columns=columns, new=min(new, h.n_items))
    weights = np.random.default_rng(seed).uniform(0.03, 1, h.n_interactions)
    expected = solve_one_by_one(model, h, weights)
    vectors = solve_wide_vectors(model, h, weights)
    assert vectors.shape == (h.n_users, N_FACTORS + columns)
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)


def test_system_without_a_solution_gives_the_zero_vector() -> None:
    h = Histories.from_lists([[0, 1], []], 4)
    with np.errstate(all="ignore"):
        V = np.full((4, 2), np.inf, np.float32)
        model = WideModel.from_model(V, make_empty_tags(4), alpha=1.0, regularization=1e-6)
    assert not solve_wide_vectors(model, h).any()


class DeviceScorer:
    """The devices of all people, one after the other."""

    def __init__(self, model: WideModel, h: Histories, weights: np.ndarray):
        self.model, self.X = model, solve_one_by_one(model, h, weights)

    def score(self, users: np.ndarray) -> np.ndarray:
        return np.array([self.model.scores(self.X[user]) for user in users], np.float32)


@pytest.mark.parametrize("negatives", [0, 30])
@pytest.mark.parametrize("time", [True, False])
def test_ranks_equal_those_of_single_devices(
    people: Interactions, negatives: int, time: bool
) -> None:
    split = leave_one_out(people, "latest", 1)
    candidates = sample_candidates(split, negatives, 1)
    side_information = SideInformation.from_split(people, split, tags=True, time=time)
    V = draw_initial_items(80, N_FACTORS, 0.1, 4, head_start=3)
    model = WideModel.from_model(V, side_information.tags, alpha=4.0, regularization=0.1)
    weights = (
        np.ones(split.train.n_interactions)
        if side_information.weights is None
        else side_information.weights
    )
    expected = rank_scores(DeviceScorer(model, split.train, weights), candidates)
    for ranks in (
        rank_devices(model, candidates, side_information.weights),
        side_information.compute_ranks(V, candidates, alpha=4.0, regularization=0.1),
    ):
        # Two scores may be nearer to each other than float32 can tell, on some machine.
        assert len(ranks.better) == len(expected.better) > 50
        assert (ranks.better != expected.better).sum() <= 1


@pytest.mark.parametrize("rule", ["random", "latest"])
@pytest.mark.parametrize("time", [None, True, False])
def test_order_counts_by_default_where_the_latest_item_is_held_out(
    people: Interactions, rule: Any, time: bool | None
) -> None:
    split = leave_one_out(people, rule, 0)
    side_information = SideInformation.from_split(people, split, tags=False, time=time)
    assert (side_information.weights is not None) is (rule == "latest" if time is None else time)
    if side_information.weights is not None:
        assert split.times is not None
        first = slice(*split.train.indptr[:2])
        assert np.array_equal(side_information.weights[first], weigh_history(split.times[first]))


def test_missing_timestamps_are_refused_where_the_order_is_required(people: Interactions) -> None:
    timeless = replace(people, timestamps=None)
    split = leave_one_out(timeless, "random", 0)
    with pytest.raises(DataError):
        SideInformation.from_split(timeless, split, tags=True, time=True)
    assert SideInformation.from_split(timeless, split, tags=True, time=None).weights is None
