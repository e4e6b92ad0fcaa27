"""A proxy behind a real socket on the loopback address."""

import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx

from tests.client.world import FakeProxy

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


class LoopbackServer:
    """A server that gives the same answer to all requests, and records their bytes."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answer: Answer = reply(200, b"hello")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.command, self.path, headers, body))
                with suppress(ConnectionError):
                    outer.answer(self, body)

            do_GET = do_POST = handle_any  # noqa: N815 - the standard library's names

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def make_careless_http() -> httpx.Client:
    """Return a client that adds everything by which a person can be recognised."""
    return httpx.Client(
        headers={"Accept-Language": "ro", "X-Who": "me"},
        cookies={"who": "me"},
        auth=("me", "secret"),
        follow_redirects=True,
    )


def reply(status: int, body: bytes = b"", **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def serve(proxy: FakeProxy) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.path == "/v2/manifest":
            reply(200, proxy.manifest())(handler, body)
        elif handler.path == "/v2/shelf":
            reply(200, proxy.shelf())(handler, body)
        elif handler.path.startswith("/v2/models/"):
            reply(200, proxy.model(bytes.fromhex(handler.path[-64:]), 0))(handler, body)
        elif handler.path.startswith("/v2/catalogues/"):
            reply(200, proxy.catalogue(bytes.fromhex(handler.path[-64:])))(handler, body)
        elif handler.path.startswith("/v2/patches/"):
            reply(200, proxy.patch(bytes.fromhex(handler.path[-64:])))(handler, body)
        elif handler.command == "GET":
            proxy.check_taken(bytes.fromhex(handler.path[-64:]))
            reply(204)(handler, body)
        else:
            proxy.send(body)
            reply(202)(handler, body)

    return answer
