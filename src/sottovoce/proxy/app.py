"""The proxy over HTTP: its routes, and the handlers that answer them.

Nearly all requests send a batch. `BatchEndpoint` answers them before Starlette looks for a route.
Of such a request the proxy writes only the batch to the disk. Only the rate limit uses addresses.
Refusals are counted but not logged, because a line of the log would show when the request came.
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
from sottovoce.proxy.group_commit import GroupCommit
from sottovoce.proxy.origins import CrossOrigin, check_sender
from sottovoce.proxy.proxy import Proxy
from sottovoce.proxy.rate_limit import RateLimit
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
from sottovoce.service.widget import build_script_routes


def build_app(
    proxy: Proxy, settings: ProxySettings, *, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    """Build the application. Its lifespan runs the heartbeat and finishes pending writes.

    Args:
        proxy: The proxy that answers.
        settings: The settings of the proxy.
        clock: Returns seconds for the rate limits.
    """
    limit, page = RateLimit(settings.rate, clock), settings.page
    has_accounts = settings.attester is not None
    writer: GroupCommit[Batch, None] = GroupCommit(proxy.intake.store_batches)
    api = Api(proxy, settings, limit, clock)
    heartbeat = Heartbeat(proxy.tick, settings.poll_seconds, proxy.troubles)
    proxy.metrics.set_gauges(beat_failures=lambda: heartbeat.failures)

    @asynccontextmanager
    async def run_heartbeat(_: Starlette) -> AsyncIterator[None]:
        heartbeat.start()
        try:
            yield
        finally:
            # Stop the heartbeat first: no tick may end an epoch while the last batches are written.
            await run_in_threadpool(heartbeat.stop)
            await writer.finish()
            await api.issuer.finish()

    app = Starlette(
        routes=[
            Route(routes.MANIFEST, api.get_manifest),
            Route(routes.MANIFEST_OF, api.get_manifest_of_epoch),
            Route(routes.SHELF, api.get_shelf),
            Route(routes.MODEL, api.get_model),
            Route(routes.CATALOGUE, api.get_catalogue),
            Route(routes.PATCH, api.get_patch),
            Route(routes.TAKEN_BATCH, api.check_would_take),
            Route(routes.TOKENS, api.issue_token, methods=["POST"]),
            *(build_page_routes(settings.key, page) if page.serve else ()),
            *(build_script_routes(accounts=has_accounts) if settings.origins else ()),
        ],
        middleware=[
            Middleware(NoSniff),
            *([Middleware(CrossOrigin, settings.origins)] if settings.origins else ()),
            Middleware(BatchEndpoint, proxy, writer, limit, settings.origins),
        ],
        exception_handlers=build_error_handlers(),
        lifespan=run_heartbeat,
    )
    # The protocol has no paths that differ by a slash at the end: answer 404, not a redirect.
    app.router.redirect_slashes = False
    return app


class BatchEndpoint:
    """Stores each batch and answers 202 once it is on disk. Passes other requests on to `app`.

    It is a middleware for speed: Starlette's layers for routes and errors would make a batch take
    10% longer, and its request and response objects would make it take a third longer.
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
        # Messages of the lifespan come here too.
        if scope["type"] != "http" or scope["path"] != routes.BATCHES:
            await self._app(scope, receive, send)
            return
        try:
            await self.take(scope, receive)
        except (SottovoceError, HTTPException, ClientDisconnect) as error:
            self._proxy.metrics.count_refusal(error)
            await answer_error(error)(scope, receive, send)
            return
        self._proxy.metrics.accepted.inc()
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body"})

    async def take(self, scope: Scope, receive: Receive) -> None:
        """Return once the batch of a request is on disk, or raise the error that refuses it."""
        if scope["method"] != "POST":
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
        check_sender(scope, self._origins)
        intake, address, epoch = self._proxy.intake, _get_address(scope), None
        # Check the limit before the body is read, so that a refused request takes no memory.
        _raise_if_limited(self._limit.begin(address, intake.epoch))
        try:
            batch = intake.check(await read_body(scope, receive, intake.batch_size))
            await self._writer.write(batch)
            epoch = batch.epoch
        finally:
            # `epoch` is None unless the batch is on disk: refused batches do not count.
            self._limit.end(address, epoch)


