"""Run a service until it is told to stop: no access log, no banner, a clean end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - read_settings reads the annotations
from typing import TYPE_CHECKING

import uvicorn

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        for name in ("certificate", "private_key", "client_authority"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise SettingsError(f"{name}: {path} is not a file that can be read")


@dataclass(frozen=True)
class Watch:
    """Where the operator watches a service (`sottovoce.service.watch`); no place for the public."""

    host: str = "127.0.0.1"
    port: int = 8081

    @property
    def listen(self) -> Listen:
        return Listen(self.host, self.port)

    def __post_init__(self) -> None:
        _ = self.listen  # refuses what cannot be listened at


def run(app: Starlette, listen: Listen, watch: Starlette, at: Watch, *, grace: int = 30) -> None:
    """Serve both until SIGTERM or Ctrl-C; requests under way get `grace` seconds to finish.

    Both listeners live and end together. That for the operator is there as soon as the other is.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s"
    )
    for chatty in ("uvicorn.access", "httpx", "httpcore"):
        logging.getLogger(chatty).disabled = True
    servers = [Listener(_config(app, listen, grace)), Listener(_config(watch, at.listen, grace))]
    _end_cleanly(servers)
    with asyncio.Runner(loop_factory=servers[0].config.get_loop_factory()) as runner:
        if not runner.run(_serve(*servers)):
            sys.exit(1)


class Listener(uvicorn.Server):
    """Leaves signals alone: one of two servers would catch them for itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(*servers: Listener) -> bool:
    """One after the other; whether all of them could listen and none ended by itself."""
    tasks = []
    for server in servers:
        tasks.append(asyncio.create_task(_until_ended(server, servers)))
        while not (server.started or tasks[-1].done()):
            await asyncio.sleep(0.01)
    return all(await asyncio.gather(*tasks))


async def _until_ended(server: Listener, servers: Sequence[Listener]) -> bool:
    try:
        await server.serve()
    except SystemExit:  # the address is taken, say: it has been logged
        return False
    finally:
        _stop(servers)
    return server.started


def _config(app: Starlette, listen: Listen, grace: int) -> uvicorn.Config:
    authority = listen.client_authority
    return uvicorn.Config(
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


def _end_cleanly(servers: Sequence[Listener]) -> None:
    """A signal ends the process by letting both finish."""

    def stop(*_: object) -> None:
        _stop(servers)

    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, stop)


def _stop(servers: Sequence[Listener]) -> None:
    for server in servers:
        server.should_exit = True
