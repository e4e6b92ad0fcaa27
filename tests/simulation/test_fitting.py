"""`FederatedMF.fit`: checkpoints, callbacks, metrics, a bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sottovoce import FederatedMF
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.errors import CheckpointError, DataError
from sottovoce.simulation import Simulation, simulate

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
    before = file.read_bytes()
    done = FederatedMF(**SETTINGS).fit(TRAIN, checkpoint=file)
    assert np.array_equal(done.item_factors, whole.item_factors)
    assert file.read_bytes() == before


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    FederatedMF(**SETTINGS).fit(TRAIN, checkpoint=file)
    with pytest.raises(CheckpointError, match="another run"):
        FederatedMF(**{**SETTINGS, "seed": 4}).fit(TRAIN, checkpoint=file)
    with pytest.raises(CheckpointError, match="another run"):
        FederatedMF(**SETTINGS).fit(DATA.histories, checkpoint=file)
    with pytest.raises(CheckpointError, match="4 epochs already"):
        FederatedMF(**{**SETTINGS, "epochs": 3}, history=30).fit(
            TRAIN, checkpoint=_fitted(tmp_path / "short.safetensors")
        )


def _fitted(file: Path) -> Path:
    FederatedMF(**SETTINGS, history=30).fit(TRAIN, checkpoint=file)
    return file


def test_an_interrupted_model_is_that_of_its_last_epoch() -> None:
    model = FederatedMF(**SETTINGS)
    with pytest.raises(InterruptionError):
        model.fit(TRAIN, callback=stop_after(3))
    three = FederatedMF(**{**SETTINGS, "epochs": 3}).fit(TRAIN)
    assert np.array_equal(model.item_factors, three.item_factors)


def test_metrics_come_after_every_epoch() -> None:
    heard: list[dict[str, float]] = []
    model = FederatedMF(**SETTINGS)
    model.fit(TRAIN, test=TEST, callback=lambda _, __, metrics: heard.append(metrics))
    assert len(heard) == 4
    assert heard[-1] == model.evaluate(TRAIN, TEST)
    assert set(heard[-1]) == {"hr@10", "ndcg@10", "mrr@10", "recall@10", "coverage@10"}
    assert heard[0] != heard[-1]
    silent: list[dict[str, float]] = []
    FederatedMF(**SETTINGS).fit(TRAIN, callback=lambda *said: silent.append(said[2]))
    assert silent == [{}] * 4


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


def test_a_simulation_makes_lists_for_some_people_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.simulation.run.LISTED", 5)
    model = FederatedMF(**{**SETTINGS, "seed": 1000}).fit(TRAIN)
    run = simulate(DATA, Simulation(model.settings, tags=False, coverage=True))
    lists, _ = model.recommend(np.arange(5), TRAIN.to_csr()[:5])
    assert run.final["coverage@10"] == pytest.approx(len(np.unique(lists)) / 80)


def test_people_without_a_history_are_tested_on_what_is_popular() -> None:
    model = FederatedMF(**SETTINGS).fit(TRAIN)
    nobody = sparse.csr_matrix((1, 80))
    popular, _ = model.recommend(0, nobody)
    asked = sparse.csr_matrix((np.ones(1), ([0], [popular[2]])), shape=(1, 80))
    assert model.evaluate(nobody, asked)["mrr@10"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (sparse.csr_matrix((300, 79)), "shape of user_items"),
        (sparse.csr_matrix((300, 80)), "nothing to find"),
        (DATA.histories, "in both"),
        (np.ones((300, 80)), "test must be a sparse matrix"),
    ],
)
def test_what_cannot_be_tested_on_is_refused(test: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        FederatedMF(**SETTINGS).fit(TRAIN, test=test)


def test_a_bar_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    FederatedMF(**SETTINGS).fit(TRAIN)
    assert capsys.readouterr() == ("", "")
    FederatedMF(**SETTINGS).fit(TRAIN, test=TEST, show_progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "training  hr@10 0." in shown.err
    assert "100%" in shown.err


def test_a_continued_training_is_measured_on_the_present_test(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    other = sparse.csr_matrix(TEST.to_csr().multiply(np.arange(300)[:, None] < 40))
    films = [{"genre": ("odd",)} if item % 2 else {"genre": ("even",)} for item in range(80)]

    def heard(settings: dict[str, Any] = SETTINGS, **given: Any) -> list[dict[str, float]]:
        said: list[dict[str, float]] = []
        model = FederatedMF(**settings)
        model.fit(TRAIN, checkpoint=file, callback=lambda *each: said.append(each[2]), **given)
        if said[-1]:
            assert said[-1] == model.evaluate(TRAIN, given["test"])
        return said

    first = heard(test=TEST)
    assert heard(test=TEST) == first
    assert heard() == [{}] * 4
    changed = heard(test=other)
    assert changed[:3] == [{}] * 3
    assert changed[3]["hr@10"] != first[3]["hr@10"]
    tagged = heard(test=TEST, item_features=films)
    assert tagged[:3] == [{}] * 3
    assert tagged[3] != first[3]
    assert heard(test=TEST) == first
    longer = heard({**SETTINGS, "epochs": 5}, test=other)
    assert [bool(each) for each in longer] == [False, False, False, True, True]
    assert heard({**SETTINGS, "epochs": 5}, test=other) == longer
