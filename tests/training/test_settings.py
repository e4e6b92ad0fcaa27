from __future__ import annotations

from typing import Any

import pytest

from sottovoce.errors import SettingsError
from sottovoce.mechanism import Coordinate, Hadamard, Loudest
from sottovoce.training import PRESETS, Settings


def test_the_papers_preset() -> None:
    paper = Settings.preset("paper")
    assert (paper.mechanism, paper.factors, paper.steps) == ("coordinate", 5, 20)
    assert (paper.learning_rate, paper.regularization, paper.alpha) == (1e-3, 1e-6, 1.0)
    assert Settings.preset("coordinate") == paper
    # 2.0 on the unbiased mean at k = 100: the paper divides k reports by users.
    assert paper.rate * paper.steps == pytest.approx(2.0)
    assert not paper.rotate
    assert paper.head_start == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("coordinate", Coordinate), ("hadamard", Hadamard), ("loudest", Loudest)]
)
def test_build(name: str, kind: type) -> None:
    mechanism = Settings.preset(name, factors=2, alpha=3.0).build(10)
    assert isinstance(mechanism, kind)
    assert mechanism.name == name
    assert (mechanism.shape.n_items, mechanism.shape.factors, mechanism.shape.alpha) == (10, 2, 3.0)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "laplace"},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"reports": 0},
        {"reports": 1.5},
        {"epochs": -1},
        {"factors": 0},
        {"alpha": -1.0},
        {"alpha": float("inf")},
        {"learning_rate": 0.0},
        {"initial_scale": float("nan")},
        {"seed": -1},
        {"loud": 5, "mechanism": "hadamard"},
        {"steps": True},
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(change: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(change))):
        Settings(**change)


def test_presets_refuse_unknown_names_and_keep_what_is_not_given() -> None:
    with pytest.raises(SettingsError, match="no such setting: gamma"):
        Settings.preset("loudest", gamma=1)
    with pytest.raises(SettingsError, match="there are paper"):
        Settings.preset("nothing")
    assert Settings.preset("loudest", epsilon=None) == PRESETS["loudest"]


def test_settings_survive_json() -> None:
    settings = Settings.preset("hadamard", seed=3)
    assert Settings(**settings.as_dict()) == settings
