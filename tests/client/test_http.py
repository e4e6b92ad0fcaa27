"""A device's batch over real sockets, and which addresses it is sent to.

What it fetches is tested with the proxy's side in `tests/protocol/test_http.py`.
"""

from collections.abc import Iterator

import httpx
import pytest

from sottovoce.client import HttpProxy
from sottovoce.client.http import check_url
from sottovoce.errors import ClosedError, RefusedError, SettingsError, UnavailableError
from tests.loopback import LoopbackServer, make_careless_http, reply


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as running:
        yield running


@pytest.fixture
def api(server: LoopbackServer) -> Iterator[HttpProxy]:
    with make_careless_http() as http:
        yield HttpProxy(http, server.url + "/")


def test_request_of_a_batch_has_the_same_headers_on_every_device(
    server: LoopbackServer, api: HttpProxy
) -> None:
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
    assert server.requests == [("POST", "/v2/batches", headers, b"batch")] * 2


@pytest.mark.parametrize(
    ("status", "error"),
    [(200, RefusedError), (307, RefusedError), (410, ClosedError), (503, UnavailableError)],
)
def test_status_of_the_answer_to_a_batch(
    server: LoopbackServer, api: HttpProxy, status: int, error: type[Exception]
) -> None:
    # Only 202 is an acknowledgement, because the login page of a hotel answers 200. The same holds
    # for the request before the batch.
    server.answer = reply(status, b"Welcome to the hotel", Location="/elsewhere")
    for ask, what in ((api.check_taken, bytes(32)), (api.send, b"batch")):
        with pytest.raises(error) as caught:
            ask(what)
        assert type(caught.value) is error
    assert [method for method, *_ in server.requests] == ["GET", "POST"]


# Addresses.
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost", "http://localhost:8000/", "http://127.0.0.1", "http://127.9.8.7:1",
        "http://[::1]:8000", "https://proxy.example/under/here",
    ],
)  # fmt: skip
def test_https_and_loopback_addresses_are_accepted(url: str) -> None:
    assert check_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://proxy.example", "http://10.0.0.1", "http://128.0.0.1", "http://0.0.0.0",
        "http://localhost.example", "http://127.0.0.1.example", "http://[::2]", "http://127.1",
        "HTTP://proxy.example", "https://\x01", "https://a:b", "https://" + "a" * 70000, "ftp://a",
        "a", "https://", "https://[::1", "https://a:99999", "https://me:secret@a",
        "https://a/?who=me", "https://a/#me",
    ],
)  # fmt: skip
def test_unencrypted_and_malformed_addresses_are_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        HttpProxy(httpx.Client(), url)
