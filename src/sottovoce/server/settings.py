"""What the operator of a server decides, in one TOML file."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path  # noqa: TC003 - read_settings reads the annotations
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.server.store import database_url
from sottovoce.service import Listen, Watch, read_settings
from sottovoce.settings import check, setting
from sottovoce.training import DEFAULT, Participation, Settings

if TYPE_CHECKING:
    from typing import Self

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class ProxyAccess:
    secret_sha256: str
    """SHA-256 of its secret, in hexadecimal: this file opens nothing."""

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.secret_sha256):
            raise SettingsError(
                "secret_sha256 must be 64 lower-case hexadecimal digits: "
                "printf %s SECRET | sha256sum"
            )


@dataclass(frozen=True)
class ServerSettings:
    """A server. Every field is explained for its operator in `deploy/server.example.toml`."""

    keys: Path
    """The file of the server's own keys, made by `sottovoce server init`."""
    catalogue: Path
    """Which thing is item number i when the service begins, as JSON."""
    proxies: dict[str, ProxyAccess]
    """Who may hand in chunks, by name."""
    database: str = "sqlite:///server.sqlite"
    """SQLAlchemy's URL; SQLite or PostgreSQL."""
    training: Settings = field(default_factory=lambda: Settings.preset(DEFAULT))
    """What is trained: in the file the name of a preset, and what differs from it."""
    epoch_seconds: int = setting(
        86_400, "shortest length of an epoch in seconds; then it waits for its crowd", least=1
    )
    grace_seconds: float = setting(
        3_600.0, "seconds to wait for proxies that say nothing or hand nothing in", least=0
    )
    keep_epochs: int = setting(100, "epochs whose models and sums are kept", least=1)
    terms: Participation = field(default_factory=Participation)
    """How often a device takes part, and among how many."""
    most_chunks: int = setting(100_000, "chunks that one proxy may hand in of one epoch", least=1)
    most_bytes: int = setting(5 * 2**30, "bytes of those chunks", least=1)
    openers: int = setting(0, "processes that open reports; 0: one for each core", least=0)
    heartbeat: float = setting(5.0, "seconds between two looks at the clock", above=0)
    listen: Listen = field(default_factory=lambda: Listen(port=8090))
    watch: Watch = field(default_factory=lambda: Watch(port=8091))
    """Where the operator sees whether it is well; never public."""

    def __post_init__(self) -> None:
        check(self)
        _check_proxies(self.proxies)
        self.watch.check_apart(self.listen)

    @classmethod
    def read(cls, path: Path) -> Self:
        """From TOML; paths, and that of an SQLite database too, are relative to the file."""
        settings = read_settings(path, cls)
        return replace(settings, database=database_url(settings.database, path.parent))

    def at_ports(self, port: int | None, watch_port: int | None) -> Self:
        """The same for one worker of several on a machine; None leaves a port as it is."""
        listen = self.listen if port is None else replace(self.listen, port=port)
        watch = self.watch if watch_port is None else replace(self.watch, port=watch_port)
        return replace(self, listen=listen, watch=watch)

    def proxy_of(self, secret: str) -> str | None:
        """Whose secret this is. Every known one is compared: the time taken says nothing."""
        digest = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for name, access in self.proxies.items():
            if hmac.compare_digest(access.secret_sha256, digest):
                found = name
        return found


def check_proxy_name(name: str) -> None:
    """It becomes part of the settings and of file names."""
    if not _NAME.fullmatch(name):
        raise SettingsError(f"a proxy's name is of letters, digits, '_' and '-', not {name!r:.80}")


def _check_proxies(proxies: dict[str, ProxyAccess]) -> None:
    if not proxies:
        raise SettingsError("name at least one proxy: [proxies.NAME] with its secret_sha256")
    for name in proxies:
        check_proxy_name(name)
    if len({access.secret_sha256 for access in proxies.values()}) != len(proxies):
        raise SettingsError("two proxies have the same secret: give each its own")
