"""`FederatedMF`: training with checkpoints and metrics, lists, reasons, files, promises."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.core.recommending import Tag
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.errors import CheckpointError, DataError, SettingsError
from sottovoce.simulation import Simulation, simulate
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


def test_options_of_recommend(model: FederatedMF, matrix: sparse.csr_matrix) -> None:
    everything, _ = model.recommend(7, matrix[7], N=120, filter_already_liked_items=False)
    assert sorted(everything.tolist()) == list(range(120))
    same = model.recommend(np.int64(7), sparse.csr_array(3 * matrix)[7], N=np.int8(10))  # type: ignore[arg-type]
    assert np.array_equal(same[0], model.recommend(7, matrix[7], N=10)[0])
    top = int(model.recommend(7, matrix[7])[0][0])
    without, _ = model.recommend(7, matrix[7], filter_items=np.array([top]))
    assert top not in without.tolist()
    users = np.array([3, 9])
    several, scores = model.recommend(users, matrix[users], N=5)
    assert several.shape == scores.shape == (2, 5)
    assert np.array_equal(several[1], model.recommend(9, matrix[9], N=5)[0])


def test_too_few_items_left_end_with_minus_one(model: FederatedMF) -> None:
    seen = np.ones((1, 120))
    seen[0, :2] = 0
    items, scores = model.recommend(0, sparse.csr_matrix(seen), N=4)
    assert sorted(items[:2].tolist()) == [0, 1]
    assert items[2:].tolist() == [-1, -1]
    assert np.isneginf(scores[2:]).all()


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


def test_a_loaded_model_keeps_engine_and_tags(matrix: sparse.csr_matrix, tmp_path: Path) -> None:
    films = [{"genre": ["Horror"], "year": 1979 + row} for row in range(120)]
    model = FederatedMF(2, 1, reports=np.int64(9), threads=1, options={})  # type: ignore[arg-type]
    model.fit(matrix, item_features=films)
    model.save(tmp_path / "model.safetensors")
    loaded = FederatedMF.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == model.get_params()
    assert loaded.threads == 1
    assert loaded.settings == model.settings
    assert loaded.privacy(clients=400) == model.privacy()
    assert loaded.privacy().whole.central is None, "a file does not say how many there were"
    for row in (1, 2, 3):
        assert np.array_equal(loaded.recommend(row, matrix[row]), model.recommend(row, matrix[row]))
    other = FederatedMF(2, 1, reports=9, engine="reference", engine_options={"batch": 7})
    other.fit(matrix).save(tmp_path / "other.safetensors")
    again = FederatedMF.load(tmp_path / "other.safetensors")
    assert (again.engine, again.engine_options) == ("reference", {"batch": 7})
    assert np.array_equal(other.item_factors, model.item_factors)


def test_a_budget_plans_the_rest_when_people_and_items_are_known() -> None:
    h = random_people(300, 40, seed=2)
    model = FederatedMF(budget=8, factors=3)
    with pytest.raises(SettingsError):
        _ = model.settings
    model.fit(h)
    typical = h.typical_length()
    expected = planned(300, 40, history=typical, budget=Budget(local=8), factors=3)
    assert model.settings == expected
    assert model.privacy().whole.pure <= 8
    hidden = FederatedMF(central_budget=2).fit(h)
    central = hidden.privacy().whole.central
    assert central is not None
    assert central <= 2


def test_turns_are_hidden_among_the_smallest_epoch_of_all() -> None:
    h = random_people(300, 40, seed=2)
    crowd = FederatedMF(2, 5, reports=1, lifetime=1).fit(h).privacy().people
    assert crowd is not None
    assert 30 < crowd < 60
    alone = FederatedMF(2, 20, reports=1, lifetime=1).fit(random_people(30, 20, seed=2)).privacy()
    assert alone.whole.central is None, "an epoch of one person hides nobody"


DATA = synthetic_people(300, 80, seed=2)
SPLIT = leave_one_out(DATA, "random", seed=1000)
TRAIN, TEST = SPLIT.train, SPLIT.left_out
SETTINGS: dict[str, Any] = {"factors": 2, "epochs": 4, "reports": 20, "seed": 3}


class InterruptionError(Exception):
    pass


def stop_after(epochs: int) -> Any:
    def callback(epoch: int, seconds: float, metrics: dict[str, float]) -> None:
        if epoch == epochs:
            raise InterruptionError

    return callback


def test_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file, whole = tmp_path / "run.safetensors", FederatedMF(**SETTINGS).fit(TRAIN)
    with pytest.raises(InterruptionError):
        FederatedMF(**SETTINGS).fit(TRAIN, checkpoint=file, callback=stop_after(2))
    assert np.array_equal(
        FederatedMF.load(file).item_factors,
        FederatedMF(**SETTINGS).set_params(epochs=2).fit(TRAIN).item_factors,
    )
    heard: list[int] = []
    model = FederatedMF(**SETTINGS)
    model.fit(TRAIN, checkpoint=str(file), callback=lambda epoch, *_: heard.append(epoch))
    assert np.array_equal(model.item_factors, whole.item_factors)
    assert model.privacy() == whole.privacy()
    assert heard == [1, 2, 3, 4]
    with pytest.raises(CheckpointError):
        FederatedMF(**{**SETTINGS, "seed": 4}).fit(TRAIN, checkpoint=file)
    with pytest.raises(CheckpointError):
        FederatedMF(**SETTINGS).fit(DATA.histories, checkpoint=file)
    before = file.read_bytes()
    done = FederatedMF(**SETTINGS).fit(TRAIN, checkpoint=file)
    assert np.array_equal(done.item_factors, whole.item_factors)
    assert file.read_bytes() == before


def test_metrics_come_after_every_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[dict[str, float]] = []
    model = FederatedMF(**SETTINGS)
    model.fit(TRAIN, test=TEST, callback=lambda _, __, metrics: heard.append(metrics))
    assert len(heard) == 4
    assert heard[-1] == model.evaluate(TRAIN, TEST)
    assert set(heard[-1]) == {"hr@10", "ndcg@10", "mrr@10", "recall@10", "coverage@10"}
    assert heard[0] != heard[-1]
    assert capsys.readouterr() == ("", "")
    silent: list[dict[str, float]] = []
    said = FederatedMF(**SETTINGS)
    said.fit(TRAIN, callback=lambda *told: silent.append(told[2]), show_progress=True)
    assert silent == [{}] * 4
    shown = capsys.readouterr()
    assert (shown.out, "100%" in shown.err) == ("", True)


def test_metrics_are_those_of_simulate_and_of_the_lists() -> None:
    """One item left out of each, against the whole catalogue."""
    model = FederatedMF(**SETTINGS).fit(TRAIN)
    found = model.evaluate(TRAIN, TEST)
    lists, _ = model.recommend(np.arange(300), TRAIN.to_csr())
    tested = SPLIT.test >= 0
    hit = (lists == SPLIT.test[:, None])[tested]
    places = np.where(hit.any(axis=1), hit.argmax(axis=1), np.inf)
    assert found["hr@10"] == found["recall@10"] == pytest.approx(hit.any(axis=1).mean())
    assert found["mrr@10"] == pytest.approx((1 / (1 + places)).mean())
    assert found["ndcg@10"] == pytest.approx((1 / np.log2(2 + places)).mean())
    assert found["coverage@10"] == pytest.approx(len(np.unique(lists)) / 80)
    settings = model.settings.changed(seed=1000)
    again = FederatedMF.from_items(model.item_factors, settings).fit(TRAIN).evaluate(TRAIN, TEST)
    run = simulate(DATA, Simulation(settings, negatives=0, tags=False, coverage=True)).final
    names = ("hr@10", "ndcg@10", "mrr@10", "coverage@10")
    assert [again[name] for name in names] == pytest.approx([run[name] for name in names])


@pytest.mark.parametrize(
    "asked",
    [
        lambda model, row: model.recommend(0, row, items=[120]),
        lambda model, row: model.recommend(0, row, items=[0.5]),
        lambda model, row: model.recommend(0, row, filter_items=[-1]),
        lambda model, row: model.recommend(-1, row),
        lambda model, row: model.recommend(np.nan, row),
        lambda model, row: model.recommend(np.zeros((1, 1), int), row),
        lambda model, row: model.recommend([[1], [2, 3]], row),
        lambda model, row: model.recommend(np.array([], int), row[:0]),
        lambda model, row: model.recommend(0, broken(row)),
        lambda model, row: model.recommend(0, row * np.nan),
        lambda model, row: model.recommend(0, row.astype(complex)),
        lambda model, row: model.recommend(0, row, N=2.5),
        lambda model, row: model.recommend(0, sparse.vstack([row, row])),
        lambda model, row: model.recommend(0, row[:, :7]),
        lambda model, row: model.similar_items([3, -2]),
        lambda model, row: model.similar_items(120),
        lambda model, row: model.similar_items(True),
        lambda model, row: model.similar_items(1, N=0),
        lambda model, row: model.explain(0, row, 120),
        lambda model, row: model.explain(0, row, [1, 2]),
        lambda model, row: model.explain(0, row, [[1], [2, 3]]),
        lambda model, row: model.evaluate(row, broken(row)),
        lambda model, row: model.privacy(delta=None),
        lambda model, row: model.privacy(delta=1),
        lambda model, row: model.fit(row.toarray()),
        lambda model, row: FederatedMF().fit(Histories.from_lists([], 4)),
        lambda model, row: FederatedMF().item_factors,
    ],
)
def test_what_cannot_be_asked_is_refused(
    model: FederatedMF, matrix: sparse.csr_matrix, asked: Any
) -> None:
    with pytest.raises((DataError, SettingsError)):
        asked(model, matrix[3].astype(float))


@pytest.mark.parametrize(
    "test",
    [
        sparse.csr_matrix((300, 79)),
        sparse.csr_matrix((300, 80)),
        DATA.histories,
        np.ones((300, 80)),
    ],
    ids=["another shape", "nothing to find", "what was trained on", "not sparse"],
)
def test_what_cannot_be_tested_on_is_refused(test: Any) -> None:
    with pytest.raises(DataError):
        FederatedMF(**SETTINGS).fit(TRAIN, test=test)
