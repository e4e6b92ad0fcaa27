"""The proxy over real sockets: what a request carries, what an answer means, what is not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from sottovoce.client import Client, HttpProxy
from sottovoce.client.address import checked_url
from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UnavailableError,
)
from tests.client.loopback import LoopbackServer, reply, serve

if TYPE_CHECKING:
    from tests.client.world import FakeProxy, World


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as running:
        yield running


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """As careless as one can be set up."""
    with httpx.Client(
        headers={"Accept-Language": "ro", "X-Who": "me"},
        cookies={"who": "me"},
        auth=("me", "secret"),
        follow_redirects=True,
    ) as made:
        yield made


@pytest.fixture
def api(server: LoopbackServer, http: httpx.Client) -> HttpProxy:
    return HttpProxy(http, server.url + "/")


def test_paths_and_bodies(server: LoopbackServer, api: HttpProxy) -> None:
    sha256 = bytes(range(32))
    assert api.manifest() == b"hello"
    assert api.model(sha256, 5) == b"hello"
    assert api.catalogue(sha256) == b"hello"
    server.answer = reply(202)
    api.send(b"batch")
    assert [(method, path, body) for method, path, _, body in server.requests] == [
        ("GET", "/v1/manifest", b""),
        ("GET", f"/v1/models/{sha256.hex()}", b""),
        ("GET", f"/v1/catalogues/{sha256.hex()}", b""),
        ("POST", "/v1/batches", b"batch"),
    ]


def test_a_request_carries_what_everybodys_does(server: LoopbackServer, api: HttpProxy) -> None:
    server.answer = reply(200, b"hello", Set_Cookie="id=1; Path=/", ETag='"abc"')
    api.manifest()
    api.manifest()
    server.answer = reply(202)
    api.send(b"batch")
    host = server.url.removeprefix("http://")
    common = {
        "host": host,
        "user-agent": "sottovoce",
        "accept": "*/*",
        "accept-encoding": "identity",
    }
    carried = [headers for _, _, headers, _ in server.requests]
    assert carried[:2] == [common, common]
    assert carried[2] == common | {
        "content-type": "application/octet-stream",
        "content-length": "5",
    }


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server: LoopbackServer, api: HttpProxy, status: int) -> None:
    server.answer = reply(status, Location="/elsewhere")
    with pytest.raises(RefusedError, match="redirects are not followed"):
        api.manifest()
    with pytest.raises(RefusedError):
        api.send(b"batch")
    assert [path for _, path, _, _ in server.requests] == ["/v1/manifest", "/v1/batches"]


def test_an_announced_length_beyond_the_cap_is_not_read(
    server: LoopbackServer, api: HttpProxy
) -> None:
    assert api.model(bytes(32), 5) == b"hello"
    with pytest.raises(ProtocolError, match="longer than 4 bytes"):
        api.model(bytes(32), 4)
    server.answer = reply(200, bytes(16 * 1024 + 1))
    with pytest.raises(ProtocolError, match="longer than 16384"):
        api.manifest()


@pytest.mark.parametrize("length", [None, "12", "9" * 5000, "many"])
def test_a_body_without_end_is_given_up(
    server: LoopbackServer, api: HttpProxy, length: str | None
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
        assert api.model(bytes(32), 12) == bytes(12)
    else:
        with pytest.raises((ProtocolError, UnavailableError)):
            api.model(bytes(32), 1000)
    server.http.shutdown()
    assert written < 200_000_000


def test_a_body_that_ends_early_can_be_had_later(server: LoopbackServer, api: HttpProxy) -> None:
    def cut(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")

    server.answer = cut
    with pytest.raises(UnavailableError):
        api.manifest()


def test_nothing_is_unpacked(server: LoopbackServer, api: HttpProxy) -> None:
    import gzip

    packed = gzip.compress(bytes(1_000_000))
    server.answer = reply(200, packed, Content_Encoding="gzip")
    assert api.model(bytes(32), 5000) == packed


WRONG_EPOCH = json.dumps({"type": "urn:sottovoce:wrong-epoch", "status": 409}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"Welcome to the hotel", RefusedError),
        (204, b"", RefusedError),
        (400, b"", RefusedError),
        (401, b"", RefusedError),
        (404, b"", RefusedError),
        (413, b"", RefusedError),
        (409, b'{"type": "about:blank"}', RefusedError),
        (409, b"[]", RefusedError),
        (409, b"\xff", RefusedError),
        (409, b"[" * 10_000, RefusedError),
        (409, bytes(20_000), RefusedError),
        (409, WRONG_EPOCH, ClosedError),
        (410, b"", ClosedError),
        (408, b"", UnavailableError),
        (425, b"", UnavailableError),
        (429, b"", UnavailableError),
        (500, b"", UnavailableError),
        (503, b"", UnavailableError),
        (599, b"", UnavailableError),
    ],
)
def test_what_an_answer_to_a_batch_means(
    server: LoopbackServer, api: HttpProxy, status: int, body: bytes, error: type[Exception]
) -> None:
    server.answer = reply(status, body)
    with pytest.raises(error) as caught:
        api.send(b"batch")
    assert type(caught.value) is error
    assert str(status) in str(caught.value)


def test_nobody_there_is_unavailable(http: httpx.Client) -> None:
    with LoopbackServer() as gone:
        url = gone.url
    with pytest.raises(UnavailableError, match="try again later"):
        HttpProxy(http, url).manifest()


def test_a_proxy_that_says_nothing_is_given_up() -> None:
    def silent(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"] == {
            "connect": 10.0,
            "read": 30.0,
            "write": 30.0,
            "pool": 30.0,
        }
        raise httpx.ReadTimeout("")

    with (
        httpx.Client(transport=httpx.MockTransport(silent)) as http,
        pytest.raises(UnavailableError, match="ReadTimeout"),
    ):
        HttpProxy(http, "https://proxy.example").manifest()


# Addresses.


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "http://localhost:8000/",
        "http://127.0.0.1",
        "http://127.9.8.7:1",
        "http://[::1]:8000",
        "https://proxy.example/under/here",
    ],
)
def test_https_or_this_machine(url: str) -> None:
    assert checked_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://proxy.example",
        "http://10.0.0.1",
        "http://128.0.0.1",
        "http://0.0.0.0",
        "http://localhost.example",
        "http://127.0.0.1.example",
        "http://[::2]",
        "http://127.1",
        "HTTP://proxy.example",
    ],
)
def test_plain_http_to_anywhere_else_is_refused(http: httpx.Client, url: str) -> None:
    with pytest.raises(SettingsError, match="not encrypted"):
        HttpProxy(http, url)


@pytest.mark.parametrize("url", ["https://\x01", "https://a:b", "https://" + "a" * 70000])
def test_what_is_no_address_is_refused(http: httpx.Client, url: str) -> None:
    with pytest.raises(SettingsError):
        HttpProxy(http, url)


# All of it together.


def test_a_sync_over_http(
    client: Client, proxy: FakeProxy, world: World, server: LoopbackServer, api: HttpProxy
) -> None:
    server.answer = serve(proxy)
    assert client.sync(api).outcome == "sent"
    assert client.sync(api).outcome == "already sent"
    assert len(proxy.received) == 1
    for method, path, headers, body in server.requests:
        for told in (method, path, str(headers)):
            assert "secret-item" not in told
        assert b"secret-item" not in body


def test_a_proxy_that_is_away_keeps_the_batch_here(
    client: Client, proxy: FakeProxy, server: LoopbackServer, api: HttpProxy, folder: Path
) -> None:
    answer = serve(proxy)

    def busy(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "POST":
            reply(429, Retry_After="5")(handler, body)
        else:
            answer(handler, body)

    server.answer = busy
    with pytest.raises(UnavailableError):
        client.sync(api)
    refused = server.requests[-1][3]
    server.answer = answer
    assert client.sync(api).outcome == "sent"
    assert proxy.received == [refused]
