"""What is published, fetched over HTTP, and how any other request is sent.

Requests are built by hand, so that nothing is added to them: no cookie, no language, no version, no
`If-None-Match` (which would tell what this reader saw last). Redirects are not followed.
"""

import json
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, ClassVar, NoReturn

import httpx

from sottovoce.characters import visible
from sottovoce.errors import ClosedError, ProtocolError, RefusedError, TlsError, UnavailableError
from sottovoce.protocol import routes
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from sottovoce.protocol.manifest import SignedManifest
from sottovoce.protocol.shelf import SignedShelf

CLOSED = "urn:sottovoce:closed"
"""The `type` of a problem: the epoch is over."""
WRONG_EPOCH = "urn:sottovoce:wrong-epoch"
"""The `type` of a problem: a batch of an epoch that is not the present one."""
LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses that mean, like every 5xx: retry later."""
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


HEADERS = {"User-Agent": "sottovoce", "Accept": "*/*", "Accept-Encoding": "identity"}
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
MAX_PROBLEM = 16 * 1024
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL says of an answer in plain HTTP."""
MAX_QUOTE = 400
"""Characters of a reason that is repeated."""


class HttpSource:
    """A `PublishedSource` at an address; any `httpx.Client` will do, whatever it would add."""

    _who: ClassVar[str]
    """Who answers, for messages."""
    _hints: ClassVar[Mapping[int, str]] = {}
    """What to look at when an answer has this status."""
    _refusals: ClassVar[Mapping[int, type[RefusedError]]] = {}
    """What such a status means, where it is more than a refusal."""
    _trust: ClassVar[str] = "is the address right, and this device's clock?"
    """What to look at when its certificate, or ours, does not hold."""
    _later: ClassVar[str] = "try again later"
    _untold: ClassVar[str] = ""
    """What may be wrong where TLS goes well and no answer comes."""
    """What is done, or to do, when it cannot be reached."""
    _quotes: ClassVar[bool] = False
    """Whether messages repeat the reason that they give: only what an operator reads."""
    _closes_with_epoch: ClassVar[bool] = False
    """Whether what is sent is of no use any more when they are at another epoch."""
    _trace: Callable[[str, Mapping[str, Any]], None] | None = None
    """What httpx tells of each step, to a caller that wants it."""

    def __init__(self, http: httpx.Client, url: str):
        self._http = http
        self._url = url.rstrip("/")

    def manifest(self) -> bytes:
        return self._exchange("GET", routes.MANIFEST, most=SignedManifest.most_bytes())

    def shelf(self) -> bytes:
        return self._exchange("GET", routes.SHELF, most=SignedShelf.most_bytes())

    def model(self, sha256: bytes, most: int) -> bytes:
        return self._exchange("GET", routes.MODEL.format(sha256=sha256.hex()), most=most)

    def catalogue(self, sha256: bytes) -> bytes:
        return self._exchange(
            "GET", routes.CATALOGUE.format(sha256=sha256.hex()), most=MAX_CATALOGUE
        )

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        most: int,
        wanted: HTTPStatus = HTTPStatus.OK,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of the answer, not longer than `most`; any other status than `wanted` raises."""
        request = httpx.Request(
            method,
            self._url + path,
            headers={**HEADERS, **(headers or {})},
            content=content,
            extensions={"timeout": TIMEOUT.as_dict(), "trace": self._trace},
        )
        try:
            response = self._http.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                if response.status_code != wanted:
                    self._refuse(response)
                return read_capped(response, most) if most else b""
            finally:
                response.close()
        except httpx.HTTPError as error:
            why = visible(f"{type(error).__name__}: {error}".removesuffix(": "))[:MAX_QUOTE]
            tls = _of_tls(error)
            if tls is not None:
                what = f"no connection to {self._who} can be trusted ({why}): {self._trust}"
                if tls.reason in NO_TLS:
                    what = (
                        "what answers there does not speak TLS: name a certificate in its "
                        "[listen], or the port of what speaks TLS for it"
                    )
                raise TlsError(f"{request.url}: {what}") from error
            is_cut = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
            if is_cut:
                why += {
                    "http": ": does it speak TLS, so that the address begins with https?",
                    "https": self._untold,
                }.get(request.url.scheme, "")
            raise UnavailableError(
                f"{request.url}: {self._who} cannot be reached ({why}); {self._later}"
            ) from error

    def _refuse(self, response: httpx.Response) -> NoReturn:
        """Say what the status means for the caller."""
        code = response.status_code
        told = f"{response.url}: {self._who} answered {code}{self._hints.get(code, '')}"
        wrong = code == HTTPStatus.CONFLICT and self._closes_with_epoch
        problem = _problem(response) if wrong or self._quotes else {}
        if self._quotes and isinstance(problem.get("detail"), str):
            told += f" ({visible(problem['detail'])[:MAX_QUOTE]})"
        if is_for_later(code):
            wait = seconds_to_wait(response.headers.get("retry-after", ""), time.time())
            raise UnavailableError(f"{told}; {self._later}", wait)
        if code == HTTPStatus.GONE:
            raise ClosedError(f"{told}: the epoch is over")
        if wrong and problem.get("type") == WRONG_EPOCH:
            raise ClosedError(f"{told}: it is at another epoch")
        if response.has_redirect_location:
            raise RefusedError(f"{told}, a redirect; redirects are not followed")
        raise self._refusals.get(code, RefusedError)(told)


def _of_tls(error: BaseException) -> ssl.SSLError | None:
    """The handshake, or what follows from it, that is behind this."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _problem(response: httpx.Response) -> dict[str, Any]:
    """What they say is wrong; nothing if it cannot be read."""
    try:
        problem = json.loads(read_capped(response, MAX_PROBLEM))
    except (ProtocolError, ValueError, RecursionError, httpx.HTTPError):
        return {}
    return problem if isinstance(problem, dict) else {}


def is_this_machine(host: str) -> bool:
    """Whether what is sent there never leaves this machine.

    >>> is_this_machine("127.0.0.1"), is_this_machine("shop.example")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
