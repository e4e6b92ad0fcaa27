"""The folder that `sottovoce up` makes: what lies where, and how its settings are changed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.atomic import write_atomically
from sottovoce.errors import SettingsError
from sottovoce.proxy import ProxySettings
from sottovoce.server import ServerSettings
from sottovoce.service import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sottovoce.training import Settings

ABOUT = "up.json"
"""What the catalogue was made from."""


def server_toml(folder: Path) -> Path:
    """The server's settings."""
    return folder / "server" / "server.toml"


def proxy_toml(folder: Path) -> Path:
    """The proxy's settings."""
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
    target_clients: int = 0
    server: str = ""
    """The server's address."""

    @classmethod
    def read(cls, folder: Path) -> LiveSystem:
        """Of a folder made by `sottovoce up`."""
        if not is_made(folder):
            raise SettingsError(f"{folder}: nothing is there yet; run: sottovoce up {folder}")
        server = ServerSettings.read(server_toml(folder))
        proxy = read_settings(proxy_toml(folder), ProxySettings)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return cls(
            f"http://{proxy.listen.host}:{proxy.listen.port}",
            proxy.key,
            about["data"],
            about["min_interactions"],
            server.training,
            server.target_clients,
            proxy.server,
        )


def set_values(path: Path, values: Mapping[tuple[str, str], object]) -> None:
    """Set what is not None, by table and name; all of it or nothing."""
    text = path.read_text(encoding="utf-8")
    for (table, name), value in values.items():
        if value is not None:
            text = with_value(text, table, name, value)
    write_atomically(path, text.encode())


def with_value(text: str, table: str, name: str, value: object) -> str:
    r"""A settings file with one value set, whether its line was a comment or not.

    >>> with_value("a = 1\n[b]\n# a = 2  # why\n", "b", "a", 3)
    'a = 1\n[b]\na = 3\n'
    """
    lines, inside = text.splitlines(), ""
    found: dict[bool, int] = {}
    for number, line in enumerate(lines):
        if header := re.match(r"\[(.+)\]", line):
            inside = header[1]
        elif inside == table and (known := re.match(rf"(# )?{name} = ", line)):
            found.setdefault(known[1] is None, number)
    if not found:
        raise SettingsError(f"the settings have no line for {name}: put it back by hand")
    # A line that counts goes before a comment that only shows it.
    lines[found[max(found)]] = f"{name} = {json.dumps(value)}"
    return "\n".join(lines) + "\n"
