"""What HTTP adds to the bytes: names of refusals, and bodies that are never longer than allowed."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError

if TYPE_CHECKING:
    import httpx

CLOSED = "urn:sottovoce:closed"
"""The `type` of a problem: the epoch is over."""
WRONG_EPOCH = "urn:sottovoce:wrong-epoch"
"""The `type` of a problem: a batch of an epoch that is not the present one."""
LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses that, beside every 5xx, mean: retry later."""
_LONGEST_WAIT = 9
"""Digits of `Retry-After`."""
_LONGEST_LENGTH = 18
"""Digits of a body's announced length: Python refuses to convert thousands of them."""


def is_for_later(status: int) -> bool:
    """Whether the same request may succeed another time."""
    return status in LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def seconds_to_wait(header: str, now: float) -> float | None:
    """What `Retry-After` asks for, as seconds or as a date (RFC 9110, 10.2.3); None if it does not.

    >>> seconds_to_wait("120", now=0.0), seconds_to_wait("soon", now=0.0)
    (120.0, None)
    """
    if header.isascii() and header.isdigit() and len(header) <= _LONGEST_WAIT:
        return float(header)
    try:
        seconds = parsedate_to_datetime(header).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None


def read_capped(response: httpx.Response, most: int) -> bytes:
    """The body as it came, given up as soon as it is longer: it is never held in memory."""
    too_long = ProtocolError(f"{response.url}: longer than {most} bytes; it was not read")
    announced = response.headers.get("content-length", "0")
    if len(announced) > _LONGEST_LENGTH or (announced.isdecimal() and int(announced) > most):
        raise too_long
    body = bytearray()
    # Raw: nothing compressed was asked for, and what is small on the way may be huge inside.
    for piece in response.iter_raw():
        if len(body) + len(piece) > most:
            raise too_long
        body += piece
    return bytes(body)
