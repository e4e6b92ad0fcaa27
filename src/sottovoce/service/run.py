"""Run an application until it is told to stop: no access log, no banner, a clean end."""

from __future__ import annotations

import logging
import signal
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - read_settings reads the annotations
from typing import TYPE_CHECKING

import uvicorn

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from starlette.applications import Starlette


@dataclass(frozen=True)
class Listen:
    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    """PEM chain; without one something in front must speak TLS."""
    private_key: Path | None = None
    client_authority: Path | None = None
    """PEM authorities: whoever connects must show a certificate that one of them signed."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise SettingsError(f"port must lie in 0..65535, not {self.port}")
        if self.certificate is None and (self.private_key or self.client_authority):
            raise SettingsError(
                "private_key and client_authority mean nothing without a certificate: "
                "name one, or leave them out and let something in front speak TLS"
            )


def run(app: Starlette, listen: Listen, *, grace: int = 30) -> None:
    """Serve until SIGTERM or Ctrl-C; requests under way get `grace` seconds to finish."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s"
    )
    for chatty in ("uvicorn.access", "httpx", "httpcore"):
        logging.getLogger(chatty).disabled = True
    authority = listen.client_authority
    config = uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        log_config=None,
        ws="none",  # a refused WebSocket would be logged with the client's address
        timeout_graceful_shutdown=grace,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.private_key,
        ssl_ca_certs=None if authority is None else str(authority),
        ssl_cert_reqs=0 if authority is None else 2,
    )
    server = uvicorn.Server(config)
    _end_cleanly(server)
    server.run()


def _end_cleanly(server: uvicorn.Server) -> None:
    """Uvicorn raises the signal that stopped it once more when it is done: let that not kill."""

    def stop(*_: object) -> None:
        server.should_exit = True

    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, stop)
