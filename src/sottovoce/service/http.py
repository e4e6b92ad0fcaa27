"""HTTP of a service: bodies are read up to a limit, and errors are answered with problem+json.

Nothing about a request is logged: no address, user agent, time or body. An error answer repeats at
most the value that was refused.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
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

ErrorHandlers = dict[type[Exception] | int, Callable[..., Awaitable[Response]]]

STATUS_BY_ERROR = {
    ProtocolError: HTTPStatus.BAD_REQUEST,
    ClosedError: HTTPStatus.GONE,
    NotFoundError: HTTPStatus.NOT_FOUND,
    RefusedError: HTTPStatus.CONFLICT,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    TooEarlyError: HTTPStatus.TOO_EARLY,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}
# `Retry-After` of a 503 whose error names no time.
DEFAULT_RETRY_SECONDS = 5
# The `type` of a problem whose status tells a program enough.
GENERIC_PROBLEM = "about:blank"
# The `type` of problems whose status alone does not tell a program what to do.
PROBLEM_BY_ERROR = {
    ClosedError: CLOSED_PROBLEM,
    WrongEpochError: WRONG_EPOCH_PROBLEM,
}
# Digits of a `Content-Length`. Python refuses to convert thousands of digits.
MAX_LENGTH_DIGITS = 18
_DIGITS_PATTERN = re.compile("[0-9]+")
_EPOCH_PATTERN = re.compile("[1-9][0-9]{0,9}")


def make_problem(
    status: HTTPStatus,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    kind: str = GENERIC_PROBLEM,
) -> JSONResponse:
    """Return an answer in the format of RFC 9457, problem details.

    Args:
        status: The status, whose name becomes the title.
        detail: What is wrong.
        headers: Further headers of the answer.
        kind: The `type` of the problem.
    """
    return JSONResponse(
        {"type": kind, "title": status.phrase, "status": status, "detail": detail},
        status,
        # A cache must not keep a problem: a file that is missing now may come later.
        headers={"Cache-Control": "no-store", **(headers or {})},
        media_type="application/problem+json",
    )


def get_header(scope: Scope, name: bytes) -> str | None:
    """Return the value of the first header with this name, or None. Give the name in lower case."""
    for candidate, value in scope["headers"]:
        if candidate == name:
            return str(value, "latin-1")
    return None


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: 413 as soon as the body is known to be longer than `max_bytes`; 400 if its
            length is not a number.
        ClientDisconnect: The client has disconnected.
    """
    too_long = HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {max_bytes} bytes")
    header = get_header(scope, b"content-length")
    declared = "0" if header is None else header
    if not _DIGITS_PATTERN.fullmatch(declared):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the length of the body is not a number")
    if len(declared) > MAX_LENGTH_DIGITS or int(declared) > max_bytes:
        raise too_long
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        if len(body) + len(piece) > max_bytes:
            raise too_long
        body += piece
        has_more = message.get("more_body", False)
    return bytes(body)


def parse_epoch(request: Request) -> int:
    """Return the epoch in the path; raise a `NotFoundError` if it is not valid."""
    text = request.path_params["epoch"]
    if not _EPOCH_PATTERN.fullmatch(text) or int(text) > MAX_EPOCH:
        raise NotFoundError("there is no such epoch")
    return int(text)


def parse_hash(request: Request) -> bytes:
    """Return the SHA-256 hash in the path; raise a `NotFoundError` if it is not valid."""
    try:
        return strict.parse_hex(request.path_params["sha256"], what="path")
    except ProtocolError as error:
        raise NotFoundError("there is no such file") from error


def answer_error(error: Exception) -> Response:
    """Return the answer to a request that raised an error.

    Nothing is logged, because a line would record the time of the request.
    """
    if isinstance(error, HTTPException):
        return make_problem(HTTPStatus(error.status_code), error.detail, error.headers)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=HTTPStatus.BAD_REQUEST)
    internal = HTTPStatus.INTERNAL_SERVER_ERROR
    statuses = (status for kind, status in STATUS_BY_ERROR.items() if isinstance(error, kind))
    status = next(statuses, internal)
    if status is internal:
        return make_problem(internal, "Internal error")
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        seconds = ceil(getattr(error, "retry_after", None) or DEFAULT_RETRY_SECONDS)
        return make_problem(status, "Temporarily unavailable", {"Retry-After": str(seconds)})
    kinds = (kind for cause, kind in PROBLEM_BY_ERROR.items() if isinstance(error, cause))
    return make_problem(status, str(error), kind=next(kinds, GENERIC_PROBLEM))


def build_error_handlers() -> ErrorHandlers:
    """Return exception handlers for an application, which answer with `answer_error`."""

    async def handle(_: Request, error: Exception) -> Response:
        return answer_error(error)

    return dict.fromkeys((Exception, HTTPException, ClientDisconnect, *STATUS_BY_ERROR), handle)
