"""The server over HTTP: routes as data, the work in `Server`, blocking work in threads."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sottovoce.errors import NotFoundError, ProtocolError
from sottovoce.protocol import MAX_CHUNK_REPORTS, SEALED, strict
from sottovoce.protocol.chunk import HEADER
from sottovoce.protocol.manifest import MAX_EPOCH
from sottovoce.service import Heartbeat, errors_as_problems, read_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from sottovoce.server.server import Server
    from sottovoce.server.settings import ServerSettings

T = TypeVar("T")

MAX_CHUNK = HEADER + SEALED * MAX_CHUNK_REPORTS
MAX_JSON = 4096
THREADS, CHUNKS = 24, 8
"""Requests that are worked on at once. Chunks have places of their own: they may take seconds."""
BRIEFLY = "public, max-age=10"
FOR_EVER = "public, max-age=31536000, immutable"
_EPOCH = re.compile("[1-9][0-9]{0,9}")


class Api:
    """What stands behind the routes."""

    def __init__(self, server: Server, settings: ServerSettings):
        self._server = server
        self._settings = settings
        self._threads = anyio.CapacityLimiter(THREADS)
        self._chunks = anyio.CapacityLimiter(CHUNKS)
        self.heartbeat = Heartbeat(server.tick, settings.heartbeat)

    async def manifest(self, request: Request) -> Response:
        """The latest, signed."""
        signed = await self._work(self._server.signed_manifest)
        return _cached(request, signed.hash.hex(), signed.encode(), BRIEFLY)

    async def model(self, request: Request) -> Response:
        """Any model that was ever published, by its hash."""
        return await self._file(request, self._server.model)

    async def catalogue(self, request: Request) -> Response:
        """The catalogue, by its hash."""
        return await self._file(request, self._server.catalogue)

    async def waiting(self, request: Request) -> Response:
        """How many batches a proxy holds."""
        proxy, epoch = self._proxy(request), _epoch(request)
        given = await _json(request, {"batches"})
        batches = strict.whole(given["batches"], least=0, most=strict.MOST, what="batches")
        state = await self._work(self._server.waiting, proxy, epoch, batches)
        return JSONResponse({"state": state})

    async def chunk(self, request: Request) -> Response:
        """One chunk, counted once."""
        proxy, epoch = self._proxy(request), _epoch(request)
        name = strict.hexadecimal(request.path_params["name"], what="a chunk's name").hex()
        data = await read_body(request, MAX_CHUNK)
        take = partial(self._server.take_chunk, proxy, epoch, name, data)
        counted = await anyio.to_thread.run_sync(take, limiter=self._chunks)
        return JSONResponse({"counted": counted})

    async def commit(self, request: Request) -> Response:
        """A proxy has handed in all that it has."""
        proxy, epoch = self._proxy(request), _epoch(request)
        given = await _json(request, {"manifest", "chunks", "reports"})
        manifest = strict.hexadecimal(given["manifest"], what="manifest")
        chunks, reports = (
            strict.whole(given[name], least=0, most=strict.MOST, what=name)
            for name in ("chunks", "reports")
        )
        await self._work(self._server.commit, proxy, epoch, manifest, chunks, reports)
        self.heartbeat.hurry()
        return JSONResponse({})

    async def alive(self, _: Request) -> Response:
        """The process lives."""
        return PlainTextResponse("alive")

    async def ready(self, _: Request) -> Response:
        """There is a manifest, and the database can be written to."""
        await self._work(self._server.check)
        return PlainTextResponse("ready")

    async def metrics(self, _: Request) -> Response:
        """For Prometheus."""
        text = await self._work(self._server.measured)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def _work(self, function: Callable[..., T], *arguments: object) -> T:
        """In a thread. A client that goes away does not stop it half way."""
        return await anyio.to_thread.run_sync(partial(function, *arguments), limiter=self._threads)

    async def _file(self, request: Request, find: Callable[[bytes], bytes | None]) -> Response:
        name = request.path_params["name"]
        try:
            content = await self._work(find, strict.hexadecimal(name, what="a file's name"))
        except ProtocolError:
            content = None
        if content is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no file of that name")
        return _cached(request, name, content, FOR_EVER)

    def _proxy(self, request: Request) -> str:
        """Who this is, before anything else of the request is looked at."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        proxy = self._settings.proxy_of(secret)
        if scheme.lower() != "bearer" or proxy is None:
            self._server.metrics.unknown_proxy()
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
            Route("/v1/manifest", api.manifest),
            Route("/v1/models/{name}", api.model),
            Route("/v1/catalogues/{name}", api.catalogue),
            Route("/v1/epochs/{epoch}/waiting", api.waiting, methods=["POST"]),
            Route("/v1/epochs/{epoch}/chunks/{name}", api.chunk, methods=["PUT"]),
            Route("/v1/epochs/{epoch}/commit", api.commit, methods=["POST"]),
            Route("/healthz", api.alive),
            Route("/readyz", api.ready),
            Route("/metrics", api.metrics),
        ],
        exception_handlers=errors_as_problems(),
        lifespan=lifespan,
    )


def _cached(request: Request, name: str, content: bytes, how_long: str) -> Response:
    """Named by a hash, so a cache can ask whether it has the right one."""
    headers = {"ETag": f'"{name}"', "Cache-Control": how_long}
    known = request.headers.get("if-none-match", "")
    if f'"{name}"' in known:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type="application/octet-stream", headers=headers)


def _epoch(request: Request) -> int:
    given = request.path_params["epoch"]
    if not _EPOCH.fullmatch(given) or int(given) > MAX_EPOCH:
        raise NotFoundError("there is no such epoch")
    return int(given)


async def _json(request: Request, keys: set[str]) -> dict[str, object]:
    given = strict.read_object(await read_body(request, MAX_JSON), most=MAX_JSON, what="body")
    strict.exact_keys(given, keys, "body")
    return given
