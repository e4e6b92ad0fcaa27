"""A mechanism of one's own, from outside the package: by a call, or by an entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from sottovoce import FederatedMF
from sottovoce.errors import SettingsError
from sottovoce.mechanism import MECHANISMS, Loudest, Mechanism, mechanism_named, register
from sottovoce.settings import setting
from tests.people import random_people
from tests.plugins.whisper import Whisper

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Murmur(Whisper):
    name: ClassVar[str] = "murmur"
    softness: int = setting(0, "of no use at all", least=0, most=9)


@dataclass(frozen=True)
class OtherWhisper(Whisper):
    pass


@dataclass(frozen=True)
class Loud(Whisper):
    name: ClassVar[str] = "Very loud!"


@pytest.fixture(autouse=True)
def unregistered_again() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


def installed(folder: Path, value: str) -> Path:
    """As `pip` leaves a package that names an entry point."""
    (folder / "whispering-1.0.dist-info").mkdir()
    about = folder / "whispering-1.0.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: whispering\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[sottovoce.mechanisms]\nwhisper = {value}\n")
    return folder


def test_a_registered_mechanism_trains() -> None:
    with pytest.raises(SettingsError, match="mechanism must be one of"):
        FederatedMF(mechanism="whisper")
    assert register(Whisper) is Whisper
    register(Whisper)
    model = FederatedMF(2, 1, mechanism="whisper", engine="reference").fit(random_people(20, 9, 1))
    assert model.settings.mechanism == "whisper"


def test_its_own_settings_are_given_by_name(tmp_path: Path) -> None:
    register(Murmur)
    model = FederatedMF(2, 1, mechanism="murmur", own={"softness": 3}, engine="reference")
    with pytest.raises(SettingsError, match="softness must be"):
        model.set_params(own={"softness": 10})
    model.fit(random_people(20, 9, 1)).save(tmp_path / "model")
    loaded = FederatedMF.load(tmp_path / "model")
    assert loaded.settings.own == {"softness": 3}
    again = FederatedMF.from_items(loaded.item_factors, loaded.settings)
    assert again.own == {"softness": 3}
    assert np.array_equal(again.item_factors, model.item_factors)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (OtherWhisper, r"already: tests\.plugins\.whisper\.Whisper"),
        (Loud, "small letters"),
        (Mechanism, "lacks constants, densities, estimate"),
        (dict, "extends"),
        ("loudest", "extends"),
    ],
)
def test_what_is_no_mechanism_is_refused(kind: Any, message: str) -> None:
    register(Whisper)
    with pytest.raises(SettingsError, match=message):
        register(kind)
    assert MECHANISMS["loudest"] is Loudest
    assert MECHANISMS["whisper"] is Whisper


def test_an_installed_package_brings_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed(tmp_path, "tests.plugins.whisper:Whisper"))
    assert mechanism_named("whisper") is Whisper


def test_one_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed(tmp_path, "tests.plugins.whisper:Nothing"))
    with pytest.raises(SettingsError, match=r"'whisper' of an installed package \(tests"):
        mechanism_named("whisper")
    assert mechanism_named("loudest") is Loudest


def test_the_command_line_knows_it(tmp_path: Path) -> None:
    paths = [str(installed(tmp_path, "tests.plugins.whisper:Whisper")), *sys.path]
    command = [sys.executable, "-m", "sottovoce", "privacy", "--mechanism", "whisper"]
    told = subprocess.run(
        [*command, "--epochs", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "500" in told.stdout
