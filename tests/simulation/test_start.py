"""Public starts in a simulation: their files, their tables, and what they give."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core import Histories
from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import CheckpointError, DataError, NothingToLearnError, SettingsError
from sottovoce.simulation import FederatedMF, Simulation, simulate
from sottovoce.simulation.inputs import Labels
from sottovoce.simulation.start import (
    encode_start,
    learn_table_start,
    make_start,
    read_start,
    select_before,
)
from sottovoce.simulation.training import TrainingLog, start_training
from sottovoce.training import Budget, Settings, make_items_from_start, plan_training
from sottovoce.training.start import Provenance, Start

FILMS = 120
PEOPLE = synthetic_people(400, FILMS, seed=1)
# Other people with the same films.
VOLUNTEERS = synthetic_people(300, FILMS, seed=2)


def test_the_first_lists_are_good_before_anybody_reports() -> None:
    start = make_start(VOLUNTEERS, Labels(PEOPLE.item_ids))
    settings = Settings(epsilon=0.01, reports=1, epochs=1, factors=start.shape[1])
    with_start, without = (
        simulate(PEOPLE, Simulation(settings, engine="reference"), start=V).final["hr@10"]
        for V in (start, None)
    )
    # The reports are noise: what the lists know is from the start.
    assert with_start > without + 0.1


def test_a_model_of_the_start_alone_spends_next_to_nothing() -> None:
    with pytest.raises(NothingToLearnError) as caught:
        FederatedMF(start=VOLUNTEERS, mechanism="loudest", budget=1, verbose=False).fit(PEOPLE)
    assert caught.value.reason in str(caught.value)
    assert "epsilon 1e-06" not in caught.value.reason
    model = FederatedMF(
        start=VOLUNTEERS, epsilon=1e-6, reports=1, epochs=1, engine="reference", verbose=False
    ).fit(PEOPLE)
    start = make_start(VOLUNTEERS, Labels(PEOPLE.item_ids))
    first = make_items_from_start(model.settings, start)
    difference = model.item_factors @ model.item_factors.T - first @ first.T
    # After its epoch the model is rounded to eight significant bits.
    assert np.linalg.norm(difference) < 2**-8 * np.linalg.norm(first @ first.T)


def test_a_model_trains_from_a_table_and_from_a_file(tmp_path: Path) -> None:
    start = make_start(VOLUNTEERS, Labels(VOLUNTEERS.item_ids))
    provenance = Provenance("volunteers", 300, None, "published by themselves")
    file = tmp_path / "start.safetensors"
    ids = tuple(map(str, VOLUNTEERS.item_ids))
    file.write_bytes(encode_start(Start(start, ids, provenance)))
    assert read_start(file).provenance == provenance
    models = [
        FederatedMF(start=source, epochs=2, reports=10, engine="reference").fit(PEOPLE)
        for source in (VOLUNTEERS, file)
    ]
    assert np.array_equal(models[0].item_factors, models[1].item_factors)
    assert models[0].settings.factors == start.shape[1]
    assert "start=<Interactions>" in repr(models[0])
    models[0].save(tmp_path / "model")
    assert np.array_equal(FederatedMF.load(tmp_path / "model").item_factors, models[0].item_factors)
    with pytest.raises(CheckpointError, match="not a start"):
        read_start(tmp_path / "model")
    for size in (0, 7, 60, -1):
        with pytest.raises(CheckpointError):
            Start.decode(file.read_bytes()[:size])


def test_a_file_with_wrong_values_is_refused(tmp_path: Path) -> None:
    provenance = Provenance("t", 1, None, "CC0")
    good = Start(np.ones((2, 3), np.float32), ("1", "2"), provenance)
    raw, size = encode_start(good), int.from_bytes(encode_start(good)[:8], "little")
    header = raw[8 : 8 + size].replace(b'"shape":[2,3]', b'"shape":[2]')
    broken = [
        len(header).to_bytes(8, "little") + header + raw[8 + size :],
        encode_start(replace(good, V=good.V[:0], item_ids=())),
        encode_start(replace(good, V=good.V * np.float32(np.nan))),
        encode_start(replace(good, item_ids=("1", "1"))),
        encode_start(replace(good, provenance=replace(provenance, name="\x1b[2J"))),
        encode_start(replace(good, provenance=replace(provenance, people=0))),
    ]
    file = tmp_path / "start.safetensors"
    for content in broken:
        file.write_bytes(content)
        with pytest.raises(CheckpointError):
            read_start(file)


def test_times_that_are_not_in_seconds_are_refused() -> None:
    histories = Histories.from_lists([[0, 1]], 2)
    milliseconds = np.array([1_700_000_000_000, 5])
    data = Interactions("t", histories, np.arange(1), np.arange(2), milliseconds)
    with pytest.raises(DataError, match="Unix seconds"):
        learn_table_start(data, {"0": 0, "1": 1}, "t", "CC0")


def test_rows_of_a_start_follow_the_ids() -> None:
    V = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    start = Start(V, ("10", "20", "30"), Provenance("t", 1, None, "CC0"))
    for rows in (start.select_items([30, 40, 10]), start.select_matching_items(["30", "40", "10"])):
        assert rows.tolist() == [[5, 6], [0, 0], [1, 2]]
    assert not start.select_items([99]).any()
    with pytest.raises(DataError, match="none of the 1 items"):
        start.select_matching_items([99])


def test_only_what_is_older_is_used() -> None:
    histories = Histories.from_lists([[0, 1], [2]], 3)
    data = Interactions("t", histories, np.arange(2), np.arange(3), np.array([5, 9, 7]))
    assert select_before(data, 8).histories.indices.tolist() == [0, 2]
    assert select_before(data, 8).timestamps is not None
    assert make_start(data, Labels(data.item_ids), before=6)[1:].any() == np.False_


def test_a_checkpoint_of_another_start_is_refused(tmp_path: Path) -> None:
    settings = Settings(factors=2, epochs=3)
    V = np.ones((5, 2), np.float32)
    log = TrainingLog.open(settings, 5, tmp_path / "c", {}, V)
    assert np.array_equal(log.state.V, start_training(settings, 5, V).V)
    identity = log.identity
    assert identity is not None
    assert len(identity["start"]) == 64


@pytest.mark.parametrize("mechanism", ["loudest", "named"])
def test_a_plan_has_the_factors_of_the_start(mechanism: str) -> None:
    plan = plan_training(5_000, 300, start_factors=16, mechanism=mechanism, preset=mechanism)
    assert plan.factors == {"loudest": 16, "named": 17}[mechanism]
    for budget, expected in ((10, (16, 1.0)), (50, (16, 1.0)), (500, (27, 1.69))):
        large = plan_training(
            75_040, 9_781, start_factors=16, mechanism="loudest", budget=Budget(local=budget)
        )
        assert (large.factors, large.alpha) == expected
    with pytest.raises(NothingToLearnError):
        plan_training(500, 3_000, start_factors=16, budget=Budget(local=10.0))
    with pytest.raises(SettingsError, match="public start"):
        plan_training(5_000, 300, start_factors=16, preset="paper")
