"""A mechanism of one's own: `whisper`, registered, trains and is refused what it cannot do."""

import re
from collections.abc import Iterator
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce import FederatedMF
from sottovoce.core import MECHANISMS, Loudest, Mechanism, register
from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import Manifest
from sottovoce.settings import setting
from sottovoce.simulation import build_engine
from sottovoce.training import Settings, all_settings
from tests.people import random_people
from tests.protocol.examples import manifest


def whisper_of_the_page() -> Any:
    """As docs/extending.md has it, but not registered yet."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    (source,) = re.findall("cat > whisper.py <<'END'\n(.*?)\nEND\n", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "whisper"}
    exec(compile(source.replace("@register\n", ""), "extending.md", "exec"), names)
    return names["Whisper"]


Whisper = whisper_of_the_page()


@pytest.fixture(autouse=True)
def unregistered_again() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


def test_it_trains_once_it_is_registered(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"mechanism.*whisper"):
        FederatedMF(mechanism="whisper")
    assert register(Whisper) is register(Whisper) is Whisper
    given: Any = {"mechanism": "whisper", "options": {"depth": 3}, "engine": "reference"}
    model = FederatedMF(2, 1, **given).fit(random_people(20, 9, 1))
    model.save(tmp_path / "model")
    loaded = FederatedMF.load(tmp_path / "model")
    assert loaded.settings.options == {"depth": 3}
    again = FederatedMF.from_items(loaded.item_factors, loaded.settings)
    assert again.options == {"depth": 3}
    assert np.array_equal(again.item_factors, model.item_factors)


def test_the_manifest_carries_it_and_wrong_options_are_refused() -> None:
    register(Whisper)
    one, beyond = (
        manifest(
            mechanism="whisper",
            parameters={"directions_seed": 7, "depth": depth},
            loud_fraction=0.5,
        )
        for depth in (3, 11)
    )
    assert Manifest.decode(one.encode()).build() == one.build()
    assert isinstance(one.build(), Whisper)
    with pytest.raises(ProtocolError, match="depth"):
        beyond.build()
    for wrong in ({"depth": 11}, {"depth": 0.5}, {"block": 4}):
        with pytest.raises(SettingsError):
            FederatedMF(mechanism="whisper", options=wrong)
    with pytest.raises(SettingsError, match="whisper"):  # no kernel for it
        FederatedMF(2, 1, mechanism="whisper", engine="cpu").fit(random_people(20, 9, 1))
    many = build_engine(
        "auto", random_people(20, 9, 1), Settings(mechanism="whisper"), resample=10**8
    )
    assert many.name == "reference"


def whisper(*fields: Any, **content: Any) -> Any:
    """One like it, with these fields."""
    return make_dataclass("Other", fields, bases=(Whisper,), frozen=True, namespace=content)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("loudest", "'loudest'"),
        (dict, "dict"),
        (Mechanism, "densities, estimate"),
        (whisper(name="Very loud!"), "Very loud!"),
        (whisper(name="loudest"), "'loudest'"),
        (whisper(("softer", float, setting(0.5, "")), name="murmur"), "softer"),
    ],
)
def test_what_is_no_mechanism_is_refused(kind: Any, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        register(kind)
    assert MECHANISMS["loudest"] is Loudest


def test_an_option_called_like_a_setting_is_refused() -> None:
    register(whisper(("epochs", int, setting(0, "")), name="murmur"))
    with pytest.raises(SettingsError, match=r"'murmur'.*epochs"):
        all_settings()
    with pytest.raises(SettingsError, match=r"'murmur'.*epochs"):
        Settings.preset("murmur", epsilon=1.0)
