"""Requests made by hand: whatever scope, headers and pieces a test wants, without a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sottovoce.proxy import build_app
from tests.proxy.world import Clock, World

if TYPE_CHECKING:
    from starlette.applications import Starlette

HERE = ("192.0.2.1", 50_000)


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def problem(self) -> Any:
        assert self.headers["content-type"] == "application/problem+json"
        told = json.loads(self.body)
        assert told["status"] == self.status
        return told


@asynccontextmanager
async def serving(world: World, clock: Clock | None = None) -> AsyncIterator[Starlette]:
    """The application with its writer and heartbeat."""
    app = build_app(world.proxy, world.settings, clock=clock or Clock(0))
    async with app.router.lifespan_context(app):
        yield app


async def ask(
    app: Starlette,
    method: str,
    path: str,
    *,
    headers: Iterable[tuple[bytes, bytes]] = (),
    pieces: Iterable[bytes] = (b"",),
    client: tuple[str, int] | None = HERE,
    hang_up: bool = False,
) -> Answer:
    """One request; with `hang_up` the line breaks after the pieces."""
    waiting = list(pieces)
    answer = Answer()

    async def receive() -> dict[str, Any]:
        if not waiting:
            return {"type": "http.disconnect"}
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting) or hang_up}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode("utf-8", "replace"),
        "query_string": b"", "root_path": "", "headers": list(headers), "client": client,
        "server": ("192.0.2.9", 80),
    }  # fmt: skip
    await app(scope, receive, send)
    return answer


async def post(app: Starlette, data: bytes, **more: Any) -> Answer:
    """A batch, as a client sends it."""
    length = (b"content-length", str(len(data)).encode())
    return await ask(app, "POST", "/v1/batches", headers=[length], pieces=[data], **more)
