"""The settings file with every field explained: what `init` writes and `deploy/` shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sottovoce.training import DEFAULT, Settings, all_settings, presets

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

# Which thing is item number i. It may not change while a training runs.
catalogue = {catalogue}

# How long devices may report in an epoch, in seconds.
epoch_seconds = {epoch_seconds}

# How long after closing slow proxies are waited for, in seconds. What comes later is lost.
grace_seconds = 3600

# Close an epoch early when so many batches wait at the proxies in all; 0: by the clock alone.
target_clients = 0

# A proxy forwards the reports of at least so many devices, or none: the crowd to hide in.
least_clients = {least_clients}

# Processes that open reports; 0: one for each core.
openers = 0

# Seconds between two looks at the clock.
heartbeat = 5

# What is trained. This table may not change while a training runs, except for `epochs`.
[training]
# {presets}: everything that is not set below comes from it.
preset = {preset}
{training}
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

# Who may hand in reports: a table for each proxy, with the SHA-256 of its secret
# (printf %s SECRET | sha256sum). All of them are waited for before an epoch is applied.
{proxies}"""


def server_toml(
    *,
    proxies: Mapping[str, str],
    preset: str = DEFAULT,
    database: str = "sqlite:///server.sqlite",
    epoch_seconds: int = 86_400,
    least_clients: int = 100,
    port: int = 8090,
) -> str:
    """The file; `proxies` maps names to the SHA-256 of their secrets in hexadecimal."""
    return TEXT.format(
        database=_toml(database),
        keys=_toml("keys.json"),
        catalogue=_toml("catalogue.json"),
        epoch_seconds=epoch_seconds,
        least_clients=least_clients,
        port=port,
        presets=", ".join(presets()),
        preset=_toml(preset),
        training=_training(Settings.preset(preset)),
        proxies="\n".join(
            f"[proxies.{name}]\nsecret_sha256 = {_toml(digest)}\n"
            for name, digest in proxies.items()
        ),
    )


def _training(preset: Settings) -> str:
    """Every setting as a comment with the preset's value, but for those of other mechanisms."""
    values, known = preset.as_dict(), all_settings()
    return "".join(
        f"# {name} = {_toml(value)}  # {known[name].help}\n" for name, value in values.items()
    )


def _toml(value: object) -> str:
    """Strings, numbers and booleans are written alike in JSON and in TOML."""
    return json.dumps(value)
