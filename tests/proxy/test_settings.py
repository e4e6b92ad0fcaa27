"""The settings and their file: every field explained, nothing that cannot work."""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import SettingsError
from sottovoce.proxy import ProxySettings, Rate, Tls
from sottovoce.proxy.setup import render_settings_file
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.page import Page
from sottovoce.service.toml import read_settings
from tests.proxy.world import World, manifest, settings


def test_init_writes_the_example_with_the_defaults() -> None:
    assert EXAMPLE.read_text() == render_settings_file(**PLACES)
    assert read_settings(EXAMPLE, ProxySettings) == ProxySettings(
        Path(PLACES["folder"]),
        PLACES["server"],
        Path(PLACES["secret_file"]),
        PLACES["verification_key"],
    )


EXAMPLE = Path(__file__).parents[2] / "deploy" / "proxy.example.toml"

PLACES: dict[str, Any] = {
    "folder": "/var/lib/sottovoce-proxy",
    "server": "https://server.example",
    "secret_file": "/etc/sottovoce/proxy.secret",
    "verification_key": "00" * 31 + "01",
}


def list_names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


@pytest.mark.parametrize("kind", [ProxySettings, Rate, Tls, Listen, Watch, Page])
def test_every_field_is_in_the_example(kind: type) -> None:
    assert is_dataclass(kind)
    text = EXAMPLE.read_text()
    named = set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
    assert list_names(kind) <= named | set(re.findall(r"^\[(\w+)\]", text, re.MULTILINE))


def test_every_commented_line_of_the_example_is_valid(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(re.sub(r"^# (\w+ = )", r"\1", EXAMPLE.read_text(), flags=re.M))
    for file in ("public.pem", "public-key.pem", "relay-authority.pem"):
        (tmp_path / file).touch()
    settings = read_settings(tmp_path / "p.toml", ProxySettings)
    assert settings.tls == Tls(
        tmp_path / "server-authority.pem", tmp_path / "proxy.pem", tmp_path / "proxy-key.pem"
    )
    assert settings.listen.client_authority == tmp_path / "relay-authority.pem"
    assert settings.page == Page(panel=tmp_path / "panel.json")


@pytest.mark.parametrize("odd", ['a "b" \\ c', "naïve\ttab", "a\nb = 1"])
def test_odd_values_are_quoted(tmp_path: Path, odd: str) -> None:
    (tmp_path / "p.toml").write_text(render_settings_file(**{**PLACES, "secret_file": odd}))
    assert read_settings(tmp_path / "p.toml", ProxySettings).secret_file == tmp_path / odd


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "server",
            (
                "server.example", "ftp://server.example", "https://", "https://[half",
                "https://host:port", "https://user:pass@host", "https://host/?query",
            ),
        ),
        ("verification_key", ("00", "G" * 64)),
        ("min_clients", (0,)),
        ("poll_seconds", (0.0,)),
        ("keep_models", (0,)),
        ("chunk_reports", (0, 20_001)),
        ("max_bytes", (0,)),
        ("max_batches", (0,)),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(tmp_path: Path, name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(SettingsError, match=name):
            settings(tmp_path, **{name: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rate(-1, 1, 1),
        lambda: Rate(1, 0, 1),
        lambda: Rate(1, 1, -1),
        lambda: Tls(certificate=Path("a")),
        lambda: Page(statement="x" * 8_001),
    ],
)
def test_invalid_tables_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        make()


def test_limit_of_an_address_is_below_the_crowd(tmp_path: Path) -> None:
    """Check it at once and in an epoch, for the defaults and for a smaller crowd."""
    rate = Rate()
    plain = ProxySettings(tmp_path, "https://server.example", tmp_path, "00" * 32)
    assert max(rate.burst, rate.per_epoch) < plain.min_clients
    for least, wrong in ((20, rate), (2, rate), (10, Rate(burst=10, per_epoch=9))):
        with pytest.raises(SettingsError, match="min_clients"):
            settings(tmp_path, min_clients=least, rate=wrong)
    settings(tmp_path, min_clients=21, rate=rate)
    settings(tmp_path, min_clients=10, rate=Rate(burst=9, per_epoch=9))
    settings(tmp_path, min_clients=1, rate=rate)


@pytest.mark.parametrize(
    ("least", "rate", "is_logged"),
    [(5, Rate(0, per_epoch=0), True), (1, Rate(0, per_epoch=0), False), (50, Rate(), False)],
)
def test_switched_off_limit_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, least: int, rate: Rate, is_logged: bool
) -> None:
    """Behind a relay everybody has one address."""
    World(tmp_path, min_clients=least, rate=rate).store.close()
    assert ("one address may send a whole crowd" in caplog.text) is is_logged


def test_dummies_count_for_the_crowd_of_the_proxy_only(tmp_path: Path) -> None:
    """Dummies count as reports of other people: with four reports of a person, each needs one."""
    own = settings(tmp_path, min_clients=10)
    needed = {
        (least, dummies): own.compute_min_crowd(manifest(min_clients=least, dummies=dummies).terms)
        for least in (1, 3, 20)
        for dummies in (0, 3, 8, 39, 4000)
    }
    by_terms = [[needed[least, dummies] for dummies in (0, 3, 8, 39, 4000)] for least in (1, 3, 20)]
    assert by_terms == [[10, 10, 8, 1, 1], [10, 10, 8, 3, 3], [20] * 5]


if __name__ == "__main__":
    EXAMPLE.write_text(render_settings_file(**PLACES))
