"""The proxy over HTTP: routes as data, and what each of them answers.

Nothing that a request carries is written, but the batch: the address is asked for once, by the rate
limit, and refusals are counted, not logged, because whatever keeps a log adds the time.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from sottovoce.errors import SottovoceError, UnavailableError
from sottovoce.page import Content, page_routes
from sottovoce.protocol import routes
from sottovoce.proxy.compressed import Compressed
from sottovoce.proxy.limit import RateLimit
from sottovoce.proxy.origins import CrossOrigin, check_sender
from sottovoce.proxy.writer import GroupCommit
from sottovoce.service import (
    Heartbeat,
    epoch_of,
    errors_as_problems,
    hash_of,
    read_body,
)
from sottovoce.service.files import BRIEFLY, FOR_EVER, accepts_gzip, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sottovoce.proxy.proxy import Proxy
    from sottovoce.proxy.settings import ProxySettings


def build_app(
    proxy: Proxy, settings: ProxySettings, *, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    """The application; its lifespan runs the writer and the heartbeat."""
    api = Api(proxy, settings, clock)
    app = Starlette(
        routes=[
            Route(routes.BATCHES, api.take, methods=["POST"]),
            Route(routes.MANIFEST, api.manifest),
            Route(routes.MANIFEST_OF, api.manifest_of),
            Route(routes.MODEL, api.model),
            Route(routes.CATALOGUE, api.catalogue),
            *_page(settings),
        ],
        middleware=[Middleware(NoSniff), *_other_origins(settings)],
        # The store has logged once what is wrong; a line for each request would keep its time.
        exception_handlers=errors_as_problems(log_unavailable=False),
        lifespan=api.lifespan,
    )
    app.router.redirect_slashes = False
    return app


class Api:
    def __init__(self, proxy: Proxy, settings: ProxySettings, clock: Callable[[], float]):
        self._proxy = proxy
        self._origins = settings.origins
        self._limit = RateLimit(settings.rate, clock)
        self._writer = GroupCommit(proxy.intake.keep)
        self._heartbeat = Heartbeat(proxy.tick, settings.poll_seconds)
        self._compressed = Compressed()
        proxy.metrics.watch(
            "beat_failures", "Beats in a row that failed", lambda: self._heartbeat.failures
        )

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._writer.start(asyncio.get_running_loop())
        self._heartbeat.start()
        try:
            yield
        finally:
            await run_in_threadpool(self._heartbeat.stop)
            await run_in_threadpool(self._writer.stop)

    async def take(self, request: Request) -> Response:
        """A batch: 202 when it is on disk."""
        address = request.client.host if request.client else ""
        try:
            check_sender(request.headers, self._origins)
            with self._place_of(address):
                data = await read_body(request, self._proxy.intake.batch_size())
                await self._writer.write(self._proxy.intake.check(data))
        except (SottovoceError, HTTPException, ClientDisconnect) as error:
            self._proxy.metrics.refused(error)
            raise
        self._proxy.metrics.accepted.inc()
        return Response(status_code=HTTPStatus.ACCEPTED)

    async def manifest(self, request: Request) -> Response:
        signed = self._proxy.manifest()
        if signed is None:
            raise UnavailableError("no manifest has come from the server yet")
        return serve(request, signed.encode(), signed.hash.hex(), BRIEFLY)

    async def manifest_of(self, request: Request) -> Response:
        epoch = epoch_of(request)
        data = await run_in_threadpool(self._proxy.manifest_of, epoch)
        return serve(request, data, str(epoch), FOR_EVER)

    async def model(self, request: Request) -> Response:
        sha256 = hash_of(request)
        data = await run_in_threadpool(self._proxy.model, sha256)
        return serve(request, data, sha256.hex(), FOR_EVER)

    async def catalogue(self, request: Request) -> Response:
        """A catalogue by its hash; names compress well, the numbers of a model do not."""
        sha256 = hash_of(request)
        data = await run_in_threadpool(self._proxy.catalogue, sha256)
        compressed = b""  # sent to nobody: only who accepts it gets any
        if data is not None and accepts_gzip(request):
            compressed = await run_in_threadpool(self._compressed.of, sha256.hex(), data)
        return serve(request, data, sha256.hex(), FOR_EVER, compressed)

    @contextmanager
    def _place_of(self, address: str) -> Iterator[None]:
        """One of the batches that this address may send; taken for good when the block succeeds."""
        epoch = self._proxy.epoch
        wait = self._limit.wait(address, epoch)
        if wait:
            raise HTTPException(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many batches from one address",
                {"Retry-After": str(ceil(wait))},
            )
        try:
            yield
        except BaseException:
            self._limit.give_back(address, epoch)
            raise


class NoSniff:
    """Every answer says that it is what it says it is."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-content-type-options", b"nosniff"))
            await send(message)

        await self._app(scope, receive, with_header)


def _other_origins(settings: ProxySettings) -> list[Middleware]:
    """For pages of other sites, if the operator named any."""
    return [Middleware(CrossOrigin, settings.origins)] if settings.origins else []


def _page(settings: ProxySettings) -> list[Route]:
    """For browsers, if the operator wants it."""
    page = settings.page
    if not page.serve:
        return []
    return page_routes(Content(settings.key, page.statement, page.panel, page.jitter))
