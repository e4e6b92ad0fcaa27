"""Run a service with a public and an operator's listener until it is stopped."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette

from sottovoce.service.connections import ConnectionLimiter, OnRejection
from sottovoce.service.guard import GuardedProtocol
from sottovoce.service.listen import Listen, Watch
from sottovoce.service.tls import TlsConnection

log = logging.getLogger("sottovoce")

# File descriptors of a process on Windows, which does not tell its limit.
DEFAULT_FILE_LIMIT = 512
# File descriptors that clients' connections must leave for databases, processes and the server.
RESERVED_FILES = 256
# Connections that a listener accepts in one turn of the event loop, at most.
ACCEPTS_PER_TURN = 16
# Seconds that requests under way have to finish when the service stops.
STOP_GRACE_SECONDS = 30


def run_service(
    app: Starlette,
    listen: Listen,
    watch_app: Starlette,
    watch: Watch,
    *,
    on_rejection: OnRejection,
) -> None:
    """Serve both applications until SIGTERM or Ctrl-C.

    Both listeners start and end together.

    Args:
        app: The public application.
        listen: Settings of the listener for `app`.
        watch_app: The operator's application.
        watch: Settings of the listener for `watch_app`.
        on_rejection: Called with the reason when a connection to `app` is not served.
    """
    max_connections = max(raise_file_limit(listen.connections + RESERVED_FILES) - RESERVED_FILES, 1)
    max_connections = min(max_connections, listen.connections)
    limiter = ConnectionLimiter(max_connections, listen.connections_per_address, on_rejection)
    watch_limiter = ConnectionLimiter(watch.connections, watch.connections_per_address)
    servers = [
        Listener(app, listen, limiter, "for its clients"),
        Listener(watch_app, watch, watch_limiter, "only for its operator ([watch])"),
    ]

    def stop(*_: object) -> None:
        if not servers[0].should_exit:
            log.info("stopping: requests under way have %d s to finish", STOP_GRACE_SECONDS)
        for server in servers:
            server.should_exit = True

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, stop)
    with asyncio.Runner(loop_factory=servers[0].config.get_loop_factory()) as runner:
        if not runner.run(_serve(servers, stop)):
            sys.exit(1)


def raise_file_limit(wanted: int) -> int:
    """Raise the limit of file descriptors as far as the system allows, and return the limit.

    Args:
        wanted: The limit to set if the system allows any number.
    """
    if sys.platform == "win32":
        return DEFAULT_FILE_LIMIT
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, wanted)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Listener(uvicorn.Server):
    """A listener of a service. `run_service` handles signals for all listeners."""

    def __init__(self, app: Starlette, listen: Listen, limiter: ConnectionLimiter, purpose: str):
        self._scheme = "http" if listen.certificate is None else "https"
        self._purpose = purpose
        self._sockets = listen.bind()
        config = uvicorn.Config(
            app,
            host=listen.host,
            port=listen.port,
            http=_make_protocol_factory(listen, limiter),
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            log_config=None,
            ws="none",  # a refused WebSocket would be logged with the client's address
            timeout_graceful_shutdown=STOP_GRACE_SECONDS,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve_bound(self) -> None:
        """Serve on the sockets that were bound when the listener was created."""
        # In each turn, the event loop accepts one connection from each socket. While the loop is
        # busy, connections would wait for seconds until the system drops them. So give it several
        # copies of each socket.
        copies = [bound.dup() for bound in self._sockets for _ in range(ACCEPTS_PER_TURN - 1)]
        await self.serve([*self._sockets, *copies])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for host, port in dict.fromkeys(bound.getsockname()[:2] for bound in self._sockets):
            url_host = f"[{host}]" if ":" in host else host
            log.info("running on %s://%s:%d, %s", self._scheme, url_host, port, self._purpose)


def _make_protocol_factory(listen: Listen, limiter: ConnectionLimiter) -> type[asyncio.Protocol]:
    """Return the function that uvicorn calls to make the protocol of a connection.

    uvicorn expects a class, but calls it like any function.
    """
    context = listen.make_tls_context()
    make_http = partial(GuardedProtocol, listen, limiter)
    if context is None:
        return cast("type[asyncio.Protocol]", make_http)

    def make_tls(**arguments: Any) -> TlsConnection:
        make_inner = partial(make_http, **arguments)
        return TlsConnection(limiter, listen.header_seconds, context, make_inner)

    return cast("type[asyncio.Protocol]", make_tls)


async def _serve(servers: Sequence[Listener], stop: Callable[[], None]) -> bool:
    """Start one listener after the other, and serve until they stop.

    Returns:
        Whether all listeners have started.
    """
    tasks = []
    for server in servers:
        tasks.append(asyncio.create_task(_serve_until_stopped(server, stop)))
        while not (server.started or tasks[-1].done()):
            await asyncio.sleep(0.01)
    return all(await asyncio.gather(*tasks))


async def _serve_until_stopped(server: Listener, stop: Callable[[], None]) -> bool:
    try:
        await server.serve_bound()
    except SystemExit:  # the listener could not start, and uvicorn has logged why
        return False
    finally:
        stop()
    return server.started
