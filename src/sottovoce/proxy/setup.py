"""The folder of a new proxy: its settings file, a copy of its secret, an empty database."""

import json
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
# Where the operator watches the proxy.
DEFAULT_WATCH_PORT = 8081

# Names in the folder of a proxy.
SETTINGS_FILE = "proxy.toml"
SECRET_FILE = "server.secret"  # noqa: S105 - the name of a file
DATA_FOLDER = "data"


def make_proxy(folder: Path, secret_file: Path, **settings: Any) -> None:
    """Write the settings and a copy of the secret, both or neither, and create the database."""
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
    least_clients: int = ProxySettings.least_clients,
    port: int = DEFAULT_PORT,
    watch_port: int = DEFAULT_WATCH_PORT,
    host: str = Listen.host,
    relay: bool = False,
    **texts: str,
) -> str:
    """Return a `proxy.toml` with these values, and the defaults for all others.

    Args:
        least_clients: The crowd; the limits of one address follow from it.
        port: Where clients find the proxy.
        watch_port: Where the operator watches it.
        host: The address to listen on.
        relay: Whether all clients come from one address, which then has no limit.
        texts: Other settings that the template names.
    """
    rate = Rate(0, per_epoch=0) if relay else Rate.for_crowd(least_clients)
    connections = 0 if relay else Listen.connections_per_address
    texts["host"] = host
    template = (files(__package__) / "proxy.toml").read_text(encoding="utf-8")
    return template.format(
        # TOML has the same notation for texts as JSON.
        **{name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()},
        least_clients=least_clients,
        service=render_settings(ProxySettings, omit={"least_clients"}),
        rate=render_settings(Rate, **vars(rate)),
        caps=render_settings(Listen, connections_per_address=connections),
        port=port,
        watch_port=watch_port,
    )
