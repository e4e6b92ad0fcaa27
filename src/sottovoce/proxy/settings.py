"""The proxy's settings: one TOML file, every field explained in `proxy.toml` beside this module."""

import json
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from sottovoce.errors import ProtocolError, SettingsError, get_reason
from sottovoce.protocol import MAX_CHUNK_REPORTS, Terms
from sottovoce.protocol.strict import parse_hex
from sottovoce.proxy.origins import check_origin
from sottovoce.proxy.store import ProxyStore
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.page import Page
from sottovoce.service.toml import render_settings
from sottovoce.settings import check, setting
from sottovoce.storage.files import write_new


@dataclass(frozen=True)
class Rate:
    """How much one address may send; addresses stay in memory and are never written."""

    batches_per_minute: float = setting(
        60.0, "in the long run; 0: as fast as it likes, burst means nothing then", min_value=0
    )
    burst: int = setting(10, "at once", min_value=1)
    per_epoch: int = setting(
        20, "in one epoch; 0: no limit, for use behind a relay, where all are one", min_value=0
    )

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def for_crowd(cls, least_clients: int) -> Self:
        """For a household or an office, and never near a crowd.

        A fifth of the crowd, at most 20 or a hundredth of it. Where there need not be one, 20.
        """
        if least_clients == 1:
            return cls()
        most = max(min(least_clients // 5, 20), least_clients // 100, 1)
        return cls(burst=min(10, most), per_epoch=most)


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
            raise SettingsError(
                "certificate and private_key belong together: name both or none",
                setting="private_key" if self.certificate is None else "certificate",
            )


@dataclass(frozen=True)
class ProxySettings:
    folder: Path
    server: str
    secret_file: Path
    verification_key: str
    least_clients: int = setting(
        100, "reports of fewer are not mixed; or the terms' number, if it is larger", min_value=1
    )
    most_batches: int = setting(
        1_000_000, "batches that an epoch takes; whoever comes later is answered 503", min_value=1
    )
    most_bytes: int = setting(
        4 * 2**30, "bytes of them, sealed; up to 4 times as many are on the disk", min_value=1
    )
    poll_seconds: float = setting(
        5.0,
        "between two beats: ask the server, tell it of the crowd, flush, forward",
        above=0,
        max_value=86_400,
    )
    keep_models: int = setting(
        10,
        "epochs whose model is kept: for clients that come late, for the page's curve",
        min_value=1,
    )
    chunk_reports: int = setting(
        MAX_CHUNK_REPORTS,
        "reports in one request to the server",
        min_value=1,
        max_value=MAX_CHUNK_REPORTS,
    )
    log_json: bool = setting(default=False, help="whether each line of the log is a JSON object")
    origins: tuple[str, ...] = ()
    accounts_key: str | None = None
    rate: Rate = field(default_factory=Rate)
    tls: Tls = field(default_factory=Tls)
    listen: Listen = field(default_factory=Listen)
    watch: Watch = field(default_factory=Watch)
    page: Page = field(default_factory=Page)

    def __post_init__(self) -> None:
        check(self)
        if not _is_address(self.server):
            raise SettingsError(
                f"server must be https://HOST or https://HOST:PORT, not {self.server}",
                setting="server",
            )
        for name in ("verification_key", "accounts_key"):
            key = getattr(self, name)
            try:
                if key is not None:
                    parse_hex(key, what=name)
            except ProtocolError as error:
                raise SettingsError(str(error), setting=name) from error
        for origin in self.origins:
            check_origin(origin)
        self.watch.check_ports_differ(self.listen)
        self._check_crowd()

    def _check_crowd(self) -> None:
        """One address must not be a crowd by itself: it could make one around a single person."""
        if self.most_batches < self.least_clients:
            raise SettingsError(
                f"most_batches must be at least least_clients ({self.least_clients}), not "
                f"{self.most_batches}: the crowd would never come",
                setting="most_batches",
            )
        given = {"per_epoch": self.rate.per_epoch}
        if self.rate.batches_per_minute:
            given["burst"] = self.rate.burst
        for name, value in given.items():
            if value >= self.least_clients > 1:
                raise SettingsError(
                    f"rate.{name} must be below least_clients ({self.least_clients}), not {value}: "
                    "one address would be a whole crowd",
                    setting=f"rate.{name}",
                )

    def least_for(self, terms: Terms) -> int:
        """People whose reports are mixed, at least, in an epoch with these terms.

        The larger number holds: neither operator can talk the other into a smaller crowd. But a
        dummy hides no worse than a report of somebody else, so dummies count for ours.
        """
        return max(self.least_clients - terms.dummies // terms.reports, terms.least_clients)

    @property
    def certificates(self) -> tuple[Path | None, ...]:
        return self.listen.certificate, self.watch.certificate, self.tls.certificate

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.verification_key)

    @property
    def attester(self) -> bytes | None:
        """The key of whoever attests accounts."""
        return None if self.accounts_key is None else bytes.fromhex(self.accounts_key)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(host) and plain


# A new proxy: its settings file, every field explained, and a copy of its secret.

PORT, WATCH_PORT = 8080, 8081
"""Where a new proxy listens, and where it is watched."""
SETTINGS, SECRET, DATA = "proxy.toml", "server.secret", "data"


def make_proxy(folder: Path, secret_file: Path, **settings: Any) -> None:
    """Write the settings and a copy of the secret, both of them or neither."""
    text = settings_file(folder=DATA, secret_file=SECRET, **settings)
    for name in (SETTINGS, SECRET):
        if (folder / name).exists():
            raise SettingsError(f"{folder / name} exists already: name another folder")
    try:
        secret = secret_file.read_bytes()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new(folder / SECRET, secret)
        write_new(folder / SETTINGS, text.encode())
        ProxyStore.create(folder / DATA)
    except OSError as error:
        (folder / SECRET).unlink(missing_ok=True)
        raise SettingsError(f"the proxy cannot be set up: {get_reason(error)}") from error


def settings_file(
    *,
    least_clients: int = ProxySettings.least_clients,
    port: int = PORT,
    watch_port: int = WATCH_PORT,
    host: str = Listen.host,
    relay: bool = False,
    **texts: str,
) -> str:
    """A `proxy.toml` with these values and the usual ones for the rest.

    Texts are written in TOML as in JSON. Behind a relay, where all have one address, there is no
    limit for it.
    """
    rate = Rate(0, per_epoch=0) if relay else Rate.for_crowd(least_clients)
    places = 0 if relay else Listen.connections_per_address
    texts["host"] = host
    return (
        (files(__package__) / "proxy.toml")
        .read_text(encoding="utf-8")
        .format(
            **{name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()},
            least_clients=least_clients,
            service=render_settings(ProxySettings, omit={"least_clients"}),
            rate=render_settings(Rate, **vars(rate)),
            caps=render_settings(Listen, connections_per_address=places),
            port=port,
            watch_port=watch_port,
        )
    )
