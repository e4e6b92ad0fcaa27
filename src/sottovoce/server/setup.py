"""Creation of a new server's folder.

It has the keys, a secret for each proxy, the settings, a catalogue and the database.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from sottovoce.errors import SettingsError, get_reason
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_TEXT_LENGTH
from sottovoce.server.agreement import begin_service
from sottovoce.server.keys import Keys
from sottovoce.server.settings import ServerSettings
from sottovoce.server.store import ServerStore
from sottovoce.service.listen import Listen
from sottovoce.service.toml import render_settings
from sottovoce.settings import get_settings
from sottovoce.storage.files import write_new
from sottovoce.training import Participation, Settings, list_basic_presets, list_settings

# Port for proxies.
DEFAULT_PORT = 8090
# Port for /healthz, /readyz and /metrics.
DEFAULT_WATCH_PORT = 8091

# Names of files in the folder of a server.
SETTINGS_FILE = "server.toml"
KEYS_FILE = "keys.json"
CATALOGUE_FILE = "catalogue.json"
START_FILE = "start.safetensors"


def list_catalogue_items(data: Any) -> list[Item]:
    """Return the items of a data set (`sottovoce.data.Interactions`) for a catalogue."""
    return [
        Item(number, title[:MAX_TEXT_LENGTH], tags) for number, title, tags in data.list_items()
    ]


def make_server(
    folder: Path,
    catalogue: Catalogue,
    training: Settings,
    proxies: Iterable[str] = ("proxy",),
    start: bytes | None = None,
    **service: Any,
) -> Keys:
    """Create the folder of a new server, or change nothing if anything fails.

    Args:
        folder: The folder, which is created if it is missing.
        catalogue: The first catalogue.
        training: Settings of the first training.
        proxies: Names of the proxies. Each gets a file with its secret.
        start: Bytes of the public start that the first training begins with, if it has one.
        **service: Other arguments of `render_settings_file`.

    Returns:
        The keys of the new server.
    """
    keys = Keys.generate()
    secret_by_proxy = {name: secrets.token_urlsafe(32) for name in proxies}
    digests = {
        name: hashlib.sha256(secret.encode()).hexdigest()
        for name, secret in secret_by_proxy.items()
    }
    text = render_settings_file(
        proxies=digests, training=training, has_start=start is not None, **service
    )
    contents = {SETTINGS_FILE: text.encode(), CATALOGUE_FILE: catalogue.raw}
    contents |= {} if start is None else {START_FILE: start}
    contents |= {
        f"{name}.secret": f"{secret}\n".encode() for name, secret in secret_by_proxy.items()
    }
    with ExitStack() as undo:
        try:
            # After an error, remove the folders that did not exist, unless other files are in them.
            missing = [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in reversed(missing):
                undo.callback(_remove_if_empty, path)
            for name, content in contents.items():
                write_new(folder / name, content)
                undo.callback((folder / name).unlink, missing_ok=True)
            settings = ServerSettings.read(folder / SETTINGS_FILE)
            keys.write(settings.keys)
            undo.callback(settings.keys.unlink)
        except OSError as error:
            raise SettingsError(f"{folder}: cannot be written: {get_reason(error)}") from error
        with closing(ServerStore(settings.database)) as store:
            begin_service(store, settings, keys)
        undo.pop_all()
    return keys


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def render_settings_file(
    *,
    proxies: Mapping[str, str],
    training: Settings,
    database: str = ServerSettings.database,
    epoch_seconds: int = ServerSettings.epoch_seconds,
    collect_reports: bool = True,
    has_start: bool = False,
    min_clients: int = Participation.min_clients,
    hold: int = Participation.hold,
    accounts: bool = False,
    host: str = Listen.host,
    port: int = DEFAULT_PORT,
    watch_port: int = DEFAULT_WATCH_PORT,
) -> str:
    """Return a `server.toml` with these values, and the defaults for all others.

    A training setting with the value of its preset is written as a comment.

    Args:
        proxies: SHA-256 of each proxy's secret in hexadecimal, by the name of the proxy.
        training: Settings of the training.
        database: URL of the database.
        epoch_seconds: Shortest length of an epoch.
        collect_reports: Whether devices are asked for reports.
        has_start: Whether the first training begins with the file of a public start.
        min_clients: Smallest crowd.
        hold: Seconds for which an epoch waits for its crowd after its shortest length.
        accounts: Whether devices need accounts.
        host: Address at which proxies reach the server.
        port: Port at which proxies reach the server.
        watch_port: Port at which the operator watches the server.
    """
    terms: dict[str, Any] = {"min_clients": min_clients, "hold": hold}
    if accounts:
        terms["accounts"] = True
    other_terms = set(get_settings(Participation)) - set(terms)
    preset, declared = Settings.preset(training.mechanism).as_dict(), list_settings()
    training_lines = [
        f"{'# ' if preset[name] == value else ''}{name} = {json.dumps(value)}"
        f"  # {declared[name].help}\n"
        for name, value in training.as_dict().items()
    ]
    tables = [
        f"[proxies.{name}]\nsecret_sha256 = {json.dumps(digest)}"
        for name, digest in proxies.items()
    ]
    template = (files(__package__) / "server.toml").read_text(encoding="utf-8")
    return template.format(
        database=json.dumps(database),
        keys=json.dumps(KEYS_FILE),
        catalogue=json.dumps(CATALOGUE_FILE),
        start=f"{'' if has_start else '# '}start = {json.dumps(START_FILE)}",
        service=render_settings(
            ServerSettings, epoch_seconds=epoch_seconds, collect_reports=collect_reports
        ),
        host=json.dumps(host),
        port=port,
        watch_port=watch_port,
        terms=render_settings(Participation, omit=other_terms, **terms)
        + render_settings(Participation, omit=set(terms), commented=True),
        caps=render_settings(Listen),
        presets=", ".join(list_basic_presets()),
        preset=json.dumps(training.mechanism),
        training="".join(training_lines),
        proxies="\n\n".join(tables),
    )
