"""Public files: tags, conditional answers, caching, gzip, what a path may name."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sottovoce.service import epoch_of, errors_as_problems, hash_of
from sottovoce.service.http import BRIEFLY, FOR_EVER, compress, serve
from tests.asgi import Answer, ask

if TYPE_CHECKING:
    from starlette.requests import Request

CONTENT = b"numbers " * 50
TAG = '"tag"'


async def answer(request: Request) -> Response:
    match request.path_params:
        case {"epoch": _}:
            return PlainTextResponse(str(epoch_of(request)))
        case {"sha256": _}:
            return PlainTextResponse(hash_of(request).hex())
        case {"kind": "plain"}:
            return serve(request, CONTENT, "tag", BRIEFLY)
        case {"kind": "packed"}:
            return serve(request, CONTENT, "tag", FOR_EVER, compress(CONTENT))
    return serve(request, None, "tag", FOR_EVER)


APP = Starlette(
    routes=[Route(f"/{path}", answer) for path in ("{kind}", "epochs/{epoch}", "files/{sha256}")],
    exception_handlers=errors_as_problems(log_unavailable=False),
)


def get(path: str, headers: Iterable[tuple[str, str]] = (), method: str = "GET") -> Answer:
    return asyncio.run(ask(APP, method, path, headers=headers))


def test_a_file_says_what_it_is_and_how_long_it_may_be_kept() -> None:
    answer = get("/plain")
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers == {
        "etag": TAG,
        "cache-control": "public, max-age=10",
        "content-length": str(len(CONTENT)),
        "content-type": "application/octet-stream",
    }
    head = get("/plain", method="HEAD")
    assert (head.status, head.body, head.headers) == (200, b"", answer.headers)
    assert get("/packed").headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("held", [TAG, f"W/{TAG}", f'"other", {TAG}', f'{TAG},"other"', "*"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_304_to_whoever_has_it(held: str, method: str) -> None:
    answer = get("/plain", [("if-none-match", held)], method)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers == {"etag": TAG, "cache-control": "public, max-age=10"}


@pytest.mark.parametrize(
    "held",
    ["", "tag", '"other"', '"tag-gzip"', f"x{TAG}", f"{TAG}x", f'"a{TAG}', f"w/{TAG}", '"TAG"'],
)
def test_another_tag_is_another_thing(held: str) -> None:
    assert get("/plain", [("if-none-match", held)]).body == CONTENT


@pytest.mark.parametrize("header", ["if-none-match", "accept-encoding"])
def test_two_headers_are_read_as_one(header: str) -> None:
    wanted = {"if-none-match": TAG, "accept-encoding": "gzip"}[header]
    answer = get("/packed", [(header, '"other"'), (header, wanted)])
    assert answer.body != CONTENT


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True), ("GZIP", True), ("br, gzip;q=0.1", True), ("*", True), ("*;q=0.5", True),
        ("", False), ("identity", False), ("br", False), ("gzip;q=0", False), ("gzip;q=x", False),
        ("*, gzip;q=0", False), ("gzipped", False), ("*;q=0", False),
    ],
)  # fmt: skip
def test_gzip_to_whoever_accepts_it(accepted: str, compressed: bool) -> None:
    accepts = ("accept-encoding", accepted)
    answer = get("/packed", [accepts])
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert (answer.headers.get("content-encoding") == "gzip") is compressed
    assert (gzip.decompress(answer.body) if compressed else answer.body) == CONTENT
    # Other bytes have another tag, or a cache would give them to somebody who cannot read them.
    tag = '"tag-gzip"' if compressed else TAG
    assert answer.headers["etag"] == tag
    assert get("/packed", [accepts], "HEAD").headers == answer.headers
    again = get("/packed", [accepts, ("if-none-match", tag)])
    assert (again.status, again.headers["etag"]) == (304, tag)
    assert again.headers["vary"] == "Accept-Encoding"
    assert "content-length" not in again.headers


def test_without_a_compressed_form_nothing_is_compressed() -> None:
    answer = get("/plain", [("accept-encoding", "gzip")])
    assert answer.body == CONTENT
    assert not {"content-encoding", "vary"} & set(answer.headers)


HASH = bytes(range(32)).hex()


@pytest.mark.parametrize("path", ["epochs/1", "epochs/4294967295", f"files/{HASH}"])
def test_what_a_path_names(path: str) -> None:
    assert get(f"/{path}").body.decode() == path.partition("/")[2]


@pytest.mark.parametrize(
    "path",
    [
        *("epochs/" + no for no in ("0", "01", "-1", "1e3", "1.0", "x", "4294967296", "9" * 5000)),
        *("epochs/" + digit for digit in "²١"),
        *("files/" + no for no in (HASH.upper(), HASH[:-1], HASH + "0", "x", "G" * 64)),
        "nothing",
    ],
)
def test_404_for_what_cannot_be_there(path: str) -> None:
    assert get(f"/{path}").problem()["status"] == 404
