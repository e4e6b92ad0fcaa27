"""The HTTP interface of the server: routes, and handlers that call `Server` in threads."""

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
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES
from sottovoce.protocol.contact import MAX_CONTACT_BYTES, Contact
from sottovoce.server.server import Server
from sottovoce.server.settings import ServerSettings
from sottovoce.server.transaction import FileKind
from sottovoce.service.files import CACHE_BRIEFLY, CACHE_FOREVER, send_file
from sottovoce.service.heartbeat import Heartbeat
from sottovoce.service.http import (
    build_error_handlers,
    make_problem,
    parse_epoch,
    parse_hash,
    read_body,
)

T = TypeVar("T")

# Size of the largest chunk.
MAX_CHUNK_BYTES = CHUNK_HEADER_BYTES + SEALED_BYTES * MAX_CHUNK_REPORTS
# Maximum number of threads for all requests except chunks.
MAX_THREADS = 24
# Maximum number of threads for chunks. They are separate because a chunk may take seconds.
MAX_CHUNK_THREADS = 8


def build_app(server: Server, settings: ServerSettings) -> Starlette:
    """Build the application. Its lifespan opens the first epoch and runs the heartbeat."""
    api = Api(server, settings)

    @asynccontextmanager
    async def run_heartbeat(_: Starlette) -> AsyncIterator[None]:
        # A server that cannot tick does not start.
        await anyio.to_thread.run_sync(server.tick)
        api.heartbeat.start()
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(api.heartbeat.stop)

    async def answer_lost(_: Request, __: Exception) -> Response:
        # Without the database no report of this epoch can be counted, so proxies must not accept
        # more of them.
        detail = "the database is damaged or gone: restore a backup"
        return make_problem(HTTPStatus.CONFLICT, detail)

    return Starlette(
        routes=[
            Route(routes.MANIFEST, api.get_manifest),
            Route(routes.SHELF, api.get_shelf),
            Route(routes.MODEL, api.get_model),
            Route(routes.CATALOGUE, api.get_catalogue),
            Route(routes.PATCH, api.get_patch),
            Route(routes.CONTACT, api.handle_contact, methods=["POST"]),
            Route(routes.CHUNK, api.take_chunk, methods=["PUT"]),
            Route(routes.COMMIT, api.commit, methods=["POST"]),
        ],
        exception_handlers={**build_error_handlers(), LostError: answer_lost},
        lifespan=run_heartbeat,
    )


class Api:
    """HTTP handlers, one method for each route."""

    def __init__(self, server: Server, settings: ServerSettings):
        self._server = server
        self._settings = settings
        self._threads = anyio.CapacityLimiter(MAX_THREADS)
        self._chunk_threads = anyio.CapacityLimiter(MAX_CHUNK_THREADS)
        self.heartbeat = Heartbeat(server.tick, settings.heartbeat, server.troubles)
        server.metrics.set_gauges(beat_failures=lambda: self.heartbeat.failures)

    async def get_manifest(self, request: Request) -> Response:
        signed = await self._run(self._server.get_signed_manifest)
        return send_file(request, signed.encode(), signed.hash.hex(), CACHE_BRIEFLY)

    async def get_shelf(self, request: Request) -> Response:
        signed = await self._run(self._server.get_signed_shelf)
        return send_file(request, signed.encode(), signed.hash.hex(), CACHE_BRIEFLY)

    async def get_model(self, request: Request) -> Response:
        return await self._send_file(request, "model")

    async def get_catalogue(self, request: Request) -> Response:
        return await self._send_file(request, "catalogue")

    async def get_patch(self, request: Request) -> Response:
        return await self._send_file(request, "patch")

    async def _send_file(self, request: Request, kind: FileKind) -> Response:
        sha256 = parse_hash(request)
        content = await self._run(self._server.get_file, sha256, kind)
        return send_file(request, content, sha256.hex(), CACHE_FOREVER)

    async def handle_contact(self, request: Request) -> Response:
        proxy = self._authenticate(request)
        body = await read_body(request.scope, request.receive, MAX_CONTACT_BYTES)
        reply = await self._run(self._server.handle_contact, proxy, Contact.decode(body))
        return Response(reply.encode(), media_type="application/json")

    async def take_chunk(self, request: Request) -> Response:
        proxy, epoch = self._authenticate(request), parse_epoch(request)
        name = strict.parse_hex(request.path_params["sha256"], what="a chunk's name").hex()
        data = await read_body(request.scope, request.receive, MAX_CHUNK_BYTES)
        take = partial(self._server.take_chunk, proxy, epoch, name, data)
        is_new = await anyio.to_thread.run_sync(take, limiter=self._chunk_threads)
        return JSONResponse({"counted": is_new})

    async def commit(self, request: Request) -> Response:
        proxy, epoch = self._authenticate(request), parse_epoch(request)
        body = await read_body(request.scope, request.receive, MAX_CONTACT_BYTES)
        content = strict.parse_object(body, max_bytes=MAX_CONTACT_BYTES, what="body")
        strict.check_keys(content, {"manifest", "chunks", "reports"}, "body")
        manifest = strict.parse_hex(content["manifest"], what="manifest")
        chunks, reports = (
            strict.parse_int(content[name], min_value=0, max_value=strict.MAX_INTEGER, what=name)
            for name in ("chunks", "reports")
        )
        await self._run(self._server.commit, proxy, epoch, manifest, chunks, reports)
        # The epoch may have waited only for this commit.
        self.heartbeat.wake_up()
        return JSONResponse({})

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in a thread. The function ends normally even if the client disconnects."""
        return await anyio.to_thread.run_sync(partial(function, *arguments), limiter=self._threads)

    def _authenticate(self, request: Request) -> str:
        """Return the name of the proxy that sent a request; call this before reading the body.

        Raises:
            HTTPException: The request has no secret of a proxy of the settings.
        """
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        proxy = self._settings.find_proxy(secret)
        if scheme.lower() != "bearer" or proxy is None:
            self._server.metrics.unknown.inc()
            raise HTTPException(
                HTTPStatus.UNAUTHORIZED,
                "this request needs the secret of a proxy in this server's settings",
                {"WWW-Authenticate": "Bearer"},
            )
        return proxy
