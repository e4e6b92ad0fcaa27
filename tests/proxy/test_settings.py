"""The settings and their file: every field explained, nothing that cannot work."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import SettingsError
from sottovoce.proxy import Page, ProxySettings, Rate, Tls
from sottovoce.proxy.settings import settings_file
from sottovoce.service import Listen, Watch, read_settings
from tests.proxy.world import World, settings

EXAMPLE = Path(__file__).parents[2] / "deploy" / "proxy.example.toml"
PLACES: dict[str, Any] = {
    "folder": "/var/lib/sottovoce-proxy",
    "server": "https://server.example",
    "secret_file": "/etc/sottovoce/proxy.secret",
    "verification_key": "00" * 31 + "01",
}


def test_the_example_is_what_init_writes() -> None:
    assert EXAMPLE.read_text() == settings_file(**PLACES)


def test_the_example_can_be_read_and_says_the_defaults() -> None:
    assert read_settings(EXAMPLE, ProxySettings) == ProxySettings(
        Path(PLACES["folder"]),
        PLACES["server"],
        Path(PLACES["secret_file"]),
        PLACES["verification_key"],
    )


def names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


@pytest.mark.parametrize("kind", [ProxySettings, Rate, Tls, Listen, Watch, Page])
def test_every_field_is_in_the_example(kind: type) -> None:
    assert is_dataclass(kind)
    text = EXAMPLE.read_text()
    named = set(re.findall(r"^(?:# )?(\w+) = ", text, re.MULTILINE))
    assert names(kind) <= named | set(re.findall(r"^\[(\w+)\]", text, re.MULTILINE))


def test_every_line_of_the_example_that_is_switched_off_works(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(re.sub(r"^# (\w+ = )", r"\1", EXAMPLE.read_text(), flags=re.M))
    for file in ("public.pem", "public-key.pem", "relay-authority.pem"):
        (tmp_path / file).touch()
    known = read_settings(tmp_path / "p.toml", ProxySettings)
    assert known.tls == Tls(
        tmp_path / "server-authority.pem", tmp_path / "proxy.pem", tmp_path / "proxy-key.pem"
    )
    assert known.listen.client_authority == tmp_path / "relay-authority.pem"
    assert known.page == Page(panel=tmp_path / "panel.json")


@pytest.mark.parametrize("odd", ['a "b" \\ c', "naïve\ttab", "a\nb = 1"])
def test_odd_values_are_quoted(tmp_path: Path, odd: str) -> None:
    (tmp_path / "p.toml").write_text(settings_file(**{**PLACES, "secret_file": odd}))
    assert read_settings(tmp_path / "p.toml", ProxySettings).secret_file == tmp_path / odd


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"server": "server.example"}, "https://HOST"),
        ({"server": "ftp://server.example"}, "https://HOST"),
        ({"server": "https://"}, "https://HOST"),
        ({"server": "https://[half"}, "https://HOST"),
        ({"server": "https://host:port"}, "https://HOST"),
        ({"server": "https://user:pass@host"}, "https://HOST"),
        ({"server": "https://host/?query"}, "https://HOST"),
        ({"verification_key": "00"}, "verification_key"),
        ({"verification_key": "G" * 64}, "verification_key"),
        ({"least_clients": 0}, "least_clients"),
        ({"poll_seconds": 0.0}, "poll_seconds"),
        ({"keep_models": 0}, "keep_models"),
        ({"chunk_reports": 0}, "chunk_reports"),
        ({"chunk_reports": 20_001}, "chunk_reports"),
        ({"most_bytes": 0}, "most_bytes"),
        ({"least_clients": 100, "most_batches": 99}, "the crowd would never come"),
    ],
)
def test_what_cannot_work(tmp_path: Path, change: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        settings(tmp_path, **change)


@pytest.mark.parametrize("wrong", [(-1, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_a_rate_that_cannot_work(wrong: tuple[float, int, int]) -> None:
    with pytest.raises(SettingsError):
        Rate(*wrong)


def test_one_address_is_never_a_crowd(tmp_path: Path) -> None:
    """Neither at once nor in an epoch; the defaults fit together, and so does a smaller crowd."""
    rate = Rate()
    assert (
        max(rate.burst, rate.per_epoch)
        < ProxySettings(tmp_path, "https://server.example", tmp_path, "00" * 32).least_clients
    )
    for least, told in ((20, "per_epoch"), (10, "per_epoch"), (2, "per_epoch")):
        with pytest.raises(SettingsError, match=rf"rate\.{told} must be below least_clients"):
            settings(tmp_path, least_clients=least, rate=rate)
    with pytest.raises(SettingsError, match=r"rate\.burst must be below least_clients \(10\)"):
        settings(tmp_path, least_clients=10, rate=Rate(burst=10, per_epoch=9))
    settings(tmp_path, least_clients=21, rate=rate)
    settings(tmp_path, least_clients=10, rate=Rate(burst=9, per_epoch=9))
    settings(tmp_path, least_clients=1, rate=rate)


@pytest.mark.parametrize(
    ("least", "rate", "told"),
    [(5, Rate(0, per_epoch=0), True), (1, Rate(0, per_epoch=0), False), (50, Rate(), False)],
)
def test_a_limit_that_is_off_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, least: int, rate: Rate, told: bool
) -> None:
    """Behind a relay everybody is one address."""
    World(tmp_path, least_clients=least, rate=rate).store.close()
    assert ("one address may send a whole crowd" in caplog.text) is told


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="belong together"):
        Tls(certificate=tmp_path)


def test_a_statement_that_nobody_would_read() -> None:
    with pytest.raises(SettingsError, match="at most 8000"):
        Page(statement="x" * 8_001)


@pytest.mark.parametrize(
    "line", ["serve = 1", 'serve = "yes"', "statement = 1", "panel = 1", "a = 1"]
)
def test_a_page_table_that_cannot_be_meant(tmp_path: Path, line: str) -> None:
    text = EXAMPLE.read_text().replace("serve = false", line).replace('statement = ""\n', "")
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"page\."):
        read_settings(tmp_path / "p.toml", ProxySettings)


if __name__ == "__main__":
    EXAMPLE.write_text(settings_file(**PLACES))
