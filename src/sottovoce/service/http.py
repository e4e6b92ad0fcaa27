"""HTTP without surprises: bodies are capped while they are read, errors are problem+json.

Nothing that a request carries (address, agent, time, body) is put into an answer or into a log.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from sottovoce.errors import ProtocolError, RefusedError, StoreError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

log = logging.getLogger("sottovoce")

STATUS_OF = {
    ProtocolError: HTTPStatus.BAD_REQUEST,
    RefusedError: HTTPStatus.CONFLICT,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}


def problem(
    status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """RFC 9457: a status, its name, and what to do about it."""
    return JSONResponse(
        {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail},
        status,
        headers=headers,
        media_type="application/problem+json",
    )


async def read_body(request: Request, most: int) -> bytes:
    """The body, or 413 as soon as it is longer: what is refused was never held in memory."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes")
    return bytes(body)


def errors_as_problems() -> dict[type[Exception] | int, Callable[..., Awaitable[Response]]]:
    """For Starlette's `exception_handlers`."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem(HTTPStatus(error.status_code), error.detail, error.headers)

    async def ours(_: Request, error: Exception) -> Response:
        status = next(code for kind, code in STATUS_OF.items() if isinstance(error, kind))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            log.warning("%s: %s", type(error).__name__, error)
            return problem(status, "not now; the same again later", {"Retry-After": "5"})
        return problem(status, str(error))

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=HTTPStatus.BAD_REQUEST)

    async def unexpected(_: Request, __: Exception) -> Response:
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of ours; it was not your doing")

    handlers: dict[type[Exception] | int, Callable[..., Awaitable[Response]]] = {
        HTTPException: refused,
        ClientDisconnect: gone,
        Exception: unexpected,
    }
    return handlers | dict.fromkeys(STATUS_OF, ours)
