"""A mechanism of one's own, from outside the package: by a call, or by an entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, make_dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
import typer

from sottovoce import FederatedMF
from sottovoce.cli.app import app
from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.mechanism import MECHANISMS, Loudest, Mechanism, mechanism_named, register
from sottovoce.mechanism.checking import OTHERS, PRESETS, TRAINING
from sottovoce.privacy import Reporting
from sottovoce.settings import setting, stated
from sottovoce.training import Settings, all_presets, all_settings, planned
from tests.people import random_people
from tests.plugins.whisper import Whisper
from tests.protocol.examples import manifest

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


def murmur(*fields: Any, **content: Any) -> Any:
    """One like `whisper`, with these fields, whose annotations are types and no texts."""
    namespace = {"name": "murmur", **content}
    return make_dataclass("Murmur", fields, bases=(Whisper,), frozen=True, namespace=namespace)


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


def test_types_need_not_be_texts() -> None:
    register(murmur(("softness", int, setting(0, "of no use", least=0, most=9))))
    with pytest.raises(SettingsError, match="softness must be"):
        FederatedMF(mechanism="murmur", own={"softness": 10})
    model = FederatedMF(2, 1, mechanism="murmur", own={"softness": 3}, engine="reference")
    assert model.fit(random_people(20, 9, 1)).settings.own == {"softness": 3}
    assert FederatedMF().mechanism is None


def lying(self: Any, *_: Any) -> Reporting:
    return Reporting(0.001, 1, 1)


def faint(self: Any) -> None:
    object.__setattr__(self, "epsilon", 0.01)


def thrice(self: Any, V: Any, X: Any, histories: Any, words: Any) -> Any:
    return np.tile(Whisper.reports(self, V, X, histories, words), (1, 3))


def beyond(self: Any, V: Any, X: Any, histories: Any, words: Any) -> Any:
    return np.full_like(Whisper.reports(self, V, X, histories, words), 120)


def failing(self: Any, *_: Any) -> Any:
    raise ZeroDivisionError("oh")


def whole(name: str, default: Any = 0) -> tuple[str, type, Any]:
    return (name, int, setting(default, "of no use", least=0, most=9))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (murmur(name="paper"), "there is a preset 'paper'"),
        (murmur(name="strong"), "there is a preset 'strong'"),
        (murmur(name="crowd"), "there is a preset 'crowd'"),
        (murmur(("epsilon", float, setting(1.0, "mine"))), "name epsilon is taken"),
        (murmur(whole("budget")), "name budget is taken"),
        (murmur(whole("people")), "name people is taken"),
        (murmur(whole("checkpoint")), "name checkpoint is taken"),
        (murmur(whole("gain")), "name gain is taken"),
        (murmur(whole("directions_seed")), "cannot be called directions_seed"),
        (murmur(whole("Softness")), "cannot be called Softness"),
        (murmur(whole("block")), "'loudest' has a setting block with other bounds"),
        (murmur(whole("softness", 10)), "softness must be a whole number from 0 to 9"),
        (murmur(("softness", float, setting(0.5, "of no use"))), "softness must be a whole number"),
        (
            murmur(("softness", list, setting(0, "of no use"))),
            "softness must be declared as one of",
        ),
        (murmur(("softness", int)), "TypeError: .* argument: 'softness'"),
        (murmur(("softness", float, 0.5)), "softness must be a whole number of at least 0"),
        (murmur(usual={"gamma": 1}), "`usual` names no setting: gamma"),
        (murmur(event=lying), r"event\(\) follows from settings"),
        (murmur(__post_init__=faint), "an epsilon of 0.01, where 0.5 is set"),
        (murmur(reports=thrice), r"must give 2 x 3 reports .* got \(2, 9\)"),
        (murmur(n_directions=7), "ValueError: cannot reshape"),
        (murmur(reports=beyond), "names a direction beyond 59"),
        (murmur(gain=0.0), "gain must be above 0"),
        (murmur(loud_fraction=0.9), "loud_fraction must be above 0"),
        (murmur(reports=failing), "'murmur' cannot be used: ZeroDivisionError: oh"),
    ],
)
def test_what_would_break_or_deceive_others_is_refused(kind: Any, message: str) -> None:
    settings, presets = all_settings(), all_presets()
    with pytest.raises(SettingsError, match=message):
        register(kind)
    assert (all_settings(), all_presets()) == (settings, presets)
    assert FederatedMF(epsilon=1.0, block=4).block == 4


def test_one_that_lies_only_when_it_is_used_is_found_out() -> None:
    def sometimes(self: Any) -> None:
        if self.epsilon == 3.0:
            object.__setattr__(self, "epsilon", 0.01)

    register(murmur(__post_init__=sometimes))
    settings = Settings(mechanism="murmur", epsilon=3.0)
    with pytest.raises(SettingsError, match=r"'murmur' has an epsilon of .*, where .* is set"):
        settings.event(9)
    honest = manifest(mechanism="murmur", parameters={}, loud_fraction=0.5)
    assert honest.build().epsilon == honest.terms.epsilon
    with pytest.raises(ProtocolError, match=r"an epsilon of 0\.01"):
        replace(honest, terms=replace(honest.terms, epsilon=3.0)).build()


def test_without_a_kernel_it_runs_on_the_reference_engine() -> None:
    register(murmur(kernel=Mechanism.kernel))
    FederatedMF(2, 1, mechanism="murmur", engine="reference").fit(random_people(20, 9, 1))
    with pytest.raises(SettingsError, match="no kernel for 'murmur': use the reference engine"):
        FederatedMF(2, 1, mechanism="murmur").fit(random_people(20, 9, 1))


def test_a_setting_of_ours_may_be_inherited() -> None:
    @dataclass(frozen=True)
    class Louder(Loudest):
        name: ClassVar[str] = "louder"

    register(Louder)
    assert Settings.preset("louder", block=8).own["block"] == 8


def test_usual_settings_that_cannot_be_harm_nobody_else() -> None:
    register(murmur(usual={"epsilon": -1.0}))
    FederatedMF()
    with pytest.raises(SettingsError, match="epsilon must be"):
        Settings.preset("murmur")


def test_all_names_of_ours_are_known_to_be_taken() -> None:
    group: Any = typer.main.get_command(app)
    simulate = {each.name for each in group.get_command(None, "simulate").params}
    own = {name for kind in MECHANISMS.values() for name in kind.settings()}
    told = {*simulate, *FederatedMF.defaults(), *signature(planned).parameters} - {"given"}
    assert set(stated(Settings)) == TRAINING
    assert told - own - TRAINING == OTHERS - {"shape", "directions_seed"}
    assert set(all_presets()) - set(MECHANISMS) == PRESETS
