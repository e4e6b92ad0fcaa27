"""Run an application until it is told to stop: no access log, no banner, a clean end."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - read_settings reads the annotations
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.applications import Starlette


@dataclass(frozen=True)
class Listen:
    """Where, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    """PEM chain; without one something in front must speak TLS."""
    private_key: Path | None = None
    client_authority: Path | None = None
    """PEM authorities: whoever connects must show a certificate that one of them signed."""


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
        timeout_graceful_shutdown=grace,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.private_key,
        ssl_ca_certs=None if authority is None else str(authority),
        ssl_cert_reqs=0 if authority is None else 2,
    )
    uvicorn.Server(config).run()
