"""Run a service until it is told to stop: no access log, no banner, capped, a clean end."""

import asyncio
import logging
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Self, cast

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sottovoce.errors import ProtocolError, SottovoceError, StoreError, UnavailableError, get_reason
from sottovoce.protocol import strict
from sottovoce.service.guard import Guard, GuardedProtocol, SecuredConnection
from sottovoce.service.http import errors_as_problems
from sottovoce.service.listen import Listen, TurnAway, Watch, uncounted
from sottovoce.service.logs import LastSaid, Troubles, pasted

log = logging.getLogger("sottovoce")

USUAL = 512
"""File descriptors, where the system does not say (Windows)."""
TURNS = 16
"""Connections that are taken in one turn of the event loop, at most."""
RESERVED = 256
"""File descriptors for everything but connections of clients: databases, processes, the server."""


def run(
    app: Starlette,
    listen: Listen,
    watch: Starlette,
    at: Watch,
    *,
    turned_away: TurnAway = uncounted,
    grace: int = 30,
) -> None:
    """Serve both until SIGTERM or Ctrl-C; requests under way get `grace` seconds to finish.

    Both listeners live and end together. That for the operator is there as soon as the other is.
    `turned_away` hears why a connection to the first was not served.
    """
    most = max(raise_limit(listen.connections + RESERVED) - RESERVED, 1)
    guard = Guard(listen, min(most, listen.connections), turned_away)
    alone = Guard(at, at.connections, uncounted)
    servers = [
        Listener(app, listen, guard, grace, "for its clients"),
        Listener(watch, at, alone, grace, "for its operator alone ([watch])"),
    ]

    def stop(*_: object) -> None:
        if not servers[0].should_exit:
            log.info("stopping: requests under way have %d s to finish", grace)
        for server in servers:
            server.should_exit = True

    for told in (signal.SIGTERM, signal.SIGINT):
        signal.signal(told, stop)
    with asyncio.Runner(loop_factory=servers[0].config.get_loop_factory()) as runner:
        if not runner.run(_serve(servers, stop)):
            sys.exit(1)


def raise_limit(wanted: int) -> int:
    """Of file descriptors, of which every connection needs one: as many as the system allows."""
    if sys.platform == "win32":
        return USUAL
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, wanted)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Listener(uvicorn.Server):
    """One of two: it leaves signals alone, which it would catch for itself."""

    def __init__(self, app: Starlette, listen: Listen, guard: Guard, grace: int, purpose: str):
        self._scheme = "http" if listen.certificate is None else "https"
        self._purpose = purpose
        self._bound = listen.bind()
        super().__init__(_config(app, listen, guard, grace))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve_bound(self) -> None:
        """Each socket several times: the event loop takes one connection from each in a turn.

        While it is busy that would be too few: they would wait for seconds, and then be dropped by
        the system.
        """
        again = [each.dup() for each in self._bound for _ in range(TURNS - 1)]
        await self.serve([*self._bound, *again])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for host, port in dict.fromkeys(each.getsockname()[:2] for each in self._bound):
            where = f"[{host}]" if ":" in host else host
            log.info("running on %s://%s:%d, %s", self._scheme, where, port, self._purpose)


async def _serve(servers: Sequence[Listener], stop: Callable[[], None]) -> bool:
    """One after the other; whether all of them could start and none ended by itself."""
    tasks = []
    for server in servers:
        tasks.append(asyncio.create_task(_until_ended(server, stop)))
        while not (server.started or tasks[-1].done()):
            await asyncio.sleep(0.01)
    return all(await asyncio.gather(*tasks))


async def _until_ended(server: Listener, stop: Callable[[], None]) -> bool:
    try:
        await server.serve_bound()
    except SystemExit:  # it could not start: that has been logged
        return False
    finally:
        stop()
    return server.started


def _config(app: Starlette, listen: Listen, guard: Guard, grace: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        http=_protocol(guard, listen),
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        log_config=None,
        ws="none",  # a refused WebSocket would be logged with the client's address
        timeout_graceful_shutdown=grace,
    )


def _protocol(guard: Guard, listen: Listen) -> type[asyncio.Protocol]:
    """What uvicorn calls for each connection; a class or anything that makes a protocol."""
    tls, inside = listen.tls(), partial(GuardedProtocol, guard)

    def secured(tls: ssl.SSLContext, **given: Any) -> SecuredConnection:
        return SecuredConnection(guard, tls, partial(inside, **given))

    return cast("type[asyncio.Protocol]", inside if tls is None else partial(secured, tls))


# What a service does by itself, again and again: close, flush, forward, apply.


