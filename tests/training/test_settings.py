"""Settings and presets."""

import json
import re
from typing import Any

import numpy as np
import pytest

from sottovoce.core import gram
from sottovoce.core.bounds import MOST_ENTRY, MOST_RIDGE
from sottovoce.errors import SettingsError
from sottovoce.training import Settings, presets


def test_the_papers_preset() -> None:
    paper = Settings.preset("paper")
    assert (paper.mechanism, paper.factors, paper.steps) == ("coordinate", 5, 20)
    assert (paper.learning_rate, paper.regularization, paper.alpha) == (1e-3, 1e-6, 1.0)
    assert Settings.preset("coordinate") == paper
    # 2.0 on the unbiased mean at k = 100: the paper divides k reports by users.
    assert paper.rate * paper.steps == pytest.approx(2.0)
    assert not paper.rotate
    assert paper.head_start == 0


def test_the_ridge_is_a_share_of_what_the_items_add_to_the_diagonal() -> None:
    V = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    assert Settings(factors=3).user_ridge(V) == 1e-6
    held = Settings(factors=3, ridge=0.25, regularization=0.5).user_ridge(V)
    assert held == pytest.approx(0.5 + 0.25 * np.trace(gram(V)) / 3, rel=1e-12)
    # Whatever V is, devices take the number: see `sottovoce.core.bounds`.
    huge = np.full((1000, 3), MOST_ENTRY, np.float32)
    assert Settings(factors=3, ridge=1.0).user_ridge(huge) == MOST_RIDGE
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
def test_a_setting_that_cannot_work_is_refused_by_name(change: dict[str, Any]) -> None:
    name = next(iter(change.get("options", change)))
    with pytest.raises(SettingsError, match=name):
        Settings(**change)


def test_presets_refuse_unknown_names_and_keep_what_is_not_given() -> None:
    with pytest.raises(SettingsError, match="gamma"):
        Settings.preset("loudest", gamma=1)
    with pytest.raises(SettingsError, match=r"nothing.* paper"):
        Settings.preset("nothing")
    assert Settings.preset("loudest", epsilon=None) == Settings.preset("loudest")


@pytest.mark.parametrize("anything", [[], {}, 3, None])
def test_a_name_of_another_kind_is_refused(anything: Any) -> None:
    with pytest.raises(SettingsError, match=re.escape(repr(anything))):
        Settings.from_table({"preset": anything})
    with pytest.raises(SettingsError, match="mechanism"):
        Settings(mechanism=anything)


@pytest.mark.parametrize("preset", presets())
def test_settings_survive_json(preset: str) -> None:
    settings = Settings.preset(preset, seed=3)
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert Settings.from_table({"preset": preset, "seed": 3}) == settings


def test_what_is_missing_or_unknown_in_json_is_refused() -> None:
    whole = Settings().as_dict()
    with pytest.raises(SettingsError, match="alpha"):
        Settings.from_dict({name: whole[name] for name in whole if name != "alpha"})
    with pytest.raises(SettingsError, match="beta"):
        Settings.from_dict({**whole, "beta": 1})


def test_options_stand_beside_the_settings_of_all() -> None:
    settings = Settings.preset("loudest", loud=3)
    assert settings.build(8).published()["loud"] == 3
    assert settings.as_dict()["loud"] == 3
    with pytest.raises(SettingsError, match=r"loud .*'coordinate'.*'loudest'"):
        Settings.preset("coordinate", loud=3)


def test_another_mechanism_forgets_the_options_of_the_first() -> None:
    assert Settings.preset("loudest", loud=3).changed(mechanism="coordinate").options == {}
    kept = Settings.preset("loudest", loud=3).changed(epsilon=1.0)
    assert kept.options == {"block": 0, "loud": 3}
