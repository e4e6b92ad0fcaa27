"""Settings files: every kind of value, and the error of every mistake."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sottovoce.errors import SettingsError
from sottovoce.service.toml import read_settings


@dataclass(frozen=True)
class Inner:
    port: int = 8080
    certificate: Path | None = None

    def __post_init__(self) -> None:
        if self.port < 0:
            raise SettingsError("port must not be negative", setting="port")


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
            raise SettingsError(f"rate must not be negative, got {self.rate}", setting="rate")


LEAST = 'name = "x"\nfolder = "data"\n'


def read(folder: Path, text: str) -> Example:
    path = folder / "example.toml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path, Example)


def test_missing_settings_have_their_defaults(tmp_path: Path) -> None:
    """Paths are relative to the file."""
    assert read(tmp_path, LEAST) == Example("x", tmp_path / "data")
    assert read(tmp_path, 'name = "x"\nfolder = "/srv"').folder == Path("/srv")


@pytest.mark.parametrize(
    ("text", "line", "meant"),
    [
        ("nmae = 1\n" + LEAST, 1, "name"),
        (LEAST + "# port\n[listen]\n\nprot = 1\n", 6, "listen.port"),
        (LEAST + "[lisen]\nport = 1\n", 3, "listen"),
        (LEAST + "lisen.port = 1\n", 3, "listen"),
        (LEAST + "[proxies.east]\nsecret = ''\nwieght = 1\n", 5, "proxies.east.weight"),
    ],
)
def test_error_of_an_unknown_setting_has_its_line_and_a_suggestion(
    text: str, line: int, meant: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=rf"example\.toml, line {line}:.* {meant}\?"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rate = true\n" + LEAST, 1),
        (LEAST + "[listen]\n\nport = '8080'\n", 5),
        (LEAST + "names = ['a', 1]\n", 3),
        (LEAST + "[proxies.east]\nsecret = ''\nweight = ''\n", 5),
        (LEAST + "[listen]\nport = -1\n", 4),
    ],
)
def test_error_of_a_wrong_value_has_its_line(text: str, line: int, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"example\.toml, line {line}: "):
        read(tmp_path, text)


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
    values = read(tmp_path, text)
    assert values == Example(
        "x",
        tmp_path / "data",
        rate=2.0,
        quiet=True,
        limit=7,
        listen=Inner(1, Path("/etc/chain.pem")),
        proxies={"one": Access("s"), "the other": Access("t", 3.0)},
        names=("a", "b"),
    )
    assert isinstance(values.rate, float)
    assert isinstance(values.proxies["the other"].weight, float)


MISTAKES = {
    "name": ["", LEAST + "name = 1979-05-27", 'name = 1\nfolder = "a"'],
    "folder": ['name = "x"', 'name = "x"\nfolder = 1', 'name = "x"\nfolder = ""'],
    "colour": [LEAST + "colour = 1"],
    "listen.host": [LEAST + "[listen]\nhost = 1"],
    "listen.port": [LEAST + "[listen]\nport = -1"],
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
        LEAST + "limit = 0x" + "f" * 5_000,
    ],
    "names": [LEAST + 'names = "a"'],
    "names[1]": [LEAST + 'names = ["a", 1]'],
    "TOML": [
        *(LEAST + f"limit = {value}" for value in ("", "9" * 5_000, "[" * 5_000 + "]" * 5_000)),
    ],
}
"""By the field that is to be named."""


@pytest.mark.parametrize("named", MISTAKES)
def test_every_error_names_the_file_and_the_field(tmp_path: Path, named: str) -> None:
    for text in MISTAKES[named]:
        with pytest.raises(SettingsError) as caught:
            read(tmp_path, text)
        assert str(caught.value).startswith(f"{tmp_path / 'example.toml'}")
        assert named in str(caught.value) or "TOML" in str(caught.value)
        assert len(str(caught.value)) < 1_000
        assert not re.search(r"\b(True|bool|int|float|str|dict|datetime)\b", str(caught.value))


def test_error_of_an_unreadable_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    for name in ("none.toml", ".", "latin.toml"):
        with pytest.raises(SettingsError, match=str(tmp_path / name)):
            read_settings(tmp_path / name, Example)