class Heartbeat:
    """Calls `beat` every `interval` seconds in a thread of its own, and at once after `hurry`.

    A beat that fails is said in the log, once, and tried again, later each time, up to `slowest`
    seconds: everything a beat does must be safe to do twice.
    """

    def __init__(
        self,
        beat: Callable[[], None],
        interval: float,
        troubles: Troubles,
        *,
        slowest: float = 60.0,
    ):
        self._beat = beat
        self._interval = interval
        self._slowest = max(slowest, interval)
        self._awake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.failures = 0
        """Beats in a row that failed, for whoever asks whether all is well."""
        self._troubles = troubles

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Do not wait for the next one."""
        self._awake.set()

    def stop(self) -> None:
        """Finish the beat that is under way, and no more; one that hangs may be cut off."""
        self._stopping = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(self._slowest)

    def _run(self) -> None:
        while not self._stopping:
            self._awake.clear()
            self.once()
            if not self._stopping:
                self._awake.wait(self._pause())

    def once(self) -> None:
        """One beat, and what is said of it."""
        try:
            self._beat()
            self.failures = 0
            self._troubles.tell("beat", None)
        except SottovoceError as error:
            self.failures += 1
            self._troubles.tell("beat", str(error))
        except Exception as error:
            self.failures += 1
            self._troubles.tell("beat", f"a beat failed: {error!r}; the log has more")
            log.exception("a beat failed")

    def _pause(self) -> float:
        """Seconds to the next beat. The exponent is capped: after a day of failures too."""
        return min(self._interval * 2.0 ** min(self.failures, 30), self._slowest)


# What the operator may see of a service: on an address of its own, never on the public one.
#
# How many batches wait, say, would tell an outsider when a crowd is complete except for one.

HEALTH, READY, METRICS, STATE = "/healthz", "/readyz", "/metrics", "/state"
_MOST_STATE = 65_536
_LATEST = 1e11


@dataclass(frozen=True)
class Running:
    """What a process says of itself, besides what its folder or database tells."""

    since: float
    config: str = ""
    """The settings file that it runs with."""
    troubles: tuple[str, ...] = ()
    """All that keeps it from its work now."""
    last: str | None = None
    """Its last warning or error, with its time."""
    notes: tuple[str, ...] = ()
    """What is no trouble of its own."""

    @classmethod
    def ask(cls, watch: Watch, config: Path) -> Self | str:
        """The process of these settings, which listens there, or why nothing is known of it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(watch.host, watch.host)  # noqa: S104
        where = f"{host}, port {watch.port} ([watch])"
        tls = None if watch.certificate is None else _unverified()
        kind = HTTPConnection if tls is None else partial(HTTPSConnection, context=tls)
        try:
            with closing(kind(host, watch.port, timeout=5)) as connection:
                connection.request("GET", STATE)
                found = strict.parse_object(
                    connection.getresponse().read(_MOST_STATE), max_bytes=_MOST_STATE, what="state"
                )
            since, troubles, last = found["since"], found["troubles"], found["last"]
            notes = tuple(found["notes"])
            if found["config"] != str(config.resolve()):
                raise ProtocolError("state: of another program, or of other settings")
            texts = [*troubles, *notes, last or ""]
            if not 0 <= float(since) <= _LATEST or not all(isinstance(t, str) for t in texts):
                raise ProtocolError("state: no sottovoce service could say that")
            return cls(float(since), str(config), tuple(troubles), last, notes)
        except (OSError, ValueError, TypeError, HTTPException, KeyError) as error:
            if isinstance(error, OSError):
                return f"nothing answers at {where}: does it run? ({get_reason(error)})"
            return f"another program answers at {where}: end it, or change [watch] ({error})"


def _unverified() -> ssl.SSLContext:
    """Nothing secret is sent, and the certificate is our own, perhaps of another name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def build_watch(
    check: Callable[[], None],
    metrics: Callable[[], bytes],
    config: Path = Path(),
    troubles: Troubles | None = None,
    last: LastSaid | None = None,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Starlette:
    """The application; `check` raises what keeps the service from its work."""
    since, told = time.time(), troubles or Troubles()

    async def alive(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(_: Request) -> Response:
        try:
            await run_in_threadpool(check)
        except (UnavailableError, StoreError) as error:
            said = pasted(f"not ready: {error}\n")
            return PlainTextResponse(said, HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse(pasted("\n".join(["ready", *told.texts, ""])))

    async def measured(_: Request) -> Response:
        return Response(await run_in_threadpool(metrics), media_type=CONTENT_TYPE_LATEST)

    async def state(_: Request) -> Response:
        said = None if last is None else last.line
        now = Running(since, str(config.resolve()), tuple(told.texts), said, tuple(notes()))
        return JSONResponse(asdict(now))

    return Starlette(
        routes=[
            Route(HEALTH, alive),
            Route(READY, ready),
            Route(METRICS, measured),
            Route(STATE, state),
        ],
        exception_handlers=errors_as_problems(),
    )