class Api:
    """The handlers of all requests that send no batch."""

    def __init__(
        self,
        proxy: Proxy,
        settings: ProxySettings,
        limit: RateLimit,
        clock: Callable[[], float],
    ):
        self._proxy = proxy
        self._limit = limit
        self._origins = settings.origins
        self.issuer = GroupCommit(proxy.accounts.issue_tokens)
        # Requests for tokens have their own limit, without a number for each epoch. They must not
        # use up the batches that an address may send.
        self._token_limit = RateLimit(replace(settings.rate, per_epoch=0), clock)

    async def get_manifest(self, request: Request) -> Response:
        signed = self._proxy.manifest
        if signed is None:
            raise UnavailableError("no manifest has come from the server yet")
        return send_file(request, signed.encode(), signed.hash.hex(), CACHE_BRIEFLY)

    async def get_manifest_of_epoch(self, request: Request) -> Response:
        epoch = parse_epoch(request)
        data = await run_in_threadpool(self._proxy.mirror.read_manifest, epoch)
        return send_file(request, data, str(epoch), CACHE_FOREVER)

    async def get_shelf(self, request: Request) -> Response:
        shelf = self._proxy.mirror.shelf
        if shelf is None:
            raise UnavailableError("no shelf has come from the server yet")
        return send_file(request, shelf.signed.encode(), shelf.signed.hash.hex(), CACHE_BRIEFLY)

    async def get_model(self, request: Request) -> Response:
        sha256 = parse_hash(request)
        data = await run_in_threadpool(self._proxy.mirror.read_model, sha256)
        return send_file(request, data, sha256.hex(), CACHE_FOREVER)

    async def get_catalogue(self, request: Request) -> Response:
        return await self._send_compressed(request, self._proxy.mirror.read_catalogue)

    async def get_patch(self, request: Request) -> Response:
        return await self._send_compressed(request, self._proxy.mirror.read_patch)

    async def _send_compressed(
        self, request: Request, read: Callable[[bytes], bytes | None]
    ) -> Response:
        sha256 = parse_hash(request)
        data = await run_in_threadpool(read, sha256)
        compressed = self._proxy.mirror.get_compressed(sha256)
        return send_file(request, data, sha256.hex(), CACHE_FOREVER, compressed)

    async def check_would_take(self, request: Request) -> Response:
        """Answer whether the proxy would take a batch now. Devices ask before they pay for one."""
        intake = self._proxy.intake
        try:
            intake.check_would_take(parse_hash(request))
            _raise_if_limited(self._limit.get_wait(_get_address(request.scope), intake.epoch))
            answer = Response(status_code=HTTPStatus.NO_CONTENT)
        except (SottovoceError, HTTPException) as error:
            answer = answer_error(error)
        # Without this header, a cache may store an answer 410.
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def issue_token(self, request: Request) -> Response:
        check_sender(request.scope, self._origins)
        # While the proxy takes no batches, a token would use up a turn of the account for nothing.
        self._proxy.intake.check_not_paused()
        _raise_if_limited(self._token_limit.begin(_get_address(request.scope), 0))
        body = await read_body(request.scope, request.receive, REQUEST_BYTES)
        answer = await self.issuer.write(self._proxy.accounts.check_request(body))
        return Response(answer, media_type=BINARY_TYPE, headers={"Cache-Control": "no-store"})


class NoSniff:
    """Tells browsers not to guess the type of an answer."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-content-type-options", b"nosniff"))
            await send(message)

        await self._app(scope, receive, send_with_header)


def _get_address(scope: Scope) -> str:
    return scope["client"][0] if scope["client"] else ""


def _raise_if_limited(wait_seconds: float) -> None:
    if wait_seconds:
        raise HTTPException(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too many requests from one address",
            {"Retry-After": str(ceil(wait_seconds))},
        )
