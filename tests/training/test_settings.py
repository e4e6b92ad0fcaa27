"""Settings of a training, and presets."""

import json
import re
from typing import Any

import numpy as np
import pytest

from sottovoce.core import compute_gram
from sottovoce.core.bounds import MAX_ITEM_ENTRY, MAX_RIDGE
from sottovoce.errors import SettingsError
from sottovoce.training import Settings, list_basic_presets


def test_the_preset_of_the_paper() -> None:
    paper = Settings.preset("paper")
    assert (paper.mechanism, paper.factors, paper.steps) == ("coordinate", 5, 20)
    assert (paper.learning_rate, paper.regularization, paper.alpha) == (1e-3, 1e-6, 1.0)
    assert Settings.preset("coordinate") == paper
    # The step is 2.0 times the unbiased mean at k = 100: the paper divides k reports by users.
    assert paper.rate * paper.steps == pytest.approx(2.0)
    assert not paper.rotate
    assert paper.head_start == 0


def test_ridge_is_relative_to_the_trace_of_the_gram_matrix() -> None:
    V = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    assert Settings(factors=3).compute_user_ridge(V) == 1e-6
    ridge = Settings(factors=3, ridge=0.25, regularization=0.5).compute_user_ridge(V)
    assert ridge == pytest.approx(0.5 + 0.25 * np.trace(compute_gram(V)) / 3, rel=1e-12)
    # Devices must accept the ridge of any V: see `sottovoce.core.bounds`.
    huge = np.full((1000, 3), MAX_ITEM_ENTRY, np.float32)
    assert Settings(factors=3, ridge=1.0).compute_user_ridge(huge) == MAX_RIDGE
    with pytest.raises(SettingsError, match="ridge"):
        Settings(ridge=-0.1)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "laplace"},
        {"epsilon": 0.0},
        {"reports": 0},
        {"epochs": -1},
        {"factors": 0},
        {"alpha": -1.0},
        {"learning_rate": 0.0},
        {"initial_scale": -1.0},
        {"seed": -1},
        {"options": {"loud": 5}, "mechanism": "coordinate"},
        {"options": {"loud": -1}},
        {"options": {"gamma": 1}},
        {"steps": 0},
    ],
)
def test_invalid_setting_is_rejected_by_name(change: dict[str, Any]) -> None:
    name = next(iter(change.get("options", change)))
    with pytest.raises(SettingsError, match=name):
        Settings(**change)


def test_preset_rejects_unknown_names_and_ignores_none() -> None:
    with pytest.raises(SettingsError, match="gamma"):
        Settings.preset("loudest", gamma=1)
    with pytest.raises(SettingsError, match=r"nothing.* paper"):
        Settings.preset("nothing")
    assert Settings.preset("loudest", epsilon=None) == Settings.preset("loudest")


@pytest.mark.parametrize("name", [[], {}, 3, None])
def test_name_of_another_type_is_rejected(name: Any) -> None:
    with pytest.raises(SettingsError, match=re.escape(repr(name))):
        Settings.from_table({"preset": name})
    with pytest.raises(SettingsError, match="mechanism"):
        Settings(mechanism=name)


@pytest.mark.parametrize("preset", list_basic_presets())
def test_settings_survive_json(preset: str) -> None:
    settings = Settings.preset(preset, seed=3)
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert Settings.from_table({"preset": preset, "seed": 3}) == settings


def test_missing_or_unknown_names_in_json_are_rejected() -> None:
    content = Settings().as_dict()
    with pytest.raises(SettingsError, match="alpha"):
        Settings.from_dict({name: content[name] for name in content if name != "alpha"})
    with pytest.raises(SettingsError, match="beta"):
        Settings.from_dict({**content, "beta": 1})


def test_options_are_on_one_level_with_the_settings() -> None:
    settings = Settings.preset("loudest", loud=3)
    assert settings.build(8).public_parameters()["loud"] == 3
    assert settings.as_dict()["loud"] == 3
    with pytest.raises(SettingsError, match=r"loud .*'coordinate'.*'loudest'"):
        Settings.preset("coordinate", loud=3)


def test_changing_the_mechanism_drops_its_options() -> None:
    assert Settings.preset("loudest", loud=3).copy_with(mechanism="coordinate").options == {}
    settings = Settings.preset("loudest", loud=3).copy_with(epsilon=1.0)
    assert settings.options == {"block": 0, "loud": 3}
