"""The proxy over HTTP: routes as data, and what each of them answers.

Nothing that a request carries is written, but the batch: the address is asked for once, by the rate
limit, and refusals are counted, not logged, because whatever keeps a log adds the time.
"""

import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from math import ceil

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.errors import SottovoceError, UnavailableError
from sottovoce.protocol import Batch, routes
from sottovoce.protocol.tokens import REQUEST_BYTES
from sottovoce.proxy.intake import GroupCommit, RateLimit
from sottovoce.proxy.origins import CrossOrigin, check_sender
from sottovoce.proxy.proxy import Proxy
from sottovoce.proxy.settings import ProxySettings
from sottovoce.service.files import BINARY_TYPE, CACHE_BRIEFLY, CACHE_FOREVER, send_file
from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.http import (
    answer_error,
    build_error_handlers,
    parse_epoch,
    parse_hash,
    read_body,
)
from sottovoce.service.page import build_page_routes
from sottovoce.service.tls import get_seconds_to_expiry
from sottovoce.service.widget import build_script_routes


class Taking:
    """What is posted to the route of batches: 202 when it is on disk. All else goes to `app`.

    Nearly every request to a proxy is a batch, so this is a plain ASGI application in front of
    Starlette's routes: its layers for routes, requests and errors would cost a third of the time
    again.
    """

    def __init__(
        self,
        app: ASGIApp,
        proxy: Proxy,
        writer: GroupCommit[Batch, None],
        limit: RateLimit,
        origins: Collection[str],
    ):
        self._app = app
        self._proxy = proxy
        self._writer = writer
        self._limit = limit
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != routes.BATCHES:
            await self._app(scope, receive, send)
            return
        try:
            await self._take(scope, receive)
        except (SottovoceError, HTTPException, ClientDisconnect) as error:
            self._proxy.metrics.refused(error)
            await answer_error(error)(scope, receive, send)
            return
        self._proxy.metrics.accepted.inc()
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body"})

    async def _take(self, scope: Scope, receive: Receive) -> None:
        if scope["method"] != "POST":
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
        check_sender(scope, self._origins)
        intake, address, epoch = self._proxy.intake, _address(scope), None
        _check_wait(self._limit.wait(address, intake.epoch))
        try:
            batch = intake.check(await read_body(scope, receive, intake.batch_size()))
            await self._writer.write(batch)
            epoch = batch.epoch
        finally:
            self._limit.end(address, epoch)


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope["client"] else ""


def _check_wait(seconds: float) -> None:
    if seconds:
        raise HTTPException(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many requests from one address",
            {"Retry-After": str(ceil(seconds))},
        )


def build_app(
    proxy: Proxy, settings: ProxySettings, *, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    """The application; its lifespan runs the writer and the heartbeat."""
    limit, page = RateLimit(settings.rate, clock), settings.page
    has_accounts = settings.attester is not None
    api = Api(proxy, settings, limit, clock)
    app = Starlette(
        routes=[
            Route(routes.MANIFEST, api.manifest),
            Route(routes.MANIFEST_OF, api.manifest_of),
            Route(routes.SHELF, api.shelf),
            Route(routes.MODEL, api.model),
            Route(routes.CATALOGUE, api.catalogue),
            Route(routes.TAKEN_BATCH, api.taken),
            Route(routes.TOKENS, api.tokens, methods=["POST"]),
            *(build_page_routes(settings.key, page) if page.serve else ()),
            *(build_script_routes(accounts=has_accounts) if settings.origins else ()),
        ],
        middleware=[
            Middleware(NoSniff),
            *([Middleware(CrossOrigin, settings.origins)] if settings.origins else ()),
            Middleware(Taking, proxy, api.writer, limit, settings.origins),
        ],
        exception_handlers=build_error_handlers(),
        lifespan=api.lifespan,
    )
    app.router.redirect_slashes = False
    return app


class Api:
    def __init__(
        self,
        proxy: Proxy,
        settings: ProxySettings,
        limit: RateLimit,
        clock: Callable[[], float],
    ):
        self._proxy = proxy
        self._limit = limit
        self.writer = GroupCommit(proxy.intake.keep)
        self._origins = settings.origins
        self._issuer = GroupCommit(proxy.accounts.issue)
        self._asking = RateLimit(replace(settings.rate, per_epoch=0), clock)
        self._heartbeat = Heartbeat(proxy.tick, settings.poll_seconds, proxy.troubles)
        proxy.metrics.watch(
            beat_failures=lambda: self._heartbeat.failures,
            certificate_seconds=lambda: get_seconds_to_expiry(settings.certificates),
        )

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._heartbeat.start()
        try:
            yield
        finally:
            await run_in_threadpool(self._heartbeat.stop)
            await self.writer.finish()
            await self._issuer.finish()

    async def manifest(self, request: Request) -> Response:
        signed = self._proxy.manifest()
        if signed is None:
            raise UnavailableError("no manifest has come from the server yet")
        return send_file(request, signed.encode(), signed.hash.hex(), CACHE_BRIEFLY)

    async def tokens(self, request: Request) -> Response:
        check_sender(request.scope, self._origins)
        self._proxy.intake.check_barred()
        _check_wait(self._asking.wait(_address(request.scope), 0))
        body = await read_body(request.scope, request.receive, REQUEST_BYTES)
        answer = await self._issuer.write(self._proxy.accounts.check(body))
        return Response(answer, media_type=BINARY_TYPE, headers={"Cache-Control": "no-store"})

    async def taken(self, request: Request) -> Response:
        """Whether a batch of this manifest would be taken now: devices ask before they pay."""
        try:
            self._proxy.intake.check_taken(parse_hash(request))
            _check_wait(self._limit.would_wait(_address(request.scope), self._proxy.intake.epoch))
            answer = Response(status_code=HTTPStatus.NO_CONTENT)
        except (SottovoceError, HTTPException) as error:
            answer = answer_error(error)
        answer.headers["Cache-Control"] = "no-store"  # a cache may keep a 410
        return answer

    async def manifest_of(self, request: Request) -> Response:
        epoch = parse_epoch(request)
        data = await run_in_threadpool(self._proxy.mirror.manifest_of, epoch)
        return send_file(request, data, str(epoch), CACHE_FOREVER)

    async def shelf(self, request: Request) -> Response:
        shelf = self._proxy.mirror.shelf
        if shelf is None:
            raise UnavailableError("no shelf has come from the server yet")
        return send_file(request, shelf.signed.encode(), shelf.signed.hash.hex(), CACHE_BRIEFLY)

    async def model(self, request: Request) -> Response:
        sha256 = parse_hash(request)
        data = await run_in_threadpool(self._proxy.mirror.model, sha256)
        return send_file(request, data, sha256.hex(), CACHE_FOREVER)

    async def catalogue(self, request: Request) -> Response:
        sha256 = parse_hash(request)
        data = await run_in_threadpool(self._proxy.mirror.catalogue, sha256)
        return send_file(
            request, data, sha256.hex(), CACHE_FOREVER, self._proxy.mirror.compressed(sha256)
        )


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
