"""Settings files: every kind of value, and every mistake by its name."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.service.toml import read_settings


@dataclass(frozen=True)
class Inner:
    port: int = 8080
    certificate: Path | None = None


@dataclass(frozen=True)
class Access:
    secret: str
    weight: float = 1.0


@dataclass(frozen=True)
class Example:
    name: str
    folder: Path
    rate: float = 0.5
    quiet: bool = False
    limit: int | None = None
    listen: Inner = Inner()
    proxies: dict[str, Access] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise SettingsError(f"rate must not be negative, got {self.rate}")


LEAST = 'name = "x"\nfolder = "data"\n'


def read(folder: Path, text: str) -> Example:
    path = folder / "example.toml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path, Example)


def test_what_is_not_given_has_its_default(tmp_path: Path) -> None:
    """Paths are relative to the file."""
    assert read(tmp_path, LEAST) == Example("x", tmp_path / "data")
    assert read(tmp_path, 'name = "x"\nfolder = "/srv"').folder == Path("/srv")


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    text = (
        LEAST
        + """
        rate = 2
        quiet = true
        limit = 7
        names = ["a", "b"]
        [listen]
        port = 1
        certificate = "/etc/chain.pem"
        [proxies.one]
        secret = "s"
        [proxies."the other"]
        secret = "t"
        weight = 3
        """
    )
    found = read(tmp_path, text)
    assert found == Example(
        "x",
        tmp_path / "data",
        rate=2.0,
        quiet=True,
        limit=7,
        listen=Inner(1, Path("/etc/chain.pem")),
        proxies={"one": Access("s"), "the other": Access("t", 3.0)},
        names=("a", "b"),
    )
    assert isinstance(found.rate, float)
    assert isinstance(found.proxies["the other"].weight, float)


MISTAKES = {
    "name": ["", LEAST + "name = 1979-05-27", 'name = 1\nfolder = "a"'],
    "folder": ['name = "x"', 'name = "x"\nfolder = 1', 'name = "x"\nfolder = ""'],
    "colour": [LEAST + "colour = 1"],
    "listen.host": [LEAST + "[listen]\nhost = 1"],
    "listen": [LEAST + "listen = 8080", LEAST + "[[listen]]\nport = 1"],
    "proxies.one.secret": [LEAST + "[proxies.one]", LEAST + "[proxies.one]\nsecret = 1"],
    "proxies.one.secrets": [LEAST + "[proxies.one]\nsecrets = 1"],
    "proxies.one": [LEAST + "[proxies]\none = 1"],
    "proxies": [LEAST + "proxies = 1", LEAST + "[[proxies]]"],
    "rate": [
        *(LEAST + f"rate = {value}" for value in ("true", '"1"', "nan", "-inf", "-1")),
        LEAST + "rate = 1" + "0" * 400,
    ],
    "quiet": [LEAST + "quiet = 1"],
    "limit": [
        *(LEAST + f"limit = {value}" for value in ("true", "1.0", "1979-05-27")),
        LEAST + "limit = " + "[" * 200 + "]" * 200,
    ],
    "names": [LEAST + 'names = "a"'],
    "names[1]": [LEAST + 'names = ["a", 1]'],
    "TOML": [
        *(LEAST + f"limit = {value}" for value in ("", "9" * 5_000, "[" * 5_000 + "]" * 5_000)),
    ],
}
"""By the field that is to be named."""


@pytest.mark.parametrize("named", MISTAKES)
def test_every_mistake_names_the_file_and_the_field(tmp_path: Path, named: str) -> None:
    for text in MISTAKES[named]:
        with pytest.raises(SettingsError) as caught:
            read(tmp_path, text)
        assert str(caught.value).startswith(f"{tmp_path / 'example.toml'}: ")
        assert named in str(caught.value) or "TOML" in str(caught.value)
        assert len(str(caught.value)) < 1_000


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    for name in ("none.toml", ".", "latin.toml"):
        with pytest.raises(SettingsError, match=str(tmp_path / name)):
            read_settings(tmp_path / name, Example)


def as_toml(value: Any) -> str:
    """Any of the values below, written inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {as_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


words = st.text("abcdef \\\"'\n\t.é羅", max_size=6)
known = st.sampled_from([*Example.__dataclass_fields__, "port", "certificate", "secret", "weight"])
values = st.recursive(
    st.booleans() | st.integers(-(10**350), 10**350) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(known | words, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(known | words, values, max_size=6))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_settings_or_a_settings_error(tmp_path: Path, table: dict[str, Any]) -> None:
    whole = {"name": "x", "folder": "y"} | table
    text = "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in whole.items())
    assert tomllib.loads(text).keys() == whole.keys()
    try:
        found = read(tmp_path, text)
    except SettingsError as error:
        message = str(error)
    else:
        message = f"{tmp_path}: {found}"
    assert message.startswith(str(tmp_path))


@given(st.text(st.characters(codec="utf-8"), max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_settings_or_a_settings_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        read(tmp_path, text)
