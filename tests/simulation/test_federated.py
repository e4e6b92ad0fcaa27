from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import sottovoce
from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.core.recommending import Tag, popularity_of
from sottovoce.data import synthetic_people
from sottovoce.errors import CheckpointError, DataError, SettingsError
from sottovoce.simulation.files import ModelFile, write_model
from sottovoce.training import Budget, planned
from tests.people import random_people


@pytest.fixture(scope="module")
def matrix() -> sparse.csr_matrix:
    return synthetic_people(400, 120, seed=2).histories.to_csr()


def broken(row: sparse.csr_matrix) -> sparse.csr_matrix:
    row = row.copy()
    row.indptr = np.array([0, -1, row.nnz], row.indptr.dtype)[: len(row.indptr)]
    return row


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


def test_who_has_no_history_is_shown_what_is_popular(
    model: FederatedMF, matrix: sparse.csr_matrix
) -> None:
    popular = popularity_of(model.item_factors.astype(np.float64))
    items, scores = model.recommend(0, sparse.csr_matrix((1, 120)), N=5)
    assert items.tolist() == np.argsort(-popular, kind="stable")[:5].tolist()
    assert items.tolist() != [0, 1, 2, 3, 4]
    assert (scores > 0).all()
    touched = np.asarray(matrix.sum(axis=0)).ravel()
    assert touched[items].mean() > 1.5 * touched.mean()


def test_items_are_the_only_ones_that_are_ranked(
    model: FederatedMF, matrix: sparse.csr_matrix
) -> None:
    everything, scores = model.recommend(7, matrix[7], N=120)
    some = np.array([int(everything[30]), int(everything[3]), int(everything[9])])
    items, found = model.recommend(7, matrix[7], N=5, items=some)
    assert items.tolist() == [*everything[[3, 9, 30]].tolist(), -1, -1]
    assert np.array_equal(found[:3], scores[[3, 9, 30]])
    without = model.recommend(7, matrix[7], N=2, items=some, filter_items=[everything[3]])
    assert without[0].tolist() == everything[[9, 30]].tolist()


def test_one_row_of_a_sparse_array_is_one_person(
    model: FederatedMF, matrix: sparse.csr_matrix
) -> None:
    rows = sparse.csr_array(matrix)
    assert rows[7].ndim == 1
    assert np.array_equal(model.recommend(7, rows[7])[0], model.recommend(7, matrix[7])[0])


def test_an_item_is_most_similar_to_itself(model: FederatedMF) -> None:
    items, scores = model.similar_items(17, N=5)
    assert items[0] == 17
    assert scores[0] == pytest.approx(1, abs=1e-5)
    assert (np.diff(scores) <= 0).all()
    several, theirs = model.similar_items(np.array([3, 17]), N=5)
    assert several.shape == theirs.shape == (2, 5)
    assert np.array_equal(several[1], items)
    fewer, _ = model.similar_items(17, N=3, items=items[1:], filter_items=items[1:2])
    assert fewer.tolist() == items[2:5].tolist()


