"""What a proxy tells its server over HTTP, through httpx's own transport seam.

What it fetches is tested with the device's side in `tests/protocol/test_http.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UnavailableError,
    UnknownProxyError,
)
from sottovoce.protocol import SEALED, Chunk
from sottovoce.proxy import HttpUpstream, Tls, Upstream, connect
from tests.proxy.world import settings

CHUNK = Chunk(7, bytes(32), bytes(SEALED))
SECRET = "a very secret thing"


class Wire:
    """Answers as told; remembers what was asked."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]):
        self._answer = answer
        self.asked: list[httpx.Request] = []
        http = httpx.Client(transport=httpx.MockTransport(self._handle))
        self.upstream: Upstream = HttpUpstream(http, "https://server.example/", SECRET)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self._answer(request)


def answering(content: bytes) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, stream=httpx.ByteStream(content))


CALLS: dict[str, Callable[[Upstream], object]] = {
    "waiting": lambda u: u.waiting(7, "short"),
    "put_chunk": lambda u: u.put_chunk(CHUNK),
    "commit": lambda u: u.commit(7, bytes(32), 2, 40),
}


def test_what_is_told_and_with_which_secret() -> None:
    wire = Wire(answering(b'{"state":"open"}'))
    for call in CALLS.values():
        call(wire.upstream)
    zeros = "00" * 32
    assert [(r.method, str(r.url), r.headers["authorization"]) for r in wire.asked] == [
        ("POST", "https://server.example/v2/epochs/7/waiting", f"Bearer {SECRET}"),
        ("PUT", f"https://server.example/v2/epochs/7/chunks/{CHUNK.name}", f"Bearer {SECRET}"),
        ("POST", "https://server.example/v2/epochs/7/commit", f"Bearer {SECRET}"),
    ]
    told = [request.content for request in wire.asked]
    assert json.loads(told[0]) == {"crowd": "short"}
    assert told[1] == CHUNK.encode()
    assert json.loads(told[2]) == {"manifest": zeros, "chunks": 2, "reports": 40}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (425, UnavailableError), (503, UnavailableError), (410, ClosedError),
        (401, UnknownProxyError), (409, RefusedError), (307, RefusedError), (202, RefusedError),
    ],
)  # fmt: skip
def test_statuses(call: Callable[[Upstream], object], status: int, error: type[Exception]) -> None:
    elsewhere = {"Location": "https://elsewhere.example/"}
    wire = Wire(lambda _: httpx.Response(status, headers=elsewhere, stream=httpx.ByteStream(b"")))
    with pytest.raises(error) as caught:
        call(wire.upstream)
    assert type(caught.value) is error
    assert ("is this proxy's secret" in str(caught.value)) is (status == 401)
    assert len(wire.asked) == 1  # redirects are not followed
    assert SECRET not in str(caught.value)


def test_asking_about_the_secret_tells_nothing() -> None:
    """Whatever the server says of a request without an epoch: only 401 is about the secret."""
    for status in (404, 400, 422):
        wire = Wire(lambda _, status=status: httpx.Response(status))  # type: ignore[misc]
        wire.upstream.check_secret()
        assert wire.asked[0].content == b"{}"
        assert wire.asked[0].url.path == "/v2/epochs/0/waiting"
    with pytest.raises(UnknownProxyError, match="is this proxy's secret"):
        Wire(lambda _: httpx.Response(401)).upstream.check_secret()
    with pytest.raises(UnavailableError):
        Wire(lambda _: httpx.Response(503)).upstream.check_secret()


def test_a_long_answer_is_not_read() -> None:
    with pytest.raises(ProtocolError, match="longer than 4096"):
        Wire(answering(bytes(4097))).upstream.waiting(7, "short")


@pytest.mark.parametrize("told", [b"", b"[]", b"{}", b'{"state":"ajar"}', b'{"state":["open"]}'])
def test_a_state_that_there_is_not(told: bytes) -> None:
    wire = Wire(answering(told))
    with pytest.raises(ProtocolError):
        wire.upstream.waiting(1, "none")


def test_connect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With certificates: `test_tls.py`."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    http, upstream = connect(settings(tmp_path))
    assert isinstance(upstream, HttpUpstream)
    assert upstream._secret == {"Authorization": f"Bearer {SECRET}"}
    assert not caplog.messages
    http.close()


def test_connect_without_encryption_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    connect(settings(tmp_path, server="http://server.example"))[0].close()
    assert "not encrypted" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("content", [None, b"", b" \n", b"two\nlines", b"\xff\xfe"])
def test_a_secret_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(SettingsError, match="secret"):
        connect(settings(tmp_path))


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "bad.pem").write_text("nothing")
    tls = Tls(certificate=tmp_path / "bad.pem", private_key=tmp_path / "bad.pem")
    with pytest.raises(SettingsError, match="certificate"):
        connect(settings(tmp_path, tls=tls))
