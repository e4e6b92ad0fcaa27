"""HTTP without surprises: bodies are capped while they are read, errors are problem+json.

Nothing that a request carries (address, agent, time, body) is put into a log; an answer says at
most which value was refused, to whoever sent it.
"""

import gzip
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope

from sottovoce.errors import (
    ClosedError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    StoreError,
    TooEarlyError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import strict
from sottovoce.protocol.http import CLOSED_PROBLEM, WRONG_EPOCH_PROBLEM
from sottovoce.protocol.manifest import MAX_EPOCH

Handlers = dict[type[Exception] | int, Callable[..., Awaitable[Response]]]

STATUS_OF = {
    ProtocolError: HTTPStatus.BAD_REQUEST,
    ClosedError: HTTPStatus.GONE,
    NotFoundError: HTTPStatus.NOT_FOUND,
    RefusedError: HTTPStatus.CONFLICT,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    TooEarlyError: HTTPStatus.TOO_EARLY,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}
RETRY = 5
"""Seconds that whoever was answered 503 is asked to wait, if we know no better."""
BLANK = "about:blank"
KIND_OF = {
    ClosedError: CLOSED_PROBLEM,
    WrongEpochError: WRONG_EPOCH_PROBLEM,
}
"""The `type` of a problem, where its status alone does not say what to do."""
_DIGITS = re.compile("[0-9]+")
_LONGEST_LENGTH = 18
"""Digits: Python refuses to convert thousands of them."""
_EPOCH = re.compile("[1-9][0-9]{0,9}")


def network_of(address: str) -> str | int:
    """What one household has: an IPv4 address, or the first 56 bits of an IPv6 address.

    >>> network_of("203.0.113.7")
    '203.0.113.7'
    >>> network_of("2001:db8::1") == network_of("2001:db8::ffff")
    True
    >>> network_of("::ffff:203.0.113.7")
    '203.0.113.7'
    """
    if ":" not in address:
        return address
    try:
        known = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(known.ipv4_mapped) if known.ipv4_mapped else int(known) >> 72


def problem(
    status: HTTPStatus,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    kind: str = BLANK,
) -> JSONResponse:
    """RFC 9457: a status, its name, what to do about it; `kind` where programs must tell apart.

    No cache keeps it: a 404 may be a file that comes.
    """
    return JSONResponse(
        {"type": kind, "title": status.phrase, "status": status, "detail": detail},
        status,
        headers={"Cache-Control": "no-store", **(headers or {})},
        media_type="application/problem+json",
    )


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name, which is in lower case."""
    for known, value in scope["headers"]:
        if known == name:
            return str(value, "latin-1")
    return None


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body, or 413 as soon as it is longer: what is refused was never held in memory."""
    too_long = HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes")
    told = header(scope, b"content-length")
    declared = "0" if told is None else told
    if not _DIGITS.fullmatch(declared):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the length of the body is not a number")
    if len(declared) > _LONGEST_LENGTH or int(declared) > most:
        raise too_long
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        if len(body) + len(piece) > most:
            raise too_long
        body += piece
        more = message.get("more_body", False)
    return bytes(body)


def epoch_of(request: Request) -> int:
    """The epoch in the path; 404 for what cannot be one."""
    given = request.path_params["epoch"]
    if not _EPOCH.fullmatch(given) or int(given) > MAX_EPOCH:
        raise NotFoundError("there is no such epoch")
    return int(given)


def hash_of(request: Request) -> bytes:
    try:
        return strict.parse_hex(request.path_params["sha256"], what="path")
    except ProtocolError as error:
        raise NotFoundError("there is no such file") from error


def problem_of(error: Exception) -> Response:
    """What whoever asked is told of it. Nothing is logged: a line would keep its time."""
    if isinstance(error, HTTPException):
        return problem(HTTPStatus(error.status_code), error.detail, error.headers)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=HTTPStatus.BAD_REQUEST)
    internal = HTTPStatus.INTERNAL_SERVER_ERROR
    status = next((code for kind, code in STATUS_OF.items() if isinstance(error, kind)), internal)
    if status is internal:
        return problem(internal, "Internal error")
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        pause = ceil(getattr(error, "retry_after", None) or RETRY)
        return problem(status, "Temporarily unavailable", {"Retry-After": str(pause)})
    kind = next((kind for cause, kind in KIND_OF.items() if isinstance(error, cause)), BLANK)
    return problem(status, str(error), kind=kind)


def errors_as_problems() -> Handlers:
    async def answer(_: Request, error: Exception) -> Response:
        return problem_of(error)

    return dict.fromkeys((Exception, HTTPException, ClientDisconnect, *STATUS_OF), answer)


# Public files over HTTP: tags, caching, 304 to whoever has them, gzip to whoever accepts it.
#
# Only files that are the same for everybody are compressed, and none of them mixes a secret with
# what a reader chose: their compressed length tells nobody anything.

_GZIP = re.compile("gzip(;q=(1|1[.]0*|0?[.]0*[1-9][0-9]*))?")
BYTES = "application/octet-stream"
BRIEFLY = "public, max-age=10"
"""For what changes with the epoch."""
FOR_EVER = "public, max-age=31536000, immutable"
"""For what is named by its hash or its epoch."""


def serve(
    request: Request, content: bytes | None, tag: str, caching: str, compressed: bytes | None = None
) -> Response:
    """A file of the protocol, and how long caches may keep it; 404 if there is none."""
    if content is None:
        raise NotFoundError("there is no such file")
    file = File(content, tag, compressed=compressed)
    return file.respond(request, {"Cache-Control": caching})


def compress(content: bytes) -> bytes:
    """As small as gzip gets it; the same bytes for the same content."""
    return gzip.compress(content, mtime=0)


@dataclass(frozen=True)
class File:
    """One public file, as it is and, if there is any use in it, compressed."""

    content: bytes
    tag: str
    """Names the content."""
    media_type: str = BYTES
    compressed: bytes | None = None

    def respond(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Bytes as the reader accepts them, 304 if they have them; without a body for HEAD."""
        body, tag, headers = self.content, self.tag, dict(headers)
        if self.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request):  # other bytes have another tag
                body, tag = self.compressed, f"{tag}-gzip"
                headers["Content-Encoding"] = "gzip"
        headers["ETag"] = f'"{tag}"'
        known = [held.strip().removeprefix("W/") for held in _listed(request, "if-none-match")]
        if "*" in known or headers["ETag"] in known:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers["Content-Length"] = str(len(body))
        sent = b"" if request.method == "HEAD" else body
        return Response(sent, headers=headers, media_type=self.media_type)


def accepts_gzip(request: Request) -> bool:
    """Whether the reader said so: silence means the bytes as they are."""
    named = [each.replace(" ", "").lower() for each in _listed(request, "accept-encoding")]
    return any(_GZIP.fullmatch(each) for each in named)


def _listed(request: Request, header: str) -> list[str]:
    return ",".join(request.headers.getlist(header)).split(",")
