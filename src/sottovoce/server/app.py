"""The server over HTTP: routes as data, the work in `Server`, blocking work in threads."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sottovoce.errors import LostError
from sottovoce.protocol import MAX_CHUNK_REPORTS, SEALED_BYTES, routes, strict
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES as HEADER
from sottovoce.protocol.contact import MAX_CONTACT_BYTES, Contact
from sottovoce.server.server import Server
from sottovoce.server.settings import ServerSettings
from sottovoce.service.files import CACHE_BRIEFLY, CACHE_FOREVER, send_file
from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.http import (
    build_error_handlers,
    make_problem,
    parse_epoch,
    parse_hash,
    read_body,
)
from sottovoce.service.tls import get_seconds_to_expiry

T = TypeVar("T")

MAX_CHUNK = HEADER + SEALED_BYTES * MAX_CHUNK_REPORTS
THREADS, CHUNKS = 24, 8
"""Requests that are worked on at once. Chunks have places of their own: they may take seconds."""


class Api:
    def __init__(self, server: Server, settings: ServerSettings):
        self._server = server
        self._settings = settings
        self._threads = anyio.CapacityLimiter(THREADS)
        self._chunks = anyio.CapacityLimiter(CHUNKS)
        self.heartbeat = Heartbeat(server.tick, settings.heartbeat, server.troubles)
        server.metrics.watch(
            beat_failures=lambda: self.heartbeat.failures,
            certificate_seconds=lambda: get_seconds_to_expiry(settings.certificates),
        )

    async def manifest(self, request: Request) -> Response:
        signed = await self._work(self._server.get_signed_manifest)
        return send_file(request, signed.encode(), signed.hash.hex(), CACHE_BRIEFLY)

    async def shelf(self, request: Request) -> Response:
        signed = await self._work(self._server.get_signed_shelf)
        return send_file(request, signed.encode(), signed.hash.hex(), CACHE_BRIEFLY)

    async def model(self, request: Request) -> Response:
        return await self._file(request, self._server.get_model)

    async def catalogue(self, request: Request) -> Response:
        return await self._file(request, self._server.get_catalogue)

    async def contact(self, request: Request) -> Response:
        proxy = self._proxy(request)
        said = Contact.decode(await read_body(request.scope, request.receive, MAX_CONTACT_BYTES))
        answer = await self._work(self._server.handle_contact, proxy, said)
        return Response(answer.encode(), media_type="application/json")

    async def chunk(self, request: Request) -> Response:
        proxy, epoch = self._proxy(request), parse_epoch(request)
        name = strict.parse_hex(request.path_params["sha256"], what="a chunk's name").hex()
        data = await read_body(request.scope, request.receive, MAX_CHUNK)
        take = partial(self._server.take_chunk, proxy, epoch, name, data)
        counted = await anyio.to_thread.run_sync(take, limiter=self._chunks)
        return JSONResponse({"counted": counted})

    async def commit(self, request: Request) -> Response:
        proxy, epoch = self._proxy(request), parse_epoch(request)
        given = await _json(request, {"manifest", "chunks", "reports"})
        manifest = strict.parse_hex(given["manifest"], what="manifest")
        chunks, reports = (
            strict.parse_int(given[name], min_value=0, max_value=strict.MAX_INTEGER, what=name)
            for name in ("chunks", "reports")
        )
        await self._work(self._server.commit, proxy, epoch, manifest, chunks, reports)
        self.heartbeat.wake_up()
        return JSONResponse({})

    async def _work(self, function: Callable[..., T], *arguments: object) -> T:
        """In a thread. A client that goes away does not stop it half way."""
        return await anyio.to_thread.run_sync(partial(function, *arguments), limiter=self._threads)

    async def _file(self, request: Request, find: Callable[[bytes], bytes | None]) -> Response:
        sha256 = parse_hash(request)
        return send_file(request, await self._work(find, sha256), sha256.hex(), CACHE_FOREVER)

    def _proxy(self, request: Request) -> str:
        """Who this is, before anything else of the request is looked at."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        proxy = self._settings.find_proxy(secret)
        if scheme.lower() != "bearer" or proxy is None:
            self._server.metrics.unknown.inc()
            raise HTTPException(
                HTTPStatus.UNAUTHORIZED,
                "this needs the secret of a proxy that this server knows",
                {"WWW-Authenticate": "Bearer"},
            )
        return proxy


def build_app(server: Server, settings: ServerSettings) -> Starlette:
    """The application; it sets the database up when it starts and beats until it ends."""
    api = Api(server, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await anyio.to_thread.run_sync(server.tick)
        api.heartbeat.start()
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(api.heartbeat.stop)

    return Starlette(
        routes=[
            Route(routes.MANIFEST, api.manifest),
            Route(routes.SHELF, api.shelf),
            Route(routes.MODEL, api.model),
            Route(routes.CATALOGUE, api.catalogue),
            Route(routes.CONTACT, api.contact, methods=["POST"]),
            Route(routes.CHUNK, api.chunk, methods=["PUT"]),
            Route(routes.COMMIT, api.commit, methods=["POST"]),
        ],
        exception_handlers={**build_error_handlers(), LostError: _lost},
        lifespan=lifespan,
    )


async def _lost(_: Request, __: Exception) -> Response:
    """Nothing of this epoch may ever be counted: proxies shall take no more of it meanwhile."""
    return make_problem(HTTPStatus.CONFLICT, "the database is damaged or gone: restore a backup")


async def _json(request: Request, keys: set[str]) -> dict[str, object]:
    body = await read_body(request.scope, request.receive, MAX_CONTACT_BYTES)
    given = strict.parse_object(body, max_bytes=MAX_CONTACT_BYTES, what="body")
    strict.check_keys(given, keys, "body")
    return given
