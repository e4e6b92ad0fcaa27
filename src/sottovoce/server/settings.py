"""The server's settings: one TOML file, whose template `server.toml` explains every field."""

import hmac
import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Self

from sottovoce.errors import SettingsError
from sottovoce.protocol import SEALED_BYTES
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES
from sottovoce.server.store import parse_database_url
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.toml import read_settings
from sottovoce.settings import check, setting
from sottovoce.training import DEFAULT_PRESET, Participation, Settings
from sottovoce.training.items import DEFAULT_ROW_LIMIT

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DIGEST_PATTERN = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class ProxyAccess:
    """How the server recognises a proxy."""

    secret_sha256: str
    """SHA-256 of the proxy's secret, in hexadecimal. The secret cannot be derived from it."""

    def __post_init__(self) -> None:
        if not _DIGEST_PATTERN.fullmatch(self.secret_sha256):
            raise SettingsError(
                "secret_sha256 must be 64 lower-case hexadecimal digits: "
                "printf %s SECRET | sha256sum",
                setting="secret_sha256",
            )


@dataclass(frozen=True)
class ServerSettings:
    """All settings of a server."""

    keys: Path
    catalogue: Path
    proxies: dict[str, ProxyAccess]
    database: str = "sqlite:///server.sqlite"
    start: Path | None = None
    training: Settings = field(default_factory=lambda: Settings.preset(DEFAULT_PRESET))
    epoch_seconds: int = setting(
        86_400,
        "minimum length of an epoch in seconds; it stays open longer if too few people have "
        "reported",
        min_value=1,
        max_value=10**9,
    )
    grace_seconds: float = setting(
        3_600.0,
        "seconds to wait for a silent proxy when an epoch is over, counted from its last chunk; "
        "ten times as long in all",
        min_value=0,
    )
    row_limit: float = setting(
        DEFAULT_ROW_LIMIT,
        "limit on how far one item's vector may move in an epoch, against attackers; 1 is the "
        "upper quartile of the distances of all items that move; 0: no limit",
        min_value=0,
    )
    keep_epochs: int = setting(
        100, "number of the latest epochs whose models and sums are kept", min_value=1
    )
    terms: Participation = field(default_factory=Participation)
    collect_reports: bool = setting(
        default=True,
        help="whether to ask devices for reports; if not, nobody spends anything, and lists come "
        "from the model as it is, such as a public start",
    )
    max_chunks: int = setting(
        100_000, "maximum number of chunks that one proxy may send for one epoch", min_value=1
    )
    max_bytes: int = setting(
        5 * 2**30, "maximum number of bytes that one proxy may send for one epoch", min_value=1
    )
    openers: int = setting(
        0, "number of processes that decrypt reports; 0: one for each core", min_value=0
    )
    heartbeat: float = setting(
        5.0,
        "seconds between two checks whether an epoch can be closed or published",
        above=0,
        max_value=86_400,
    )
    log_json: bool = setting(
        default=False, help="whether to write each line of the log as a JSON object"
    )
    listen: Listen = field(default_factory=lambda: Listen(port=8090))
    watch: Watch = field(default_factory=lambda: Watch(port=8091))

    def __post_init__(self) -> None:
        check(self)
        if not self.proxies:
            raise SettingsError("name at least one proxy: [proxies.NAME] with its secret_sha256")
        for name in self.proxies:
            check_proxy_name(name)
        # A proxy is recognised by its secret. The crowds of two proxies with the same secret would
        # be counted as one crowd.
        if len({access.secret_sha256 for access in self.proxies.values()}) != len(self.proxies):
            raise SettingsError("two proxies have the same secret_sha256: give each its own")
        if self.terms.accounts and len(self.proxies) > 1:
            raise SettingsError(
                f"terms.accounts must be false with {len(self.proxies)} proxies. With accounts a "
                "single proxy issues all tokens: leave the others out of [proxies]",
                setting="terms.accounts",
            )
        self.watch.check_ports_differ(self.listen)
        # With a smaller limit no epoch could be handed in, and devices would spend epsilon for
        # nothing.
        min_reports = self.training.dummies + self.terms.min_clients * self.training.reports
        min_bytes = SEALED_BYTES * min_reports + CHUNK_HEADER_BYTES
        if self.max_bytes < min_bytes:
            raise SettingsError(
                f"max_bytes must be at least {min_bytes}, not {self.max_bytes}: the dummies and "
                "the crowd of one epoch are larger",
                setting="max_bytes",
            )

    @property
    def certificates(self) -> tuple[Path | None, ...]:
        """Certificates of the server, whose expiry is watched; None where there is none."""
        return self.listen.certificate, self.watch.certificate

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a TOML file; paths, also that of an SQLite database, are relative to the file."""
        settings = read_settings(path, cls)
        return replace(settings, database=parse_database_url(settings.database, path.parent))

    def replace_ports(self, port: int | None, watch_port: int | None) -> Self:
        """Return the settings with other ports, for several workers on a machine.

        None keeps a port.
        """
        listen = self.listen if port is None else replace(self.listen, port=port)
        watch = self.watch if watch_port is None else replace(self.watch, port=watch_port)
        return replace(self, listen=listen, watch=watch)

    def find_proxy(self, secret: str) -> str | None:
        """Return the name of the proxy that has this secret; None if no proxy has it."""
        # A header may contain any bytes, and these must not raise an error.
        digest = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
        # Compare with all digests, so that the time taken reveals nothing about them.
        names = [
            name
            for name, access in self.proxies.items()
            if hmac.compare_digest(access.secret_sha256, digest)
        ]
        return names[0] if names else None


def check_proxy_name(name: str) -> None:
    """Raise a `SettingsError` unless a name can be part of the settings and of file names."""
    if not _NAME_PATTERN.fullmatch(name):
        raise SettingsError(f"a proxy's name must be letters, digits, _ and -, not {name!r:.80}")
