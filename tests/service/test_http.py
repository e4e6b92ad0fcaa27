"""Requests and answers: limits of bodies, errors as problems, public files and paths."""

import asyncio
import gzip
import itertools
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sottovoce import errors
from sottovoce.service.files import CACHE_BRIEFLY, CACHE_FOREVER, compress, send_file
from sottovoce.service.http import build_error_handlers, parse_epoch, parse_hash, read_body
from tests.asgi import Answer, ask


def fetch(path: str, headers: Iterable[tuple[str, str]] = (), method: str = "GET") -> Answer:
    return asyncio.run(ask(APP, method, path, headers=headers))


MOST = 100


def make_raising_app(error: BaseException | None = None) -> Starlette:
    async def endpoint(request: Request) -> Response:
        body = await read_body(request.scope, request.receive, MOST)
        if error is not None:
            raise error
        return PlainTextResponse(str(len(body)))

    routes = [Route("/", endpoint, methods=["POST"])]
    return Starlette(routes=routes, exception_handlers=build_error_handlers())


def call(
    app: Starlette,
    pieces: Iterable[bytes] = (),
    *,
    length: str | bytes | None = None,
    method: str = "POST",
    **more: Any,
) -> Answer:
    async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette answers first and then lets the server log what was not expected.
        with suppress(Exception):
            await app(scope, receive, send)

    headers = [] if length is None else [("content-length", length)]
    return asyncio.run(ask(quiet, method, more.pop("path", "/"), pieces, headers, **more))


def post(*pieces: bytes, length: str | bytes | None = None) -> Answer:
    return call(make_raising_app(), pieces, length=length)


def is_problem(answer: Answer, status: int) -> dict[str, Any]:
    content: dict[str, Any] = answer.problem()
    assert answer.headers["cache-control"] == "no-store"
    assert content["status"] == status
    assert content["title"] == HTTPStatus(status).phrase
    assert {*content} == {"type", "title", "status", "detail"}
    return content


@pytest.mark.parametrize("length", [None, "0", "5", "100"])
def test_too_long_body_is_refused(length: str | None) -> None:
    content = is_problem(post(b"a" * 60, b"b" * 41, length=length), 413)
    assert str(MOST) in content["detail"]


def test_endless_body_is_refused_while_it_is_read() -> None:
    pieces = itertools.count()
    is_problem(call(make_raising_app(), (b"a" * 10 for _ in pieces)), 413)
    assert next(pieces) == MOST / 10 + 1


@pytest.mark.parametrize("length", ["101", "9" * 18, "9" * 19, "9" * 5_000, "0" * 5_000])
def test_body_that_declares_too_much_is_not_read(length: str) -> None:
    pieces = iter([b"a"])
    is_problem(call(make_raising_app(), pieces, length=length), 413)
    assert next(pieces) == b"a"


@pytest.mark.parametrize(
    "length",
    ["", "-1", "+1", " 1", "1 ", "1_0", "0x1", "1.0", "1e1", "ten", "²", "١٢".encode(), b"\xff"],
)
def test_length_that_is_not_a_number_is_refused(length: str | bytes) -> None:
    is_problem(post(b"a", length=length), 400)


def test_closed_connection_is_not_an_internal_error() -> None:
    answer = call(make_raising_app(), [b"a"], length="2", hang_up=True)
    assert (answer.status, answer.body) == (400, b"")


STATUS: dict[type[Exception], int] = {
    errors.ProtocolError: 400,
    errors.UntrustedError: 400,
    errors.NotFoundError: 404,
    errors.RefusedError: 409,
    errors.WrongEpochError: 409,
    errors.ClosedError: 410,
    errors.TooEarlyError: 425,
}

KINDS: dict[type[Exception], str] = {
    errors.WrongEpochError: "urn:sottovoce:wrong-epoch",
    errors.ClosedError: "urn:sottovoce:closed",
}


@pytest.mark.parametrize("kind", STATUS)
def test_client_error_has_its_reason(kind: type[Exception]) -> None:
    content = is_problem(call(make_raising_app(kind("the epoch is over"))), STATUS[kind])
    assert content["detail"] == "the epoch is over"
    assert content["type"] == KINDS.get(kind, "about:blank")


