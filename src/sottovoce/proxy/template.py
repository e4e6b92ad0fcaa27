"""A new settings file, every field explained."""

from __future__ import annotations

import json
from importlib.resources import files

from sottovoce.proxy.settings import ProxySettings, Rate
from sottovoce.service.listen import caps_toml

PORT, WATCH_PORT = 8080, 8081
"""Where a new proxy listens, and where it is watched."""


def settings_file(
    *,
    folder: str,
    server: str,
    secret_file: str,
    verification_key: str,
    least_clients: int = ProxySettings.least_clients,
    port: int = PORT,
    watch_port: int = WATCH_PORT,
) -> str:
    """The text of a `proxy.toml` with these values and the usual ones for the rest."""
    text = (files(__package__) / "proxy.toml").read_text(encoding="utf-8")
    rate = Rate.for_crowd(least_clients)
    return text.format(
        folder=_quoted(folder),
        server=_quoted(server),
        secret_file=_quoted(secret_file),
        verification_key=_quoted(verification_key),
        caps=caps_toml(),
        least_clients=least_clients,
        burst=rate.burst,
        per_epoch=rate.per_epoch,
        port=port,
        watch_port=watch_port,
    )


def _quoted(value: str) -> str:
    """A basic string of TOML, which is written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
