"""What the operator of a server decides, in one TOML file."""

import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from sottovoce.errors import SettingsError
from sottovoce.protocol import SEALED_BYTES
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES
from sottovoce.server.store import parse_database_url
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.toml import read_settings, render_settings
from sottovoce.settings import check, get_settings, setting
from sottovoce.training import (
    DEFAULT_PRESET,
    Participation,
    Settings,
    list_basic_presets,
    list_settings,
)
from sottovoce.training.items import DEFAULT_ROW_LIMIT

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
                "printf %s SECRET | sha256sum",
                setting="secret_sha256",
            )


@dataclass(frozen=True)
class ServerSettings:
    """A server. Every field is explained for its operator in `deploy/server.example.toml`."""

    keys: Path
    catalogue: Path
    proxies: dict[str, ProxyAccess]
    database: str = "sqlite:///server.sqlite"
    training: Settings = field(default_factory=lambda: Settings.preset(DEFAULT_PRESET))
    epoch_seconds: int = setting(
        86_400,
        "shortest length of an epoch in seconds; then it waits for its crowd",
        min_value=1,
        max_value=10**9,
    )
    grace_seconds: float = setting(
        3_600.0,
        "seconds to wait for silent proxies; begins anew with each chunk, ten times at most",
        min_value=0,
    )
    row_limit: float = setting(
        DEFAULT_ROW_LIMIT,
        "against liars: how far an item may move in an epoch, by what three quarters of those that "
        "move stay within; 0: no limit",
        min_value=0,
    )
    keep_epochs: int = setting(100, "epochs whose models and sums are kept", min_value=1)
    terms: Participation = field(default_factory=Participation)
    most_chunks: int = setting(
        100_000, "chunks that one proxy may hand in of one epoch", min_value=1
    )
    most_bytes: int = setting(5 * 2**30, "bytes of those chunks", min_value=1)
    openers: int = setting(0, "processes that open reports; 0: one for each core", min_value=0)
    heartbeat: float = setting(
        5.0, "seconds between two looks at the clock", above=0, max_value=86_400
    )
    log_json: bool = setting(default=False, help="whether each line of the log is a JSON object")
    listen: Listen = field(default_factory=lambda: Listen(port=8090))
    watch: Watch = field(default_factory=lambda: Watch(port=8091))

    def __post_init__(self) -> None:
        check(self)
        _check_proxies(self.proxies)
        if self.terms.accounts and len(self.proxies) > 1:
            raise SettingsError(
                f"terms.accounts must be false with {len(self.proxies)} proxies: one gives all "
                "tokens, so leave the others out of [proxies]",
                setting="terms.accounts",
            )
        self.watch.check_ports_differ(self.listen)
        least = self.training.dummies + self.terms.least_clients * self.training.reports
        if self.most_bytes < SEALED_BYTES * least + CHUNK_HEADER_BYTES:
            raise SettingsError(
                f"most_bytes must be at least {SEALED_BYTES * least + CHUNK_HEADER_BYTES}, not "
                f"{self.most_bytes}: the dummies and the crowd of one epoch are larger",
                setting="most_bytes",
            )

    @property
    def certificates(self) -> tuple[Path | None, ...]:
        return self.listen.certificate, self.watch.certificate

    @classmethod
    def read(cls, path: Path) -> Self:
        """From TOML; paths, and that of an SQLite database too, are relative to the file."""
        settings = read_settings(path, cls)
        return replace(settings, database=parse_database_url(settings.database, path.parent))

    def replace_ports(self, port: int | None, watch_port: int | None) -> Self:
        """The same for one worker of several on a machine; None leaves a port as it is."""
        listen = self.listen if port is None else replace(self.listen, port=port)
        watch = self.watch if watch_port is None else replace(self.watch, port=watch_port)
        return replace(self, listen=listen, watch=watch)

    def find_proxy(self, secret: str) -> str | None:
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
        raise SettingsError(f"a proxy's name must be letters, digits, _ and -, not {name!r:.80}")


def _check_proxies(proxies: dict[str, ProxyAccess]) -> None:
    if not proxies:
        raise SettingsError("name at least one proxy: [proxies.NAME] with its secret_sha256")
    for name in proxies:
        check_proxy_name(name)
    if len({access.secret_sha256 for access in proxies.values()}) != len(proxies):
        raise SettingsError("two proxies have the same secret_sha256: give each its own")


