"""`FederatedMF` as scikit-learn knows models."""

from __future__ import annotations

import copy
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
import pytest

from sottovoce import FederatedMF
from sottovoce.errors import SettingsError
from sottovoce.settings import stated
from sottovoce.simulation.parameters import NOT_OF_TRAINING
from sottovoce.training import Settings, all_presets
from tests.people import random_people

PEOPLE = random_people(60, 20, seed=2)
GIVEN: dict[str, Any] = {
    "factors": np.int64(2),
    "epochs": np.int8(2),
    "epsilon": np.float32(2.5),
    "reports": np.uint16(3),
    "seed": np.int32(4),
    "rotate": np.bool_(True),
    "history": np.float64(5.0),
    "engine_options": {"threads": np.int64(1)},
}


def test_every_setting_of_a_training_is_an_argument_of_its_type() -> None:
    arguments = signature(FederatedMF).parameters
    known = stated(Settings)
    assert set(arguments) - set(NOT_OF_TRAINING) == set(known)
    for name, each in known.items():
        kind = each.kind.__name__
        assert arguments[name].annotation == (kind if name == "seed" else f"{kind} | None"), name
        assert arguments[name].default == (0 if name == "seed" else None), name


def test_parameters_are_kept_as_they_were_given() -> None:
    model = FederatedMF(**GIVEN)
    assert set(model.get_params()) == set(signature(FederatedMF).parameters)
    assert all(model.get_params(deep=False)[name] is value for name, value in GIVEN.items())


def test_numbers_of_numpy_train_as_those_of_python() -> None:
    plain: dict[str, Any] = {
        "factors": 2,
        "epochs": 2,
        "epsilon": 2.5,
        "reports": 3,
        "seed": 4,
        "history": 5.0,
    }
    numpy, python = FederatedMF(**GIVEN).fit(PEOPLE), FederatedMF(**plain).fit(PEOPLE)
    assert numpy.settings == python.settings
    assert np.array_equal(numpy.item_factors, python.item_factors)


def test_small_numbers_of_numpy_do_not_overflow_in_a_plan() -> None:
    said: dict[str, Any] = {"epochs": 20, "reports": 10, "epsilon": 0.015625}
    small = {"epochs": np.int8(20), "reports": np.int8(10), "epsilon": np.float16(0.015625)}
    spent = FederatedMF(central_budget=np.float32(3), **small).fit(PEOPLE)  # type: ignore[arg-type]
    assert spent.settings == FederatedMF(central_budget=3, **said).fit(PEOPLE).settings


def test_a_model_is_written_as_it_is_made() -> None:
    assert repr(FederatedMF()) == "FederatedMF()"
    model = FederatedMF(np.int64(3), budget=np.float64(2.5), preset="crowd", options={})  # type: ignore[arg-type]
    assert repr(model) == "FederatedMF(factors=3, preset='crowd', budget=2.5, options={})"
    assert repr(eval(repr(model))) == repr(model)


def test_parameters_can_be_changed() -> None:
    model = FederatedMF(epsilon=1.0, epochs=1, reports=2, factors=1).fit(PEOPLE)
    assert model.set_params(epsilon=2.0) is model
    assert model.settings.epsilon == 1.0
    assert model.fit(PEOPLE).settings.epsilon == 2.0
    with pytest.raises(SettingsError, match="no such parameter: gamma"):
        model.set_params(gamma=1)
    with pytest.raises(SettingsError, match="epsilon must be"):
        model.set_params(seed=9, epsilon=np.nan)
    assert (model.seed, model.epsilon) == (0, 2.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "loud"}, "no preset 'loud'; there are"),
        ({"mechanism": "loud"}, "mechanism must be one of"),
        ({"budget": np.nan}, "budget must be a finite number"),
        ({"budget": "ten"}, "budget must be a finite number"),
        ({"history": np.inf}, "history must be a finite number"),
        ({"epochs": 2.5}, "epochs must be a whole number"),
        ({"options": {"gamma": 1}}, "no such setting: gamma"),
        ({"options": {"block": 2048}}, "block must be"),
        ({"mechanism": "coordinate", "options": {"block": 4}}, "block is no option of"),
        ({"engine": "gpu"}, "no engine 'gpu'"),
        ({"engine_options": {"card": 0}}, "the auto engine has no option card"),
        ({"engine": "cuda", "threads": 2}, "the cuda engine has no option threads"),
        ({"engine": "cuda", "engine_options": {"card": -1}}, "card must be"),
        ({"threads": 0}, "threads must be"),
        ({"epsilon": 1.0, "options": {"epsilon": 9.0}}, "give epsilon as an argument"),
        ({"options": {"budget": 4}}, "give budget as an argument"),
        ({"options": 3}, "options must be a mapping by name, as {'block': 8}; got 3"),
        ({"options": {3: 4}}, "options must be a mapping by name"),
        ({"threads": 2, "engine_options": {"threads": 1}}, "threads is given twice"),
        ({"engine_options": 3}, "engine_options must be a mapping by name"),
        ({"engine": []}, r"no engine \[\]"),
        ({"half_life": 1e300}, "half_life must be a finite number from 0 to 1000000000"),
    ],
)
def test_nonsense_is_refused_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        FederatedMF(**wrong)


@pytest.mark.parametrize("preset", all_presets())
def test_every_preset_is_known(preset: str) -> None:
    assert FederatedMF(preset=preset, seed=1).preset == preset


def test_presets_of_a_budget_keep_to_it() -> None:
    strong = FederatedMF(preset="strong").fit(random_people(400, 30, seed=1)).privacy()
    assert strong.training <= 10
    assert strong.lifetime.central is not None
    assert strong.lifetime.central <= 1
    paper = FederatedMF(preset="paper", epochs=1, engine="reference").fit(PEOPLE).settings
    assert (paper.mechanism, paper.steps) == ("coordinate", 20)


def test_the_protocol_of_clone() -> None:
    """What `sklearn.base.clone` does: copies of all parameters, which must be kept as they are."""
    model = FederatedMF(**GIVEN)
    copies = {name: copy.deepcopy(each) for name, each in model.get_params(deep=False).items()}
    made = type(model)(**copies)
    assert all(made.get_params(deep=False)[name] is each for name, each in copies.items())


def test_scikit_learn_itself_clones_it() -> None:
    base = pytest.importorskip("sklearn.base")
    trained = FederatedMF(**GIVEN).fit(PEOPLE)
    made = base.clone(trained)
    assert made.get_params() == trained.get_params()
    with pytest.raises(SettingsError, match="not trained"):
        _ = made.item_factors
    assert np.array_equal(made.fit(PEOPLE).item_factors, trained.item_factors)


def test_scikit_learns_grids_go_through_it() -> None:
    grid = pytest.importorskip("sklearn.model_selection").ParameterGrid
    values = {"epsilon": np.linspace(1, 3, 3), "factors": np.arange(1, 3)}
    found = {
        (model.settings.epsilon, model.settings.factors)
        for each in grid(values)
        for model in [FederatedMF(epochs=1, reports=1).set_params(**each).fit(PEOPLE)]
    }
    assert found == set(product([1.0, 2.0, 3.0], [1, 2]))
