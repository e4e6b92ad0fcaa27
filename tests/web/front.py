"""Between the browser and the real proxy: hears every request, and lies when told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import uvicorn
from anyio import to_thread

from tests.processes import wait_until
from tests.server.world import KEYS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

WORKER = "/page/worker.js"
BATCHES = "/v2/batches"
HURRY = b"""{
  const draw = crypto.getRandomValues.bind(crypto);
  crypto.getRandomValues = (into) => (into.byteLength === 8 ? into.fill(0) : draw(into));
  const later = globalThis.setTimeout.bind(globalThis);
  globalThis.setTimeout = (work, wait, ...rest) =>
    later(work, wait === 30000 ? wait : Math.min(wait / 40, 250), ...rest);
}
"""
"""Before the worker's own script: the earliest moment of sending, and every pause much shorter.

Eight random bytes are drawn for the device's own coins alone: whether it takes part, and when it
sends. Thirty seconds without an answer stay thirty.
"""
AS_SHIPPED = b""


@dataclass
class RecordedRequest:
    """One request as it arrived, and what it was answered with."""

    method: str
    path: str
    query: bytes
    headers: dict[str, str]
    body: bytes
    at: float
    """When it arrived; Unix seconds."""
    status: int = 0
    sent: int = 0
    """Bytes of the answer, its head included."""

    def to_bytes(self) -> bytes:
        """Return all of its bytes."""
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        head = "\n".join([self.method, self.path, *lines]).encode()
        return b"\n".join([head, self.query, self.body])


@dataclass(frozen=True)
class Answer:
    """Status, headers, body."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Lie = Callable[[RecordedRequest, Callable[[], Answer]], Answer]
"""Is given a request and a way to the real proxy's answer; says what the browser gets."""


@dataclass
class Site:
    """Address of a page, and the requests that it sent."""

    url: str = ""
    requests: list[RecordedRequest] = field(default_factory=list)

    def asked(self, path: str) -> int:
        """Return how often this path was requested."""
        return sum(request.path == path for request in list(self.requests))


class Front(Site):
    """The real proxy's application behind a real socket; honest until a path has a lie."""

    def __init__(self, app: ASGIApp):
        super().__init__()
        self._app = app
        self.lies: dict[str, Lie] = {}
        """By path, or its beginning if that ends in a slash; at `BATCHES` of a batch alone."""
        self.prelude = HURRY
        """Goes before the worker's script."""

    def begin(self) -> None:
        """Forget all lies and requests."""
        self.requests, self.lies, self.prelude = [], {}, HURRY

    def batches(self) -> list[bytes]:
        """Return every batch that the browser sent, in order."""
        return [request.body for request in self.requests if _is_about(BATCHES, request)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = await _read(scope, receive)
        self.requests.append(request)
        answer = await self._answer(scope, request)
        headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        request.status, request.sent = answer.status, _size(answer)
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, request: RecordedRequest) -> Answer:
        lie = next((lie for path, lie in self.lies.items() if _is_about(path, request)), None)
        if lie is not None:
            honest = await self._honest(_plain(scope), request)
            # In a thread: a lie may take its time.
            return _measured(await to_thread.run_sync(lie, request, lambda: honest))
        if self.prelude and request.path == WORKER:
            honest = await self._honest(_plain(scope), request)
            return _measured(replace(honest, body=self.prelude + honest.body))
        return await self._honest(scope, request)

    async def _honest(self, scope: Scope, request: RecordedRequest) -> Answer:
        """Ask the real proxy; `refuse` keeps batches from it that it must not see."""
        if BATCHES in self.lies and _is_about(BATCHES, request):
            return Answer(202)
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        names = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], body, names)


def refuse(status: int, **headers: str) -> Lie:
    """Return an answer to a batch that never reaches the real proxy."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _request, _honest: Answer(status, b"", named)


def instead(body: bytes) -> Lie:
    """Other bytes, as if they were the proxy's."""
    return lambda _request, honest: replace(honest(), status=200, body=body)


def flipped(bit: int) -> Lie:
    """Return the true bytes with one bit flipped."""

    def lie(_request: RecordedRequest, honest: Callable[[], Answer]) -> Answer:
        body = bytearray(honest().body)
        body[bit // 8] ^= 1 << bit % 8
        return replace(honest(), body=bytes(body))

    return lie


def other_key(key: bytes = b"\xab" * 32, *, demo: bool = False) -> Lie:
    """Let the page name another service's key, and say that it is a demo."""

    def lie(_request: RecordedRequest, honest: Callable[[], Answer]) -> Answer:
        body = honest().body.replace(KEYS.verification_key.hex().encode(), key.hex().encode())
        if demo:
            body = body.replace(b'"sottovoce-demo" content=""', b'"sottovoce-demo" content="demo"')
        assert body != honest().body
        return replace(honest(), body=body)

    return lie


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an application at an address of this machine, for the length of a block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait_until(lambda: server.started, "the service to start")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


async def _read(scope: Scope, receive: Receive) -> RecordedRequest:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    return RecordedRequest(
        scope["method"], scope["path"], scope["query_string"], headers, body, time.time()
    )


def _is_about(path: str, request: RecordedRequest) -> bool:
    if path == BATCHES:
        return request.path == path and request.method == "POST"
    return (
        request.path.startswith(path) if len(path) > 1 and path[-1] == "/" else request.path == path
    )


def _size(answer: Answer) -> int:
    head = sum(len(f"{name}: {value}\r\n") for name, value in answer.headers.items())
    return len("HTTP/1.1 200 OK\r\n\r\n") + head + len(answer.body)


def _plain(scope: Scope) -> Scope:
    """Remove headers, so that the answer is neither compressed nor "not modified"."""
    unwanted = (b"accept-encoding", b"if-none-match")
    headers = [header for header in scope["headers"] if header[0] not in unwanted]
    return {**scope, "headers": headers}


def _measured(answer: Answer) -> Answer:
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name.lower() not in ("content-length", "etag")
    }
    return replace(answer, headers={**headers, "content-length": str(len(answer.body))})
