"""Candidates, ranks and lists; numpy and a compiled loop solve the same vectors."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core import Histories, draw_initial_items, predict
from sottovoce.data import Interactions, Split, leave_one_out
from sottovoce.errors import SettingsError
from sottovoce.simulation.evaluation import side_information
from sottovoce.simulation.evaluation.ranking import rank_and_list, rank_factors, sample_candidates
from sottovoce.simulation.evaluation.side_information import solve_wide_vectors
from sottovoce_lab.baselines.models import rank_scores
from tests.people import histories, random_people
from tests.simulation.evaluation.test_side_information import make_model


def make_split(h: Histories, seed: int = 0) -> Split:
    data = Interactions("test", h, np.arange(h.n_users), np.arange(h.n_items))
    return leave_one_out(data, "random", seed)


class Matrix:
    """A model of all its scores."""

    def __init__(self, scores: np.ndarray):
        self.scores = scores

    def score(self, users: np.ndarray) -> np.ndarray:
        return np.asarray(self.scores[users])


class FactorScorer:
    """A factor model with the interface of any model."""

    def __init__(self, X: np.ndarray, V: np.ndarray):
        self.X, self.V = X, V

    def score(self, users: np.ndarray) -> np.ndarray:
        return predict(self.X[users][:, None, :], self.V[None])


@given(histories(max_items=30), st.integers(0, 40), st.integers(0, 2**63))
def test_negatives_are_distinct_and_untouched(h: Histories, wanted: int, seed: int) -> None:
    split = make_split(h)
    candidates = sample_candidates(split, wanted, seed)
    for user in range(h.n_users):
        drawn = [int(i) for i in candidates.items[user] if i >= 0]
        untouched = set(range(h.n_items)) - set(h[user].tolist())
        assert len(set(drawn)) == len(drawn) == min(wanted, len(untouched))
        assert set(drawn) <= untouched


def test_negatives_are_uniform_and_the_same_for_the_same_seed() -> None:
    # Chi-square over the 190 untouched items of 4,000 users: a false alarm is below 1e-7.
    h = Histories.from_lists([list(range(10))] * 4000, 200)
    split = make_split(h)
    drawn = sample_candidates(split, 20, 5).items
    counts = np.bincount(drawn.ravel(), minlength=200)
    assert not counts[:10].any()
    expected = drawn.size / 190
    chi_square = ((counts[10:] - expected) ** 2 / expected).sum()
    assert abs(chi_square - 189) < 6 * np.sqrt(2 * 189)
    assert np.array_equal(sample_candidates(split, 20, 5).items, drawn)
    assert not np.array_equal(sample_candidates(split, 20, 6).items, drawn)


@given(histories(max_users=8, max_items=25), st.sampled_from([0, 1, 5, 99]), st.booleans())
def test_factors_and_scores_give_the_same_ranks(h: Histories, negatives: int, tied: bool) -> None:
    split = make_split(h)
    candidates = sample_candidates(split, negatives, 3)
    X, V = draw_initial_items(h.n_users, 2, 1.0, 1), draw_initial_items(h.n_items, 2, 1.0, 2)
    if tied:
        X, V = np.round(X), np.round(V)
    fast = rank_factors(X, V, candidates)
    general = rank_scores(FactorScorer(X, V), candidates)
    assert np.array_equal(fast.better, general.better)
    assert np.array_equal(fast.ties, general.ties)
    counted = []
    for user in range(h.n_users):
        others = [int(item) for item in candidates.items[user] if item >= 0]
        if candidates.full:
            others = sorted(set(range(h.n_items)) - set(h[user].tolist()))
        if split.test[user] >= 0 and others:
            own = predict(X[user], V[split.test[user]])
            counted.append(sum(predict(X[user], V[item]) > own for item in others))
    assert fast.better.tolist() == counted


def test_users_who_cannot_be_tested_have_no_rank() -> None:
    # One has a single item, one has touched everything, one can be tested.
    h = Histories.from_lists([[0], [0, 1, 2], [0, 1]], 3)
    split = make_split(h)
    X, V = draw_initial_items(3, 1, 1.0, 1), draw_initial_items(3, 1, 1.0, 2)
    for negatives in (0, 99):
        ranks = rank_factors(X, V, sample_candidates(split, negatives, 0))
        assert len(ranks.better) == 1


# By number of negatives, the first digits of the hash of the candidates of version 1.0.0.
CANDIDATE_HASHES = {3: "c5134ed6ba858201", 12: "7886a1aa347ce34b", 99: "95bde95a256fd302"}


@given(histories(max_items=20), st.integers(0, 2**32), st.integers(0, 6), st.booleans())
@settings(max_examples=40)
def test_compiled_vectors_equal_those_of_numpy(
    h: Histories, seed: int, columns: int, weighted: bool
) -> None:
    model = make_model(h.n_items, seed, columns=columns)
    drawn = np.random.default_rng(seed).uniform(0.03, 1, h.n_interactions)
    weights = drawn if weighted else None
    solutions: list[np.ndarray] = []
    for max_numpy_seconds in (float("inf"), -1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(side_information, "MAX_NUMPY_SECONDS", max_numpy_seconds)
            solutions.append(solve_wide_vectors(model, h, weights))
    np.testing.assert_allclose(solutions[0], solutions[1], rtol=1e-5, atol=1e-7)


@given(histories(max_items=20), st.integers(0, 2**32), st.integers(0, 25))
@settings(max_examples=40)
def test_ranks_and_lists_are_those_of_sorted_scores(h: Histories, seed: int, length: int) -> None:
    own, hidden = (
        Histories.from_lists([h[user][start::2].tolist() for user in range(h.n_users)], h.n_items)
        for start in (0, 1)
    )
    scores = np.random.default_rng(seed).integers(0, 5, (h.n_users, h.n_items)).astype(np.float32)
    ranks, lists = rank_and_list(Matrix(scores), own, hidden, length)
    entry = 0
    for user, row in enumerate(scores):
        others = np.setdiff1d(np.arange(h.n_items), own[user])
        expected = others[np.argsort(-row[others], kind="stable")][:length]
        assert lists[user].tolist() == [*expected, *[-1] * (length - len(expected))]
        for item in hidden[user]:
            assert ranks.better[entry] == (row[others] > row[item]).sum()
            assert ranks.ties[entry] == (row[others] == row[item]).sum() - 1
            entry += 1
    assert entry == len(ranks.better)


@pytest.mark.parametrize("length", [1, 10, 100, 701])
@pytest.mark.parametrize("kinds", [2, 50, 10**6])
def test_lists_of_a_large_catalogue_are_sorted(length: int, kinds: int) -> None:
    scores = np.random.default_rng(length).integers(0, kinds, (70, 701)).astype(np.float32)
    _, lists = rank_and_list(Matrix(scores), Histories.from_lists([[]] * 70, 701), length=length)
    assert np.array_equal(lists, np.argsort(-scores, axis=1, kind="stable")[:, :length])


def test_candidates_are_those_of_version_1_0_0() -> None:
    h = Histories.from_lists([range(user % 41) for user in range(300)], 41)
    test = np.where(np.arange(300) % 41 < 40, 40, -1).astype(np.int32)
    split = Split(h, test, "random", 0)
    for negatives, expected in CANDIDATE_HASHES.items():
        items = sample_candidates(split, negatives, 2**63 + 5, 7).items
        assert hashlib.sha256(items.tobytes()).hexdigest().startswith(expected)


def test_loop_is_compiled_after_some_seconds_of_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_information, "MAX_NUMPY_SECONDS", 3.0)
    work, one = side_information.NumpyWork(), side_information.STEPS_PER_SECOND
    assert [work.is_worth_compiling(one) for _ in range(5)] == [False] * 3 + [True] * 2
    assert side_information.NumpyWork().is_worth_compiling(10 * one)
    monkeypatch.setattr(side_information, "find_spec", lambda _: None)
    assert not work.is_worth_compiling(10 * one)


def test_negative_number_of_negatives_is_refused() -> None:
    with pytest.raises(SettingsError):
        sample_candidates(make_split(random_people(3, 5)), -1, 0)
