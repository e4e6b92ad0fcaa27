"""A device's batch over real sockets, and which addresses it is sent to.

What it fetches is tested with the proxy's side in `tests/protocol/test_http.py`.
"""

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
    RefusedError,
    SettingsError,
    UnavailableError,
)
from tests.loopback import LoopbackServer, reply, serve

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


def test_a_batch_carries_what_everybodys_does(server: LoopbackServer, api: HttpProxy) -> None:
    server.answer = reply(202, Set_Cookie="id=1; Path=/")
    for _ in range(2):
        api.send(b"batch")
    headers = {
        "host": server.url.removeprefix("http://"),
        "user-agent": "sottovoce",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/octet-stream",
        "content-length": "5",
    }
    assert server.requests == [("POST", "/v1/batches", headers, b"batch")] * 2


WRONG_EPOCH = json.dumps({"type": "urn:sottovoce:wrong-epoch", "status": 409}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"Welcome to the hotel", RefusedError),
        (204, b"", RefusedError),
        (307, b"", RefusedError),
        (409, b"", RefusedError),
        (409, WRONG_EPOCH, ClosedError),
        (410, b"", ClosedError),
        (429, b"", UnavailableError),
        (503, b"", UnavailableError),
    ],
)
def test_what_an_answer_to_a_batch_means(
    server: LoopbackServer, api: HttpProxy, status: int, body: bytes, error: type[Exception]
) -> None:
    server.answer = reply(status, body, Location="/elsewhere")
    with pytest.raises(error) as caught:
        api.send(b"batch")
    assert type(caught.value) is error
    assert len(server.requests) == 1


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