def test_with_one_factor_an_item_is_still_most_similar_to_itself(
    matrix: sparse.csr_matrix,
) -> None:
    model = FederatedMF(factors=1, epochs=1, reports=5).fit(matrix)
    everything = np.arange(120)
    assert np.array_equal(model.similar_items(everything, N=1)[0][:, 0], everything)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda model, row: model.recommend(0, row, items=[120]), r"items must be from 0 to 119"),
        (lambda model, row: model.recommend(0, row, filter_items=[-1]), "found -1"),
        (lambda model, row: model.recommend(-1, row), "userid must be at least 0"),
        (lambda model, row: model.recommend(np.nan, row), "userid must be a whole number"),
        (lambda model, row: model.recommend(np.zeros((1, 1), int), row), "one dimension"),
        (lambda model, row: model.recommend([[1], [2, 3]], row), "userid must be a whole number"),
        (lambda model, row: model.explain(0, row, [[1], [2, 3]]), "itemid must be a whole number"),
        (lambda model, row: model.recommend(0, broken(row)), "user_items is a damaged sparse"),
        (lambda model, row: model.evaluate(row, broken(row)), "test is a damaged sparse matrix"),
        (lambda model, row: model.privacy(delta=None), "delta must be a finite number, got None"),
        (lambda model, row: model.privacy(delta=1), "delta must be above 0 and below 1"),
        (lambda model, row: model.recommend(0, row, items=[0.5]), "items must be a whole"),
        (lambda model, row: model.recommend(0, row * np.nan), "NaN"),
        (lambda model, row: model.recommend(0, row.astype(complex)), "must hold numbers"),
        (lambda model, row: model.similar_items(120), r"itemid must be from 0 to 119, found 120"),
        (lambda model, row: model.similar_items([3, -2]), "found -2"),
        (lambda model, row: model.similar_items(True), "itemid must be a whole number"),
        (lambda model, row: model.explain(0, row, 120), "itemid must be from"),
        (lambda model, row: model.explain(0, row, [1, 2]), "one user and one item"),
        (lambda model, row: model.recommend(0, row, N=2.5), "N must be a whole number"),
        (lambda model, row: model.similar_items(1, N=0), "N must be a whole number"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(
    model: FederatedMF, matrix: sparse.csr_matrix, asked: Any, message: str
) -> None:
    with pytest.raises((DataError, SettingsError), match=message):
        asked(model, matrix[3].astype(float))


def test_numbers_of_numpy_will_do(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    items, _ = model.recommend(np.int64(7), matrix[7], N=np.int8(4))  # type: ignore[arg-type]
    assert items.tolist() == model.recommend(7, matrix[7], N=4)[0].tolist()
    assert model.similar_items(np.uint16(9), N=np.int32(1))[0].tolist() == [9]  # type: ignore[arg-type]
    assert model.privacy(np.int64(400)) == model.privacy(400)  # type: ignore[arg-type]


def test_a_score_is_explained_as_on_a_device(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    items, scores = model.recommend(7, matrix[7])
    score, reasons = model.explain(7, matrix[7], items[0])
    assert score == pytest.approx(float(scores[0]), rel=1e-4)
    assert 0 < len(reasons) <= 3
    assert {what for what, _ in reasons} <= set(matrix[7].indices.tolist())
    shares = [share for _, share in model.explain(7, matrix[7], items[0], N=1000)[1]]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert model.explain(0, sparse.csr_matrix((1, 120)), 3)[1] == []
    horror = [{"genre": ["Horror"]}] * 40 + [{"genre": ["Comedy"]}] * 80
    fan = sparse.csr_matrix((np.ones(9), ([0] * 9, range(9))), shape=(1, 120))
    _, tagged = model.explain(0, fan, 20, N=100, item_features=horror)
    assert Tag("genre", "Horror") in {what for what, _ in tagged}


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


def test_a_loaded_model_keeps_engine_and_tags(matrix: sparse.csr_matrix, tmp_path: Path) -> None:
    films = [{"genre": ["Horror"], "year": 1979 + row} for row in range(120)]
    model = FederatedMF(2, 1, reports=np.int64(9), threads=1, options={})  # type: ignore[arg-type]
    model.fit(matrix, item_features=films)
    model.save(tmp_path / "model.safetensors")
    loaded = FederatedMF.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == model.get_params()
    assert loaded.threads == 1
    for row in (1, 2, 3):
        assert np.array_equal(loaded.recommend(row, matrix[row]), model.recommend(row, matrix[row]))
    other = FederatedMF(2, 1, reports=9, engine="reference", engine_options={"batch": 7})
    other.fit(matrix).save(tmp_path / "other.safetensors")
    again = FederatedMF.load(tmp_path / "other.safetensors")
    assert (again.engine, again.engine_options) == ("reference", {"batch": 7})
    assert np.array_equal(other.item_factors, model.item_factors)


@pytest.mark.parametrize("damage", [{"parameters": {"gamma": 1}}, {"tags": [["genre", "Horror"]]}])
def test_a_model_file_with_other_contents_is_refused(
    model: FederatedMF, tmp_path: Path, damage: dict[str, Any]
) -> None:
    file = tmp_path / "model.safetensors"
    write_model(file, ModelFile(model.item_factors, model.settings, 3, damage))
    with pytest.raises(CheckpointError, match="cannot be read"):
        FederatedMF.load(file)


def test_a_model_from_elsewhere_trains_by_its_settings(
    model: FederatedMF, matrix: sparse.csr_matrix
) -> None:
    same = FederatedMF.from_items(model.item_factors, model.settings)
    assert same.fit(matrix).settings == model.settings
    assert np.array_equal(same.item_factors, model.item_factors)


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
    with pytest.raises(TypeError, match="gamma"):
        FederatedMF(gamma=1)  # type: ignore[call-arg]


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


def test_an_epoch_of_one_person_hides_nobody_and_the_statement_says_so() -> None:
    found = FederatedMF(2, 20, reports=1, lifetime=1).fit(random_people(30, 20, seed=2)).privacy()
    assert found.lifetime.central is None
    assert "an epoch may have no more than one person" in found.statement()


def test_any_number_of_people_is_accounted_for() -> None:
    model = FederatedMF(2, 2, reports=1).fit(random_people(30, 20, seed=2))
    central = model.privacy(10**12).lifetime.central
    assert central is not None
    assert 0 < central < 0.001


def test_nonsense_is_refused_before_any_data_is_read() -> None:
    with pytest.raises(SettingsError, match="epsilon must be"):
        FederatedMF(epsilon=-1.0)
    with pytest.raises(SettingsError, match="local budget must be from"):
        FederatedMF(budget=0)
    with pytest.raises(DataError, match="nobody to learn from"):
        FederatedMF().fit(Histories.from_lists([], 4))
