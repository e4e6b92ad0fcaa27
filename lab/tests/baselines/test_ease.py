"""EASE compared with its formula, column by column."""

import numpy as np
import pytest

from sottovoce.core import Histories
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.errors import SettingsError
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce_lab.baselines import EASE, ease
from sottovoce_lab.baselines.models import rank_for_tests, rank_scores

TINY = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 0]])
RIDGE = 0.7


def to_histories(dense: np.ndarray) -> Histories:
    indptr = np.concatenate([[0], np.cumsum(dense.sum(axis=1))])
    return Histories.from_arrays(indptr, np.nonzero(dense)[1], dense.shape[1])


def test_each_item_is_the_ridge_regression_on_the_others() -> None:
    model = EASE.fit(to_histories(TINY), ridge=RIDGE)
    for item in range(4):
        others = np.delete(np.arange(4), item)
        X = TINY[:, others].astype(float)
        weights = np.linalg.solve(X.T @ X + RIDGE * np.eye(3), X.T @ TINY[:, item])
        np.testing.assert_allclose(model.B[others, item], weights, atol=1e-6)
    assert np.all(np.diag(model.B) == 0)
    users = np.array([3, 1])
    np.testing.assert_allclose(model.score(users), TINY[users] @ model.B, atol=1e-6)


def test_ranks_for_several_tests_equal_the_ranks_of_each_test() -> None:
    split = leave_one_out(synthetic_people(n_users=300, n_items=40, seed=0), "random", 0)
    tests = [sample_candidates(split, few, 0) for few in (5, 0)]
    model = EASE.fit(split.train, ridge=10.0)
    for candidates, ranks in zip(tests, rank_for_tests(model, tests), strict=True):
        expected = rank_scores(model, candidates)
        assert np.array_equal(ranks.better, expected.better)
        assert np.array_equal(ranks.ties, expected.ties)


def test_a_wrong_ridge_and_too_many_items_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="ridge must be above 0, got 0"):
        EASE.fit(to_histories(TINY), ridge=0)
    monkeypatch.setattr(ease, "MAX_DENSE_ITEMS", 3)
    with pytest.raises(SettingsError, match="4 items are too many, at most 3"):
        EASE.fit(to_histories(TINY), ridge=1)
