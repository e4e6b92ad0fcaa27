"""Requests of clients and proxies over real sockets: their content, answers, and size limits."""

import contextlib
import gzip
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

import sottovoce
from sottovoce.client import HttpProxy
from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    SpentError,
    UnavailableError,
    UnknownProxyError,
)
from sottovoce.protocol import SignedManifest, SignedShelf, routes
from sottovoce.protocol.catalogue import MAX_CATALOGUE_BYTES
from sottovoce.protocol.http import HttpSource
from sottovoce.proxy import HttpUpstream
from tests.loopback import LoopbackServer, make_careless_http, reply

Connect = Callable[[httpx.Client, str], HttpSource]


def connect_as_proxy(http: httpx.Client, url: str) -> HttpSource:
    return HttpUpstream(http, url, "secret")


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as running:
        yield running


@pytest.fixture(params=[HttpProxy, connect_as_proxy], ids=["device", "proxy"])
def connect(request: pytest.FixtureRequest) -> Connect:
    created: Connect = request.param
    return created


@pytest.fixture
def source(server: LoopbackServer, connect: Connect) -> Iterator[HttpSource]:
    with make_careless_http() as http:
        yield connect(http, server.url + "/")


def test_paths_and_what_every_request_carries(server: LoopbackServer, source: HttpSource) -> None:
    sha256 = bytes(range(32))
    server.answer = reply(200, b"hello", Set_Cookie="id=1; Path=/", ETag='"abc"')
    assert source.manifest() == b"hello"
    assert source.model(sha256, 5) == b"hello"
    assert source.catalogue(sha256) == b"hello"
    common = {
        "host": server.url.removeprefix("http://"),
        "user-agent": "sottovoce",
        "accept": "*/*",
        "accept-encoding": "identity",
    }
    assert server.requests == [
        ("GET", "/v2/manifest", common, b""),
        ("GET", f"/v2/models/{sha256.hex()}", common, b""),
        ("GET", f"/v2/catalogues/{sha256.hex()}", common, b""),
    ]


LIMITED_READS: dict[int, Callable[[HttpSource], bytes]] = {
    SignedManifest.max_bytes(): lambda source: source.manifest(),
    SignedShelf.max_bytes(): lambda source: source.shelf(),
    1000: lambda source: source.model(bytes(32), 1000),
    MAX_CATALOGUE_BYTES: lambda source: source.catalogue(bytes(32)),
}


@pytest.mark.parametrize("max_bytes", LIMITED_READS)
def test_announced_length_beyond_the_limit_is_not_read(
    server: LoopbackServer, source: HttpSource, max_bytes: int
) -> None:
    def announce(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(max_bytes + 1))
        handler.end_headers()

    server.answer = announce
    with pytest.raises(ProtocolError, match=rf"\b{max_bytes}\b"):
        LIMITED_READS[max_bytes](source)


