"""Handmade requests with any method, headers and pieces of a body, without a socket."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message

CLIENT_ADDRESS = ("192.0.2.1", 50_000)
Headers = Iterable[tuple[str | bytes, str | bytes]]


@dataclass
class Answer:
    """The answer of an application."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)

    def problem(self) -> Any:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json()["status"] == self.status
        return self.json()


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    body: bytes | Iterable[bytes] = b"",
    headers: Headers = (),
    *,
    client: tuple[str, int] | None = CLIENT_ADDRESS,
    hang_up: bool = False,
) -> Answer:
    """Send one request, its body whole or in pieces; with `hang_up` the connection then breaks."""
    pieces = iter([body] if isinstance(body, bytes) else body)
    answer, is_over = Answer(), hang_up

    async def receive() -> Message:
        nonlocal is_over
        piece = next(pieces, None)
        if piece is None and is_over:
            return {"type": "http.disconnect"}
        is_over |= piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {_text(name): _text(value) for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": b"", "root_path": "", "server": ("192.0.2.9", 80), "client": client,
        "headers": [(_bytes(name).lower(), _bytes(value)) for name, value in headers],
    }  # fmt: skip
    await app(scope, receive, send)
    return answer


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _bytes(value: str | bytes) -> bytes:
    return value.encode("latin-1", "replace") if isinstance(value, str) else value