@pytest.mark.parametrize("kind", [errors.StoreError, errors.UnavailableError])
def test_server_error_has_no_details(kind: type[Exception]) -> None:
    answer = call(make_raising_app(kind("disk of /srv is full")))
    is_problem(answer, 503)
    assert answer.headers["retry-after"] == "5"
    assert b"/srv" not in answer.body


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, errors.LedgerError])
def test_unexpected_error_has_no_details(kind: type[Exception]) -> None:
    answer = call(make_raising_app(kind("the secret of the operator")))
    is_problem(answer, 500)
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body


def test_every_error_class_becomes_a_problem() -> None:
    def below(kind: type[Exception]) -> list[type[Exception]]:
        return [kind, *(subclass for sub in kind.__subclasses__() for subclass in below(sub))]

    for kind in below(errors.SottovoceError):
        # Other arguments of its constructor.
        answer = call(make_raising_app(kind.__new__(kind, "x")))
        assert is_problem(answer, answer.status)["status"] >= 400


CONTENT = b"numbers " * 50

TAG = '"tag"'


async def answer(request: Request) -> Response:
    match request.path_params:
        case {"epoch": _}:
            return PlainTextResponse(str(parse_epoch(request)))
        case {"sha256": _}:
            return PlainTextResponse(parse_hash(request).hex())
        case {"kind": "plain"}:
            return send_file(request, CONTENT, "tag", CACHE_BRIEFLY)
        case {"kind": "packed"}:
            return send_file(request, CONTENT, "tag", CACHE_FOREVER, compress(CONTENT))
    return send_file(request, None, "tag", CACHE_FOREVER)


APP = Starlette(
    routes=[Route(f"/{path}", answer) for path in ("{kind}", "epochs/{epoch}", "files/{sha256}")],
    exception_handlers=build_error_handlers(),
)


def test_file_has_its_type_and_cache_time() -> None:
    answer = fetch("/plain")
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers == {
        "etag": TAG,
        "cache-control": "public, max-age=10",
        "content-length": str(len(CONTENT)),
        "content-type": "application/octet-stream",
    }
    head = fetch("/plain", method="HEAD")
    assert (head.status, head.body, head.headers) == (200, b"", answer.headers)
    assert fetch("/packed").headers["cache-control"] == "public, max-age=31536000, immutable"


def test_missing_file_is_not_cached() -> None:
    is_problem(fetch("/none"), 404)
    is_problem(fetch("/no/route"), 404)


@pytest.mark.parametrize("etag", [TAG, f"W/{TAG}", f'"other", {TAG}', f'{TAG},"other"', "*"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_known_file_is_304(etag: str, method: str) -> None:
    answer = fetch("/plain", [("if-none-match", etag)], method)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers == {"etag": TAG, "cache-control": "public, max-age=10"}


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True), ("GZIP", True), ("br, gzip;q=0.1", True), ("*", False),
        ("", False), ("identity", False), ("br", False), ("gzip;q=0", False), ("gzip;q=x", False),
        ("*, gzip;q=0", False), ("gzipped", False), ("*;q=0", False),
    ],
)  # fmt: skip
def test_file_is_compressed_if_the_client_accepts_it(accepted: str, compressed: bool) -> None:
    accepts = ("accept-encoding", accepted)
    answer = fetch("/packed", [accepts])
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert (answer.headers.get("content-encoding") == "gzip") is compressed
    assert (gzip.decompress(answer.body) if compressed else answer.body) == CONTENT
    # Other bytes have another tag, or a cache would give them to somebody who cannot read them.
    tag = '"tag-gzip"' if compressed else TAG
    assert answer.headers["etag"] == tag
    assert fetch("/packed", [accepts], "HEAD").headers == answer.headers
    again = fetch("/packed", [accepts, ("if-none-match", tag)])
    assert (again.status, again.headers["etag"]) == (304, tag)
    assert again.headers["vary"] == "Accept-Encoding"
    assert "content-length" not in again.headers
