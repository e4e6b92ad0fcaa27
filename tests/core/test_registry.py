"""A mechanism of one's own: `whisper`, registered, trains and is refused what it cannot do."""

from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from math import tanh
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce import FederatedMF
from sottovoce.core import MECHANISMS, Histories, Loudest, Mechanism, coin, register
from sottovoce.core.mechanism import COIN, DIRECTION, ROUNDING, SignMechanism, pack, sign_densities
from sottovoce.core.model import gradients, residuals
from sottovoce.errors import SettingsError
from sottovoce.protocol import Manifest
from sottovoce.settings import setting
from sottovoce.simulation import build_engine
from sottovoce.training import Settings, all_settings
from tests.people import random_people
from tests.protocol.examples import manifest

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Whisper(SignMechanism):
    """The sign of one uniformly drawn entry of the gradient, through the coin."""

    softness: int = setting(0, "of no use at all", least=0, most=9)
    name: ClassVar[str] = "whisper"

    @property
    def n_directions(self) -> int:
        return self.shape.n_items * self.shape.factors

    def _signs(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        g = gradients(residuals(V, X, histories, alpha=self.shape.alpha), X)
        return np.sign(g).reshape(len(X), self.n_directions)

    def reports(
        self, V: Float32, X: Float32, histories: Histories, words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        draws = words[:, :-1]
        index = coin.multiply_high(draws[..., DIRECTION], self.n_directions)
        sign = np.take_along_axis(self._signs(V, X, histories), index, axis=1)
        plus = np.where(sign == 0, draws[..., ROUNDING] >> np.uint64(63) == 1, sign > 0)
        return pack(index, plus ^ (draws[..., COIN] < np.uint64(self.flip_below)))

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        mean = sums.astype(np.float64) / (max(n_reports, 1) * tanh(self.epsilon / 2))
        return mean.reshape(self.shape.n_items, self.shape.factors)

    def densities(self, V: Float32, X: Float32, histories: Histories) -> Float32:
        return sign_densities(np.float32(tanh(self.epsilon / 2)) * self._signs(V, X, histories))


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
    given: Any = {"mechanism": "whisper", "options": {"softness": 3}, "engine": "reference"}
    model = FederatedMF(2, 1, **given).fit(random_people(20, 9, 1))
    model.save(tmp_path / "model")
    loaded = FederatedMF.load(tmp_path / "model")
    assert loaded.settings.options == {"softness": 3}
    again = FederatedMF.from_items(loaded.item_factors, loaded.settings)
    assert again.options == {"softness": 3}
    assert np.array_equal(again.item_factors, model.item_factors)


def test_the_manifest_carries_it_and_wrong_options_are_refused() -> None:
    register(Whisper)
    one = manifest(mechanism="whisper", parameters={"softness": 3}, loud_fraction=0.5)
    assert Manifest.decode(one.encode()).build() == one.build()
    assert isinstance(one.build(), Whisper)
    for wrong in ({"softness": 10}, {"softness": 0.5}, {"block": 4}):
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
