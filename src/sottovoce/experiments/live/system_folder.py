"""The folder that `sottovoce up` makes: what lies where, and how its settings are changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tomlkit

from sottovoce.atomic import write_atomically
from sottovoce.errors import SettingsError
from sottovoce.proxy import ProxySettings
from sottovoce.server import ServerSettings
from sottovoce.service import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tomlkit.container import Container

    from sottovoce.service import Listen, Watch
    from sottovoce.training import Settings

ABOUT = "up.json"
"""What the catalogue was made from."""


def server_toml(folder: Path) -> Path:
    return folder / "server" / "server.toml"


def proxy_toml(folder: Path) -> Path:
    return folder / "proxy" / "proxy.toml"


def is_made(folder: Path) -> bool:
    """Whether there has been a first start: the proxy's settings are put in place last."""
    return proxy_toml(folder).exists()


@dataclass(frozen=True)
class LiveSystem:
    """A live system, as far as a client's side knows it; the rest is known of our own folder."""

    proxy: str
    """The proxy's address."""
    key: bytes
    """The server's verification key."""
    data: str | None = None
    """What the catalogue was made from."""
    min_interactions: int = 0
    training: Settings | None = None
    least_clients: int = 1
    """For so many an epoch waits."""
    server: str = ""
    """The server's address."""
    server_watch: str = ""
    """Where it is watched, and"""
    proxy_watch: str = ""
    """where the proxy is."""

    @classmethod
    def read(cls, folder: Path) -> LiveSystem:
        """Of a folder made by `sottovoce up`."""
        if not is_made(folder):
            raise SettingsError(f"{folder}: nothing is there yet; run: sottovoce up {folder}")
        server = ServerSettings.read(server_toml(folder))
        proxy = read_settings(proxy_toml(folder), ProxySettings)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return cls(
            _url(proxy.listen),
            proxy.key,
            about["data"],
            about["min_interactions"],
            server.training,
            max(server.terms.least_clients, proxy.least_clients),
            proxy.server,
            _url(server.watch),
            _url(proxy.watch),
        )


def _url(at: Listen | Watch) -> str:
    return f"http://{at.host}:{at.port}"


def set_values(path: Path, values: Mapping[tuple[str, str], object]) -> None:
    """Set what is not None, by table and name, all of it or nothing; comments and order stay."""
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: cannot be read as TOML: {error}") from error
    for (table, name), value in values.items():
        if value is not None:
            _set(document.setdefault(table, {}).value if table else document, name, value)
    write_atomically(path, tomlkit.dumps(document).encode(), private=True)


def _set(table: Container, name: str, value: object) -> None:
    """Where it is; if a comment alone shows it (`# name = 1  # why`), that line comes to count."""
    lines = [line for _, line in table.body if line.as_string().startswith(f"# {name} = ")]
    if name in table or not lines:
        table[name] = value
        return
    _, mark, why = lines[0].as_string().rstrip().partition("  # ")
    lines[0].trivia.comment = f"{name} = {tomlkit.item(value).as_string()}{mark}{why}"