@pytest.mark.parametrize("length", [None, "12", "9" * 5000, "many"])
def test_endless_body_is_abandoned(
    server: LoopbackServer, source: HttpSource, length: str | None
) -> None:
    written = 0

    def endless(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        nonlocal written
        handler.send_response(200)
        if length is not None:
            handler.send_header("Content-Length", length)
        handler.end_headers()
        while written < 200_000_000:
            written += handler.wfile.write(bytes(100_000))

    server.answer = endless
    if length == "12":
        assert source.model(bytes(32), 12) == bytes(12)
    else:
        with pytest.raises((ProtocolError, UnavailableError)):
            source.model(bytes(32), 1000)
    server.http.shutdown()
    assert written < 200_000_000


def test_truncated_body_is_unavailable(server: LoopbackServer, source: HttpSource) -> None:
    def cut(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")

    server.answer = cut
    with pytest.raises(UnavailableError):
        source.manifest()


def test_compressed_bodies_are_not_decoded(server: LoopbackServer, source: HttpSource) -> None:
    packed = gzip.compress(bytes(1_000_000))
    server.answer = reply(200, packed, Content_Encoding="gzip")
    assert source.model(bytes(32), 5000) == packed


WRONG_EPOCH = json.dumps({"type": "urn:sottovoce:wrong-epoch", "status": 409}).encode()
REDIRECT_STATUSES = (301, 302, 303, 307, 308)

ANSWER_CASES = [
    *((status, b"", RefusedError) for status in REDIRECT_STATUSES),
    *((status, b"", RefusedError) for status in (204, 206, 304, 400, 401, 404, 413)),
    *((409, body, RefusedError) for body in (b'{"type": "about:blank"}', b"[]", b"\xff")),
    *((409, body, RefusedError) for body in (b"[" * 10_000, bytes(20_000))),
    (409, WRONG_EPOCH, ClosedError),
    (410, b"", ClosedError),
    *((status, b"", UnavailableError) for status in (408, 425, 429, 500, 503, 599)),
]


@pytest.mark.parametrize(("status", "body", "error"), ANSWER_CASES)
def test_status_of_an_answer_becomes_an_error(
    server: LoopbackServer, source: HttpSource, status: int, body: bytes, error: type[Exception]
) -> None:
    """Check the error of each status; redirects are not followed."""
    server.answer = reply(status, body, Location="/elsewhere")
    if body == WRONG_EPOCH and not isinstance(source, HttpProxy):
        error = RefusedError  # a proxy's chunks may still be taken, a device's batch will not
    if status == 401 and not isinstance(source, HttpProxy):
        error = UnknownProxyError
    if (status, error) == (409, RefusedError) and isinstance(source, HttpProxy):
        error = SpentError
    with pytest.raises(error, match=str(status)) as caught:
        source.manifest()
    assert type(caught.value) is error
    assert len(server.requests) == 1


def test_unreachable_or_silent_peer_is_unavailable(connect: Connect) -> None:
    patience = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}

    def silent(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"] == patience
        raise httpx.ReadTimeout("")

    with LoopbackServer() as gone:
        url = gone.url
    for transport in (None, httpx.MockTransport(silent)):
        with httpx.Client(transport=transport) as http, pytest.raises(UnavailableError):
            connect(http, url).manifest()


@pytest.mark.parametrize("is_reused", [False, True])
@pytest.mark.parametrize("more", [b"", b"Content-Length: 999\r\n\r\n"], ids=["head", "body"])
def test_a_peer_that_drips_is_left(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, more: bytes, *, is_reused: bool
) -> None:
    """Leave a peer that sends a byte now and then, also on a connection that is used again."""
    monkeypatch.setattr("sottovoce.protocol.http.MAX_EXCHANGE_SECONDS", 0.2)
    monkeypatch.setattr("sottovoce.protocol.http.MIN_BYTES_PER_SECOND", 1e12)
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            if is_reused:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + more)
            while not ended.wait(0.01):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening, httpx.Client() as http:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        source = connect(http, f"http://127.0.0.1:{listening.getsockname()[1]}")
        if is_reused:
            assert source.manifest() == b"x"
        with pytest.raises(UnavailableError):
            source.shelf()
        ended.set()


# Paths are written once: in `routes`, and in the documentation.


REPOSITORY_ROOT = Path(__file__).parents[2]

PATH_TEMPLATES = {
    value
    for name, value in vars(routes).items()
    if name.isupper() and value.startswith(routes.API_ROOT) and value != routes.API_ROOT
}


def test_only_routes_contains_paths() -> None:
    package = Path(sottovoce.__file__).parent
    sources = set(package.rglob("*.py")) - {Path(routes.__file__)}
    assert len(sources) > 100
    assert [path for path in sources if "/v2/" in path.read_text()] == []


def test_documentation_has_exactly_these_paths() -> None:
    text = (REPOSITORY_ROOT / "docs" / "protocol.md").read_text()
    written = [path.replace("{hash}", "{sha256}") for path in re.findall(r"/v2/[\w{}/]+", text)]
    assert sorted(written) == sorted(PATH_TEMPLATES), "each once"
