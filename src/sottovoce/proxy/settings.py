"""The settings of the proxy, read from a TOML file. The template `proxy.toml` explains them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from sottovoce.errors import ProtocolError, SettingsError
from sottovoce.protocol import MAX_CHUNK_REPORTS, Terms
from sottovoce.protocol.strict import parse_hex
from sottovoce.proxy.origins import check_origin
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.page import Page
from sottovoce.settings import check, setting

# Batches that one address may send in an epoch, unless the crowd requires a lower limit.
MAX_BATCHES_PER_HOUSEHOLD = 20


@dataclass(frozen=True)
class Rate:
    """Limits on the batches of one address. Addresses stay in memory and are never written."""

    batches_per_minute: float = setting(
        60.0,
        "maximum number of batches of one address per minute, on average; 0: no limit, and burst "
        "has no effect",
        min_value=0,
    )
    burst: int = setting(
        10, "maximum number of batches that one address may send at once", min_value=1
    )
    per_epoch: int = setting(
        MAX_BATCHES_PER_HOUSEHOLD,
        "maximum number of batches of one address in an epoch; 0: no limit, for a relay, behind "
        "which all clients have the same address",
        min_value=0,
    )

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def for_crowd(cls, min_clients: int) -> Self:
        """Return limits far below a crowd, which are enough for a household or an office."""
        if min_clients == 1:
            return cls()
        # A fifth of a small crowd. Of a large one a two-hundredth, which is less than the false
        # names that lift an item into a list of ten (lab/docs/report.md).
        limit = max(min(min_clients // 5, MAX_BATCHES_PER_HOUSEHOLD), min_clients // 200, 1)
        return cls(burst=min(10, limit), per_epoch=limit)


@dataclass(frozen=True)
class Tls:
    """Certificates of the connection to the server, if they differ from the defaults."""

    authority: Path | None = None
    """PEM file of the authorities to trust for the server's certificate; None: the system's."""
    certificate: Path | None = None
    """PEM file of the certificate chain that the proxy shows to the server."""
    private_key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise SettingsError(
                "certificate and private_key belong together: name both or none",
                setting="private_key" if self.certificate is None else "certificate",
            )


@dataclass(frozen=True)
class ProxySettings:
    """All settings of a proxy."""

    folder: Path
    server: str
    secret_file: Path
    verification_key: str
    min_clients: int = setting(
        100,
        "minimum number of people who must report before the proxy mixes and forwards reports; "
        "the terms may require more",
        min_value=1,
    )
    max_batches: int = setting(
        1_000_000,
        "maximum number of batches in an epoch; further batches are answered with 503",
        min_value=1,
    )
    max_bytes: int = setting(
        4 * 2**30,
        "maximum size of all batches of an epoch in bytes; on the disk they need up to 4 times "
        "as much",
        min_value=1,
    )
    poll_seconds: float = setting(
        5.0,
        "seconds between two rounds of work: ask the server for the next epoch, send the status, "
        "mix, forward",
        above=0,
        max_value=86_400,
    )
    keep_models: int = setting(
        10,
        "number of the latest epochs whose models are kept, for clients that come late and for the "
        "learning curve on the page",
        min_value=1,
    )
    chunk_reports: int = setting(
        MAX_CHUNK_REPORTS,
        "number of reports in one request to the server",
        min_value=1,
        max_value=MAX_CHUNK_REPORTS,
    )
    log_json: bool = setting(
        default=False, help="whether to write each line of the log as a JSON object"
    )
    origins: tuple[str, ...] = ()
    accounts_key: str | None = None
    rate: Rate = field(default_factory=Rate)
    tls: Tls = field(default_factory=Tls)
    listen: Listen = field(default_factory=Listen)
    watch: Watch = field(default_factory=Watch)
    page: Page = field(default_factory=Page)

    def __post_init__(self) -> None:
        check(self)
        if not _is_server_address(self.server):
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
        if self.max_batches < self.min_clients:
            raise SettingsError(
                f"max_batches must be at least min_clients ({self.min_clients}), not "
                f"{self.max_batches}: the crowd would never come",
                setting="max_batches",
            )
        # An address that is a crowd by itself could surround a single person.
        limits = {"per_epoch": self.rate.per_epoch}
        if self.rate.batches_per_minute:
            limits["burst"] = self.rate.burst
        for name, value in limits.items():
            if value >= self.min_clients > 1:
                raise SettingsError(
                    f"rate.{name} must be below min_clients ({self.min_clients}), not {value}: "
                    "one address would be a whole crowd",
                    setting=f"rate.{name}",
                )

    def compute_min_crowd(self, terms: Terms) -> int:
        """Return how many people's reports are mixed, at least, in an epoch with these terms."""
        # The larger number counts, so neither operator can make the crowd smaller than the other
        # wants. A dummy hides a person as well as another person's report does, so `terms.reports`
        # dummies count as a person for the proxy's own number.
        return max(self.min_clients - terms.dummies // terms.reports, terms.min_clients)

    @property
    def certificates(self) -> tuple[Path | None, ...]:
        """Certificate files whose expiry is checked; None for those that are not set."""
        return self.listen.certificate, self.watch.certificate, self.tls.certificate

    @property
    def key(self) -> bytes:
        """The server's verification key."""
        return bytes.fromhex(self.verification_key)

    @property
    def attester(self) -> bytes | None:
        """The verification key of the product's backend, which attests accounts."""
        return None if self.accounts_key is None else bytes.fromhex(self.accounts_key)


def _is_server_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(host) and is_plain
