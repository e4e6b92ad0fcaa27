"""The registry: `whisper`, the example of docs/extending.md, and invalid mechanisms."""

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
from sottovoce.training import Settings, list_settings
from tests.people import random_people
from tests.protocol.examples import manifest


def compile_whisper() -> Any:
    """Compile the class in docs/extending.md without registering it."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    (source,) = re.findall("cat > whisper.py <<'END'\n(.*?)\nEND\n", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "whisper"}
    exec(compile(source.replace("@register\n", ""), "extending.md", "exec"), names)
    return names["Whisper"]


Whisper = compile_whisper()


@pytest.fixture(autouse=True)
def restore_registry() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


def test_registered_mechanism_trains(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"mechanism.*whisper"):
        FederatedMF(mechanism="whisper")
    assert register(Whisper) is register(Whisper) is Whisper
    options: Any = {"mechanism": "whisper", "options": {"depth": 3}, "engine": "reference"}
    model = FederatedMF(2, 1, **options).fit(random_people(20, 9, 1))
    model.save(tmp_path / "model")
    loaded = FederatedMF.load(tmp_path / "model")
    assert loaded.settings.options == {"depth": 3}
    again = FederatedMF.from_items(loaded.item_factors, loaded.settings)
    assert again.options == {"depth": 3}
    assert np.array_equal(again.item_factors, model.item_factors)


def test_manifest_carries_the_mechanism_and_wrong_options_are_rejected() -> None:
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
    with pytest.raises(SettingsError, match="whisper"):  # it has no kernel
        FederatedMF(2, 1, mechanism="whisper", engine="cpu").fit(random_people(20, 9, 1))
    many = build_engine(
        "auto", random_people(20, 9, 1), Settings(mechanism="whisper"), resample=10**8
    )
    assert many.name == "reference"


def make_whisper(*fields: Any, **content: Any) -> Any:
    """Make a subclass of `Whisper` with further fields."""
    return make_dataclass("Other", fields, bases=(Whisper,), frozen=True, namespace=content)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("loudest", "'loudest'"),
        (dict, "dict"),
        (Mechanism, "densities, estimate"),
        (make_whisper(name="Very loud!"), "Very loud!"),
        (make_whisper(name="loudest"), "'loudest'"),
        (make_whisper(("softer", float, setting(0.5, "")), name="murmur"), "softer"),
    ],
)
def test_invalid_mechanism_is_rejected(kind: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        register(kind)
    assert MECHANISMS["loudest"] is Loudest


def test_option_named_like_a_setting_is_rejected() -> None:
    register(make_whisper(("epochs", int, setting(0, "")), name="murmur"))
    with pytest.raises(SettingsError, match=r"'murmur'.*epochs"):
        list_settings()
    with pytest.raises(SettingsError, match=r"'murmur'.*epochs"):
        Settings.preset("murmur", epsilon=1.0)
