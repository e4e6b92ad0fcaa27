"""Create the folder of a new proxy: a settings file, a copy of its secret, an empty database."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from sottovoce.errors import SettingsError, get_reason
from sottovoce.proxy.settings import ProxySettings, Rate
from sottovoce.proxy.store import ProxyStore
from sottovoce.service.listen import Listen
from sottovoce.service.toml import render_settings
from sottovoce.storage.files import write_new

DEFAULT_PORT = 8080
# Port of the proxy's health and metrics.
DEFAULT_WATCH_PORT = 8081

# Names of files and folders in the folder of a proxy.
SETTINGS_FILE = "proxy.toml"
SECRET_FILE = "server.secret"  # noqa: S105 - the name of a file
DATA_FOLDER = "data"


def make_proxy(folder: Path, secret_file: Path, **settings: Any) -> None:
    """Write the settings and a copy of the secret, and create the database.

    If the settings cannot be written, the copy of the secret is deleted again.

    Args:
        folder: The folder of the proxy, which is created if necessary.
        secret_file: The secret that the server expects.
        settings: Arguments of `render_settings_file`.

    Raises:
        SettingsError: A file exists already, or cannot be written.
    """
    text = render_settings_file(folder=DATA_FOLDER, secret_file=SECRET_FILE, **settings)
    for name in (SETTINGS_FILE, SECRET_FILE):
        if (folder / name).exists():
            raise SettingsError(f"{folder / name} exists already: name another folder")
    try:
        secret = secret_file.read_bytes()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new(folder / SECRET_FILE, secret)
        write_new(folder / SETTINGS_FILE, text.encode())
        ProxyStore.create(folder / DATA_FOLDER)
    except OSError as error:
        (folder / SECRET_FILE).unlink(missing_ok=True)
        raise SettingsError(f"the proxy cannot be set up: {get_reason(error)}") from error


def render_settings_file(
    *,
    min_clients: int = ProxySettings.min_clients,
    port: int = DEFAULT_PORT,
    watch_port: int = DEFAULT_WATCH_PORT,
    host: str = Listen.host,
    relay: bool = False,
    origins: Sequence[str] = (),
    **texts: str,
) -> str:
    """Return the text of a `proxy.toml` with these values, and defaults for all other settings.

    Args:
        min_clients: People in a crowd. The limits of an address follow from it.
        port: Port for clients.
        watch_port: Port for health and metrics.
        host: The address to listen on.
        relay: Whether all clients share the address of a relay. Then addresses have no limit.
        origins: Sites whose pages may use the proxy.
        texts: Values of the other placeholders in the template.
    """
    rate = Rate(0, per_epoch=0) if relay else Rate.for_crowd(min_clients)
    connections = 0 if relay else Listen.connections_per_address
    texts["host"] = host
    template = (files(__package__) / "proxy.toml").read_text(encoding="utf-8")
    return template.format(
        # A JSON string is also a valid TOML string.
        **{name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()},
        min_clients=min_clients,
        origins=json.dumps(list(origins)),
        service=render_settings(ProxySettings, omit={"min_clients"}),
        rate=render_settings(Rate, **vars(rate)),
        caps=render_settings(Listen, connections_per_address=connections),
        port=port,
        watch_port=watch_port,
    )
