"""The settings file with every field explained: what `init` writes and `deploy/` shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sottovoce.server.settings import ServerSettings
from sottovoce.service.listen import caps_toml
from sottovoce.settings import stated
from sottovoce.training import Participation, Settings, all_settings, presets

if TYPE_CHECKING:
    from collections.abc import Mapping

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

# How long an epoch takes at least, in seconds. Then it waits for its crowd: see [terms].
epoch_seconds = {epoch_seconds}

# How long proxies are waited for, in seconds: those that say nothing when an epoch's time is over,
# and those that have not handed in all that they have when it is closed. Every new chunk of such a
# proxy lets this begin anew, up to ten times as long after the closing. What comes later is lost.
grace_seconds = 3600

# Epochs whose models and sums are kept in the database; what is older is deleted.
keep_epochs = 100

# What one proxy may hand in of one epoch; more is refused, and what came before counts. Above the
# proxy's own `most_bytes`, or the end of a large epoch is lost.
most_chunks = 100000
most_bytes = 5368709120

# Processes that open reports; 0: one for each core.
openers = 0

# Seconds between two looks at the clock.
heartbeat = 5

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
least_clients = {least_clients}  # {least_clients_help}
{terms}
# Where proxies reach this server, and how.
[listen]
host = "127.0.0.1"
port = {port}
# PEM files. Without a certificate something in front of the server must speak TLS.
# certificate = "server.pem"
# private_key = "server.key"
# With this, who connects must show a certificate that one of these authorities signed, on top of
# the proxy's secret.
# client_authority = "proxies.pem"
# How much of the server one connection, and one address, may use (docs/operations.md).
{caps}
# Where you watch the server: /healthz, /readyz and /metrics. Never open it to the public.
[watch]
host = "127.0.0.1"
port = {watch_port}

# Who may hand in reports: a table for each proxy, with the SHA-256 of its secret
# (printf %s SECRET | sha256sum). All of them are waited for before an epoch is applied.
{proxies}"""


def server_toml(
    *,
    proxies: Mapping[str, str],
    training: Settings,
    database: str = ServerSettings.database,
    epoch_seconds: int = ServerSettings.epoch_seconds,
    least_clients: int = Participation.least_clients,
    port: int = 8090,
    watch_port: int = 8091,
) -> str:
    """The file; `proxies` maps names to the SHA-256 of their secrets in hexadecimal."""
    return TEXT.format(
        database=_toml(database),
        keys=_toml("keys.json"),
        catalogue=_toml("catalogue.json"),
        epoch_seconds=epoch_seconds,
        least_clients=least_clients,
        port=port,
        watch_port=watch_port,
        least_clients_help=stated(Participation)["least_clients"].help,
        terms=_terms(),
        caps=caps_toml(),
        presets=", ".join(presets()),
        preset=_toml(training.mechanism),
        training=_training(training),
        proxies="\n".join(
            f"[proxies.{name}]\nsecret_sha256 = {_toml(digest)}\n"
            for name, digest in proxies.items()
        ),
    )


def _training(training: Settings) -> str:
    """Every setting with its meaning; as a comment where it is the preset's."""
    usual, known = Settings.preset(training.mechanism).as_dict(), all_settings()
    return "".join(
        f"{'# ' if usual[name] == value else ''}{name} = {_toml(value)}  # {known[name].help}\n"
        for name, value in training.as_dict().items()
    )


def _terms() -> str:
    """The others, as comments with their defaults."""
    return "".join(
        f"# {name} = {_toml(each.default)}  # {each.help}\n"
        for name, each in stated(Participation).items()
        if name != "least_clients"
    )


def _toml(value: object) -> str:
    """Strings, numbers and booleans are written alike in JSON and in TOML."""
    return json.dumps(value)
