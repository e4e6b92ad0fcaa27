from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sottovoce
from sottovoce import FederatedMF
from sottovoce.data import synthetic_people
from sottovoce.errors import CheckpointError, DataError, SettingsError
from sottovoce.model import Histories
from sottovoce.training import Budget, planned
from tests.people import random_people


@pytest.fixture(scope="module")
def matrix() -> sparse.csr_matrix:
    return synthetic_people(400, 120, seed=2).histories.to_csr()


@pytest.fixture(scope="module")
def model(matrix: sparse.csr_matrix) -> FederatedMF:
    return FederatedMF(factors=3, epochs=3, reports=50, seed=1).fit(matrix)


def test_recommend_ranks_what_was_not_seen(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    items, scores = model.recommend(7, matrix[7], N=10)
    assert items.shape == scores.shape == (10,)
    assert not set(items.tolist()) & set(matrix[7].indices.tolist())
    assert (np.diff(scores) <= 0).all()
    all_scores = model.user_vectors(matrix[7])[0] @ model.item_factors.T
    best = max(set(range(120)) - set(matrix[7].indices.tolist()), key=lambda i: all_scores[i])
    assert items[0] == best


def test_options_of_recommend(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    everything, _ = model.recommend(7, matrix[7], N=120, filter_already_liked_items=False)
    assert sorted(everything.tolist()) == list(range(120))
    top = int(model.recommend(7, matrix[7])[0][0])
    without, _ = model.recommend(7, matrix[7], filter_items=np.array([top]))
    assert top not in without.tolist()
    users = np.array([3, 9])
    several, scores = model.recommend(users, matrix[users], N=5)
    assert several.shape == scores.shape == (2, 5)
    assert np.array_equal(several[1], model.recommend(9, matrix[9], N=5)[0])


def test_many_users_at_once(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    everybody = np.tile(np.arange(400), 2)
    items, scores = model.recommend(everybody, matrix[everybody], N=3)
    assert items.shape == scores.shape == (800, 3)
    for user in (0, 399, 511, 512, 799):
        alone, _ = model.recommend(int(everybody[user]), matrix[everybody[user]], N=3)
        assert np.array_equal(items[user], alone)
    with pytest.raises(DataError, match="nobody"):
        model.recommend(np.array([], int), matrix[:0])


def test_too_few_items_left_end_with_minus_one(model: FederatedMF) -> None:
    seen = np.ones((1, 120))
    seen[0, :2] = 0
    items, scores = model.recommend(0, sparse.csr_matrix(seen), N=4)
    assert sorted(items[:2].tolist()) == [0, 1]
    assert items[2:].tolist() == [-1, -1]
    assert np.isneginf(scores[2:]).all()


def test_a_new_user_needs_no_training(model: FederatedMF) -> None:
    history = sparse.csr_matrix((np.ones(3), ([0, 0, 0], [4, 8, 15])), shape=(1, 120))
    before = model.item_factors.copy()
    items, _ = model.recommend(10**9, history)
    assert not {4, 8, 15} & set(items.tolist())
    assert np.array_equal(before, model.item_factors)


def test_an_item_is_most_similar_to_itself(model: FederatedMF) -> None:
    items, scores = model.similar_items(17, N=5)
    assert items[0] == 17
    assert scores[0] == pytest.approx(1, abs=1e-5)


def test_counts_above_one_are_interactions_like_others(matrix: sparse.csr_matrix) -> None:
    a = FederatedMF(factors=2, epochs=1, reports=5).fit(matrix)
    b = FederatedMF(factors=2, epochs=1, reports=5).fit(3 * matrix)
    assert np.array_equal(a.item_factors, b.item_factors)


def test_save_and_load(model: FederatedMF, matrix: sparse.csr_matrix, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    model.save(file)
    loaded = FederatedMF.load(file)
    assert loaded.settings == model.settings
    assert np.array_equal(loaded.item_factors, model.item_factors)
    assert np.array_equal(loaded.recommend(1, matrix[1])[0], model.recommend(1, matrix[1])[0])
    assert loaded.privacy(clients=400) == model.privacy()
    assert loaded.privacy().lifetime.central is None


@pytest.mark.parametrize("cut", [0, 7, 60, -1])
def test_a_damaged_model_file_is_refused(model: FederatedMF, tmp_path: Path, cut: int) -> None:
    file = tmp_path / "model.safetensors"
    model.save(file)
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        FederatedMF.load(file)


def test_somebody_elses_safetensors_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"item_matrix": np.zeros((2, 2), np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="not a model file"):
        FederatedMF.load(tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError):
        FederatedMF.load(tmp_path / "nothing.safetensors")


def test_errors_say_what_to_do(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    with pytest.raises(SettingsError, match="fit"):
        _ = FederatedMF().item_factors
    with pytest.raises(DataError, match=r"user_items\[userid\]"):
        model.recommend(0, matrix)
    with pytest.raises(DataError, match="120 items"):
        model.recommend(0, sparse.csr_matrix((1, 7)))
    with pytest.raises(DataError, match="sparse"):
        model.fit(np.ones((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="N must"):
        model.recommend(0, matrix[0], N=0)
    with pytest.raises(SettingsError, match="no such setting"):
        FederatedMF(gamma=1)


def test_the_callback_hears_of_every_epoch(matrix: sparse.csr_matrix) -> None:
    heard = []
    FederatedMF(factors=1, epochs=3, reports=2).fit(matrix, lambda epoch, _: heard.append(epoch))
    assert heard == [1, 2, 3]


def test_public_names() -> None:
    assert all(hasattr(sottovoce, name) for name in sottovoce.__all__)
    with pytest.raises(AttributeError):
        _ = sottovoce.nothing


def test_a_budget_plans_the_rest_when_people_and_items_are_known() -> None:
    h = random_people(300, 40, seed=2)
    model = FederatedMF(budget=8, factors=3)
    with pytest.raises(SettingsError, match="follow from the data"):
        _ = model.settings
    model.fit(h)
    typical = h.typical_length()
    expected = planned(300, 40, history=typical, budget=Budget(local=8), factors=3)
    assert model.settings == expected
    assert model.privacy().training <= 8
    hidden = FederatedMF(central_budget=2).fit(h)
    central = hidden.privacy().lifetime.central
    assert central is not None
    assert central <= 2


def test_turns_are_hidden_among_the_smallest_epoch_of_all() -> None:
    h = random_people(300, 40, seed=2)
    crowd = FederatedMF(2, 5, reports=1, lifetime=1).fit(h).privacy().crowd
    assert crowd is not None
    assert 30 < crowd.clients < 60


def test_nonsense_is_refused_before_any_data_is_read() -> None:
    with pytest.raises(SettingsError, match="epsilon must be"):
        FederatedMF(epsilon=-1.0)
    with pytest.raises(SettingsError, match="local budget must lie in"):
        FederatedMF(budget=0)
    with pytest.raises(DataError, match="nobody to learn from"):
        FederatedMF().fit(Histories.from_lists([], 4))
