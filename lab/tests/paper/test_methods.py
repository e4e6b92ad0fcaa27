"""What cells share: one training, one test, the same numbers as alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.data import Interactions, synthetic_people
from sottovoce.simulation.training import TrainingState, start_training
from sottovoce.training import Settings
from sottovoce_lab.paper import QUICK_SCALE, About, Cell, CellStore, Runner, methods
from sottovoce_lab.paper.cells import Size
from sottovoce_lab.paper.methods import CellContext, Shared
from sottovoce_lab.paper.runner import run_cell

SETTINGS = Settings.preset("loudest", epochs=2, reports=10, factors=2)
LEFT_OUT = Cell.from_settings("loudest", Size(), SETTINGS, 0)
PEOPLE = replace(LEFT_OUT, measured="people")
KNOWING = replace(LEFT_OUT, known=("tags",))
LATE = replace(LEFT_OUT, measured="late")


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=60, n_items=40, seed=0)


def test_who_is_trained_alike() -> None:
    assert LEFT_OUT.training_cell == PEOPLE.training_cell == KNOWING.training_cell
    others = [LATE, replace(LEFT_OUT, seed=1), replace(LEFT_OUT, split="latest")]
    assert all(other.training_cell != LEFT_OUT.training_cell for other in others)


def test_a_model_is_trained_once_and_not_kept_for_ever() -> None:
    shared, trained = Shared([LEFT_OUT, PEOPLE, LATE]), []

    def train() -> np.ndarray:
        trained.append(1)
        return np.ones((3, 2), np.float32)

    for cell in (LEFT_OUT, LATE, PEOPLE, PEOPLE):
        shared.model(cell, train)
    assert len(trained) == 3, "late people's, everybody's, and again when nobody waits for it"


def test_shared_results_are_those_of_each_alone(
    tmp_path: Path, people: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [LEFT_OUT, PEOPLE, KNOWING, LATE, replace(KNOWING, split="latest")]
    alone = [run_cell(cell, CellContext(people, 1)) for cell in cells]
    begun: list[int] = []

    def counted(settings: Settings, n_items: int) -> TrainingState:
        begun.append(n_items)
        return start_training(settings, n_items)

    monkeypatch.setattr(methods, "start_training", counted)
    about = About.from_data(people, "synthetic", min_interactions=0, scale=QUICK_SCALE, seeds=1)
    store = CellStore.create(tmp_path, about)
    Runner(people, store, 1).run(cells)
    assert [store.get(cell) for cell in cells] == alone
    assert len(begun) == 3


def test_a_test_is_prepared_once_for_a_split(people: Interactions) -> None:
    shared = Shared()
    first = shared.prepared(LEFT_OUT, people)
    assert shared.prepared(PEOPLE, people) is first
    other = shared.prepared(replace(LEFT_OUT, seed=1), people)
    assert other is not first
    assert not np.array_equal(other.candidates.split.test, first.candidates.split.test)
    same = replace(people)
    assert shared.prepared(replace(LEFT_OUT, seed=1), same) is not other, "of another data set"
