"""The settings file: its template, its fields, and what is refused."""

import hashlib
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from sottovoce.errors import SettingsError
from sottovoce.server import ServerSettings
from sottovoce.server.setup import render_settings_file
from sottovoce.service.listen import Listen, Watch
from sottovoce.training import Participation, Settings, list_basic_presets

EXAMPLE_FILE = Path(__file__).parents[2] / "deploy" / "server.example.toml"

PROXIES = {"east": hashlib.sha256(b"secret").hexdigest()}


def read(folder: Path, text: str) -> ServerSettings:
    path = folder / "server.toml"
    path.write_text(text)
    return ServerSettings.read(path)


def change_line(line: str) -> str:
    """Return the template with another value of one setting."""
    text = render_settings_file(proxies=PROXIES, training=Settings())
    name = line.partition(" ")[0]
    changed, count = re.subn(rf"(?m)^(# )?{name} = .*$", line, text, count=1)
    assert count == 1, line
    return changed


def test_the_example_parses_and_is_what_init_writes() -> None:
    settings = ServerSettings.read(EXAMPLE_FILE)
    digests = {name: access.secret_sha256 for name, access in settings.proxies.items()}
    written = render_settings_file(proxies=digests, training=Settings())
    # `python -m tests.server.test_settings` writes it.
    assert EXAMPLE_FILE.read_text() == written


def test_the_example_explains_every_field() -> None:
    text = EXAMPLE_FILE.read_text()
    for field in fields(ServerSettings):
        name = field.name
        assert re.search(rf"^((# )?{name} = |\[{name}[].])", text, re.MULTILINE), name
    others = [field.name for kind in (Listen, Watch, Participation) for field in fields(kind)]
    for name in ["preset", *Settings().as_dict(), *others]:
        assert re.search(rf"^(# )?{name} = ", text, re.MULTILINE), name


def test_the_example_shows_the_defaults() -> None:
    settings = ServerSettings.read(EXAMPLE_FILE)
    default = ServerSettings(settings.keys, settings.catalogue, settings.proxies)
    for name in ("epoch_seconds", "grace_seconds", "terms", "listen", "watch"):
        assert getattr(settings, name) == getattr(default, name)
    assert settings.training == Settings()


@pytest.mark.parametrize("preset", list_basic_presets())
def test_commented_values_are_the_presets(tmp_path: Path, preset: str) -> None:
    text = render_settings_file(proxies=PROXIES, training=Settings.preset(preset))
    training = text[text.index("[training]") : text.index("# The address at which proxies")]
    uncommented = re.sub(r"(?m)^# (\w+ = )", r"\1", training)
    text = text.replace(training, uncommented)
    settings = read(tmp_path, text)
    assert settings.training == Settings.preset(preset)
    assert settings.terms == Participation()


@pytest.mark.parametrize(
    "line",
    [
        "epoch_seconds = 0", "epoch_seconds = 1.5", "min_clients = 0", "hold = -1",
        "lifetime = -1", "grace_seconds = -1", "max_chunks = 0", "max_bytes = 0",
        "header_bytes = 10", "connections = 0", "idle_seconds = 0", "openers = -1",
        "heartbeat = 0", 'database = "mysql://x/y"', 'preset = "loud"', "epsilon = -1.0",
        "loud = -1", 'secret_sha256 = "abc"', "port = 99999",
    ],
)  # fmt: skip
def test_values_that_cannot_work_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingsError, match=line.partition(" ")[0]):
        read(tmp_path, change_line(line))


@pytest.mark.parametrize(
    ("proxies", "pattern"),
    [({}, "proxies"), ({**PROXIES, "west": PROXIES["east"]}, "secret_sha256"),
     ({"'a b'": PROXIES["east"]}, "a b")],
)  # fmt: skip
def test_proxies_need_names_and_secrets_of_their_own(
    tmp_path: Path, proxies: dict[str, str], pattern: str
) -> None:
    with pytest.raises(SettingsError, match=pattern):
        read(tmp_path, render_settings_file(proxies=proxies, training=Settings()))
    west = hashlib.sha256(b"other").hexdigest()
    settings = render_settings_file(proxies={**PROXIES, "west": west}, training=Settings())
    assert list(read(tmp_path, settings).proxies) == ["east", "west"]


def test_a_database_password_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, change_line('database = "postgresql//me:hunter2@host/name"'))
    assert "hunter2" not in str(error.value)


def test_one_worker_of_several_has_ports_of_its_own(tmp_path: Path) -> None:
    settings = read(tmp_path, render_settings_file(proxies=PROXIES, training=Settings()))
    worker = settings.replace_ports(9000, 9001)
    assert (worker.listen.port, worker.watch.port) == (9000, 9001)
    assert settings.replace_ports(None, None) == settings
    assert worker.replace_ports(settings.listen.port, settings.watch.port) == settings


if __name__ == "__main__":
    access = tomllib.loads(EXAMPLE_FILE.read_text())["proxies"]
    digests = {name: proxy["secret_sha256"] for name, proxy in access.items()}
    EXAMPLE_FILE.write_text(render_settings_file(proxies=digests, training=Settings()))