# The settings file with every field explained: what `init` writes and `deploy/` shows.

TEXT = """\
# A sottovoce server: it opens what proxies hand in, updates the model, publishes the next epoch.
# Paths are relative to this file. Unknown names are refused.

# Where epochs, sums and models are kept. SQLite for one machine; PostgreSQL if several servers
# (workers) share the work: "postgresql://user@host/name", the password in ~/.pgpass or PGPASSWORD.
# Keep backups of the database and of the keys apart: together they could open the epoch that was
# open when they were made. PostgreSQL's write-ahead log and its archives keep the wrapped key of an
# epoch for as long as you keep them, longer than the database itself does.
database = {database}

# The server's own keys, made by `sottovoce server init`; readable by its owner alone (mode 600).
# Devices know the public half of one of them: if this file is lost, they all must be set up anew.
keys = {keys}

# Which thing is item number i when the service begins. From its first epoch on the catalogue is in
# the database: `sottovoce server catalogue update` adds, renames and retires items.
catalogue = {catalogue}

# Epochs, and what one proxy may hand in of one: more is refused. `most_bytes` must be above the
# proxy's own, or the end of a large epoch is lost.
{service}
# What is trained. This table may not change while a training runs, except for `half_life` and, as
# far as the terms of the devices allow it, `epochs` and `lifetime`. With anything else changed,
# `sottovoce server training begin` begins another training, and devices ask their owners.
[training]
# {presets}: everything that is not set below comes from it.
preset = {preset}
{training}
# What devices are asked for beside the training; their owners accept it. While a training runs
# nothing here may become worse for them, or they would stop reporting; better is fine.
[terms]
{terms}
# Where proxies reach this server, and how.
[listen]
host = {host}
port = {port}
# PEM files. Without a certificate something in front of the server must speak TLS.
# certificate = "server.pem"
# private_key = "server.key"
# With this, who connects must show a certificate that one of these authorities signed, on top of
# the proxy's secret.
# client_authority = "proxies.pem"
# How much of the server one connection, and one address, may use (docs/operators.md).
{caps}
# Where you watch the server: /healthz, /readyz and /metrics. Never open it to the public.
[watch]
host = "127.0.0.1"
port = {watch_port}

# Who may hand in reports: a table for each proxy, with the SHA-256 of its secret
# (printf %s SECRET | sha256sum). All of them are waited for before an epoch is applied.
{proxies}"""


def render_server_toml(
    *,
    proxies: Mapping[str, str],
    training: Settings,
    database: str = ServerSettings.database,
    epoch_seconds: int = ServerSettings.epoch_seconds,
    least_clients: int = Participation.least_clients,
    hold: int = Participation.hold,
    accounts: bool = False,
    host: str = Listen.host,
    port: int = 8090,
    watch_port: int = 8091,
) -> str:
    """The file; `proxies` maps names to the SHA-256 of their secrets in hexadecimal."""
    asked: dict[str, Any] = {"least_clients": least_clients, "hold": hold}
    asked |= {"accounts": True} if accounts else {}
    others = set(get_settings(Participation)) - set(asked)
    return TEXT.format(
        database=json.dumps(database),
        keys=json.dumps("keys.json"),
        catalogue=json.dumps("catalogue.json"),
        service=render_settings(ServerSettings, epoch_seconds=epoch_seconds),
        host=json.dumps(host),
        port=port,
        watch_port=watch_port,
        terms=render_settings(Participation, omit=others, **asked)
        + render_settings(Participation, omit=set(asked), commented=True),
        caps=render_settings(Listen),
        presets=", ".join(list_basic_presets()),
        preset=json.dumps(training.mechanism),
        training=_training(training),
        proxies="\n".join(
            f"[proxies.{name}]\nsecret_sha256 = {json.dumps(digest)}\n"
            for name, digest in proxies.items()
        ),
    )


def _training(training: Settings) -> str:
    """Every setting with its meaning; as a comment where it is the preset's."""
    usual, known = Settings.preset(training.mechanism).as_dict(), list_settings()
    return "".join(
        f"{'# ' * (usual[name] == value)}{name} = {json.dumps(value)}  # {known[name].help}\n"
        for name, value in training.as_dict().items()
    )
