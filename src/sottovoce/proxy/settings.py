"""The proxy's settings: one TOML file, every field explained in `proxy.toml` beside this module."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - read_settings reads the annotations
from urllib.parse import urlsplit

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import MAX_CHUNK_REPORTS
from sottovoce.protocol.strict import hexadecimal
from sottovoce.service import Listen

MAX_STATEMENT = 8_000
"""Characters: several screens of a phone."""


@dataclass(frozen=True)
class Rate:
    """How fast one address may send; addresses stay in memory and are never written."""

    batches_per_minute: float = 60.0
    """In the long run. 0 switches the limit off: for use behind a relay, where all are one."""
    burst: int = 100
    """At once: people behind one shared address all come when an epoch opens."""

    def __post_init__(self) -> None:
        if self.batches_per_minute < 0:
            raise SettingsError(
                f"batches_per_minute must be 0 (off) or more, not {self.batches_per_minute}"
            )
        if self.burst < 1:
            raise SettingsError(f"burst must be at least 1, not {self.burst}")


@dataclass(frozen=True)
class Tls:
    """How the server is known to the proxy, and the proxy to the server, beyond the usual."""

    authority: Path | None = None
    """PEM authorities that may have signed the server's certificate, instead of the system's."""
    certificate: Path | None = None
    """PEM chain that the proxy shows to the server."""
    private_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise SettingsError("certificate and private_key belong together: name both or none")


@dataclass(frozen=True)
class Page:
    """The page for browsers, at the proxy's own address: see `sottovoce.page`."""

    serve: bool = False
    """Whether there is one. Browsers need TLS for it, or localhost."""
    statement: str = ""
    """What the page says about privacy, in plain text; `sottovoce privacy` writes one."""
    panel: Path | None = None
    """Public test people, on whom the page measures every epoch's model; none: no curve."""

    def __post_init__(self) -> None:
        if len(self.statement) > MAX_STATEMENT:
            raise SettingsError(
                f"page.statement has {len(self.statement)} characters, "
                f"at most {MAX_STATEMENT} are shown"
            )


@dataclass(frozen=True)
class ProxySettings:
    folder: Path
    """Where the database lies; private to the proxy's user."""
    server: str
    """The server's address."""
    secret_file: Path
    """Holds the secret by which the server knows this proxy."""
    verification_key: str
    """The server's Ed25519 key, in hexadecimal: only what it signed is shown to clients."""
    least_clients: int = 100
    """Reports of fewer people are discarded; the larger of this and the manifest's number holds."""
    poll_seconds: float = 5.0
    """Between two beats: ask the server, tell how many wait, flush, forward."""
    keep_models: int = 10
    """So many epochs' model files are kept: for clients that come late, for the page's curve."""
    chunk_reports: int = MAX_CHUNK_REPORTS
    """Reports in one request to the server."""
    rate: Rate = field(default_factory=Rate)
    tls: Tls = field(default_factory=Tls)
    listen: Listen = field(default_factory=Listen)
    page: Page = field(default_factory=Page)

    def __post_init__(self) -> None:
        if not _is_address(self.server):
            raise SettingsError(
                f"server must be https://HOST or https://HOST:PORT, not {self.server}"
            )
        for name in ("least_clients", "keep_models"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.poll_seconds <= 0:
            raise SettingsError(f"poll_seconds must be above 0, not {self.poll_seconds}")
        if not 1 <= self.chunk_reports <= MAX_CHUNK_REPORTS:
            raise SettingsError(
                f"chunk_reports must lie in 1..{MAX_CHUNK_REPORTS}, not {self.chunk_reports}"
            )
        try:
            hexadecimal(self.verification_key, what="verification_key")
        except ProtocolError as error:
            raise SettingsError(str(error)) from error

    @property
    def key(self) -> bytes:
        """The verification key's 32 bytes."""
        return bytes.fromhex(self.verification_key)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(host) and plain
