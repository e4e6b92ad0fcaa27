"""The proxy over HTTP: routes as data, and what each of them answers.

Nothing that a request carries is written, but the batch: the address is asked for once, by the rate
limit, and refusals are counted, not logged, because whatever keeps a log adds the time.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.routing import Route

from sottovoce.errors import UnavailableError
from sottovoce.page import Content, page_routes
from sottovoce.protocol import routes
from sottovoce.proxy.compressed import Compressed
from sottovoce.proxy.limit import RateLimit
from sottovoce.proxy.origins import CrossOrigin
from sottovoce.proxy.taking import Taking
from sottovoce.proxy.writer import GroupCommit
from sottovoce.service import (
    Heartbeat,
    epoch_of,
    errors_as_problems,
    hash_of,
)
from sottovoce.service.files import BRIEFLY, FOR_EVER, accepts_gzip, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sottovoce.proxy.proxy import Proxy
    from sottovoce.proxy.settings import ProxySettings


def build_app(
    proxy: Proxy, settings: ProxySettings, *, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    """The application; its lifespan runs the writer and the heartbeat."""
    api = Api(proxy, settings)
    limit = RateLimit(settings.rate, clock)
    app = Starlette(
        routes=[
            Route(routes.MANIFEST, api.manifest),
            Route(routes.MANIFEST_OF, api.manifest_of),
            Route(routes.MODEL, api.model),
            Route(routes.CATALOGUE, api.catalogue),
            *_page(settings),
        ],
        middleware=[
            Middleware(NoSniff),
            *_other_origins(settings),
            Middleware(Taking, proxy, api.writer, limit, settings.origins),
        ],
        # The store has logged once what is wrong; a line for each request would keep its time.
        exception_handlers=errors_as_problems(log_unavailable=False),
        lifespan=api.lifespan,
    )
    app.router.redirect_slashes = False
    return app


class Api:
    def __init__(self, proxy: Proxy, settings: ProxySettings):
        self._proxy = proxy
        self.writer = GroupCommit(proxy.intake.keep)
        self._heartbeat = Heartbeat(proxy.tick, settings.poll_seconds)
        self._compressed = Compressed()
        proxy.metrics.watch(
            "beat_failures", "Beats in a row that failed", lambda: self._heartbeat.failures
        )

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.writer.start(asyncio.get_running_loop())
        self._heartbeat.start()
        try:
            yield
        finally:
            await run_in_threadpool(self._heartbeat.stop)
            await run_in_threadpool(self.writer.stop)

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
    return page_routes(Content(settings.key, page.statement, page.notice, page.panel, page.jitter))
