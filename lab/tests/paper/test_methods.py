"""Tests of what cells share: one training and one test, with the same numbers as separately."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.data import Interactions, synthetic_people
from sottovoce.simulation.training import TrainingState, start_training
from sottovoce.training import Settings
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Runner, methods
from sottovoce_lab.paper.cells import Size
from sottovoce_lab.paper.methods import CellContext, SharedResults
from sottovoce_lab.paper.runner import run_cell

SETTINGS = Settings.preset("loudest", epochs=2, reports=10, factors=2)
LEFT_OUT = Cell.from_settings("loudest", Size(), SETTINGS, 0)
BY_FIFTHS = replace(LEFT_OUT, measured="people")
WITH_TAGS = replace(LEFT_OUT, side_information=("tags",))
LATE_PEOPLE = replace(LEFT_OUT, measured="late")


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=60, n_items=40, seed=0)


def test_cells_with_equal_trainings() -> None:
    assert LEFT_OUT.training_cell == BY_FIFTHS.training_cell == WITH_TAGS.training_cell
    others = [LATE_PEOPLE, replace(LEFT_OUT, seed=1), replace(LEFT_OUT, split="latest")]
    assert all(other.training_cell != LEFT_OUT.training_cell for other in others)


def test_model_is_trained_once_and_dropped_after_its_last_use() -> None:
    shared, trainings = SharedResults([LEFT_OUT, BY_FIFTHS, LATE_PEOPLE]), []

    def train() -> np.ndarray:
        trainings.append(1)
        return np.ones((3, 2), np.float32)

    for cell in (LEFT_OUT, LATE_PEOPLE, BY_FIFTHS, BY_FIFTHS):
        shared.get_model(cell, train)
    # Everybody's, that of the late people, and one more after the last use that was announced.
    assert len(trainings) == 3


def test_shared_results_equal_separate_ones(
    tmp_path: Path, people: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [LEFT_OUT, BY_FIFTHS, WITH_TAGS, LATE_PEOPLE, replace(WITH_TAGS, split="latest")]
    separate = [run_cell(cell, CellContext(people, 1)) for cell in cells]
    started: list[int] = []

    def count_start(settings: Settings, n_items: int) -> TrainingState:
        started.append(n_items)
        return start_training(settings, n_items)

    monkeypatch.setattr(methods, "start_training", count_start)
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=1)
    store = CellStore.create(tmp_path, about)
    Runner(people, store, 1).run(cells)
    assert [store.get(cell) for cell in cells] == separate
    assert len(started) == 3


def test_test_is_prepared_once_for_a_split(people: Interactions) -> None:
    shared = SharedResults()
    first = shared.prepare_test(LEFT_OUT, people)
    assert shared.prepare_test(BY_FIFTHS, people) is first
    other = shared.prepare_test(replace(LEFT_OUT, seed=1), people)
    assert other is not first
    assert not np.array_equal(other.candidates.split.test, first.candidates.split.test)
    copy = replace(people)
    assert shared.prepare_test(replace(LEFT_OUT, seed=1), copy) is not other
