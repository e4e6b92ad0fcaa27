"""The HTTP client that devices use to talk to the proxy, and proxies to talk to the server.

It builds requests itself, so that `httpx` adds nothing that could identify the sender: no cookie,
no language, no version, and no `If-None-Match` (which would reveal the file that the sender fetched
last). Redirects are not followed.
"""

import json
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from ipaddress import ip_address
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import Any, NoReturn

import httpx

from sottovoce.characters import escape_control_characters
from sottovoce.errors import ClosedError, ProtocolError, RefusedError, TlsError, UnavailableError
from sottovoce.protocol import routes
from sottovoce.protocol.catalogue import MAX_CATALOGUE_BYTES
from sottovoce.protocol.manifest import SignedManifest
from sottovoce.protocol.patch import MAX_PATCH_BYTES
from sottovoce.protocol.shelf import SignedShelf

# The `type` of a problem document (RFC 9457) which says that the epoch is over.
CLOSED_PROBLEM = "urn:sottovoce:closed"
# The `type` of a problem document which says that the batch is not of the current epoch.
WRONG_EPOCH_PROBLEM = "urn:sottovoce:wrong-epoch"
# Statuses below 500 after which the same request may succeed later.
RETRY_STATUSES = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
# The largest number of digits of the seconds in `Retry-After`.
MAX_WAIT_DIGITS = 9
# A Content-Length with more digits than this counts as too long, because Python refuses to convert
# thousands of digits.
MAX_LENGTH_DIGITS = 18
# Headers of every request of every device, the same for all, so that they identify nobody.
REQUEST_HEADERS = {"User-Agent": "sottovoce", "Accept": "*/*", "Accept-Encoding": "identity"}
# Seconds to wait for the next byte, and seconds to connect.
REQUEST_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
# A request and its answer may together take
#   MAX_EXCHANGE_SECONDS + size / MIN_BYTES_PER_SECOND.
MAX_EXCHANGE_SECONDS = 60.0
MIN_BYTES_PER_SECOND = 2**16
# A problem document that is longer than this is ignored.
MAX_PROBLEM_BYTES = 16 * 1024
# The reasons that OpenSSL reports if the peer answers a TLS handshake with plain HTTP.
PLAIN_HTTP_REASONS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
# An error message quotes at most this many characters of a reason.
MAX_QUOTE_LENGTH = 400


def is_retryable(status: int) -> bool:
    """Return whether the same request may succeed later, after an answer with this status."""
    return status in RETRY_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def parse_retry_after(header: str, now: float) -> float | None:
    """Parse a `Retry-After` header, which has a number or a date (RFC 9110, 10.2.3).

    Args:
        header: The value of the header.
        now: The time of day, in Unix seconds.

    Returns:
        The seconds to wait; None if the header is malformed or its date has passed.

    >>> parse_retry_after("120", now=0.0), parse_retry_after("soon", now=0.0)
    (120.0, None)
    """
    if header.isascii() and header.isdigit() and len(header) <= MAX_WAIT_DIGITS:
        return float(header)
    try:
        seconds = parsedate_to_datetime(header).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None


def read_limited(response: httpx.Response, max_bytes: int) -> bytes:
    """Read the body of a response without decompressing it.

    Raises:
        ProtocolError: The body, or its Content-Length, is more than `max_bytes`.
    """
    too_long = ProtocolError(f"{response.url}: longer than {max_bytes} bytes; it was not read")
    length = response.headers.get("content-length", "0")
    if len(length) > MAX_LENGTH_DIGITS or (length.isdecimal() and int(length) > max_bytes):
        raise too_long
    body = bytearray()
    # The bytes are not decompressed: the request did not allow compression, and a small compressed
    # body can be huge after decompression.
    for piece in response.iter_raw():
        if len(body) + len(piece) > max_bytes:
            raise too_long
        body += piece
    return bytes(body)


@dataclass(frozen=True)
class Peer:
    """The party that answers requests: how error messages name it, and what its answers mean.

    The hints are parts of error messages.
    """

    name: str
    """Name of the peer in error messages."""
    trust_hint: str = "is the address right, and this device's clock?"
    """Hint if the certificate of the peer, or our own, is not valid."""
    retry_hint: str = "try again later"
    """Hint if the peer cannot be reached."""
    tls_hint: str = ""
    """Hint if the TLS handshake succeeds but no answer comes."""
    status_hints: Mapping[int, str] = field(default_factory=dict)
    """Hints for answers, by status."""
    refusals: Mapping[int, type[RefusedError]] = field(default_factory=dict)
    """Error classes by status; any other refusal raises `RefusedError` itself."""
    quotes_reasons: bool = False
    """Whether error messages quote the reasons that the peer states. True only if an operator reads
    the messages."""
    closes_with_epoch: bool = False
    """Whether the status 409 with `WRONG_EPOCH_PROBLEM` means that the request's epoch is over."""


class HttpSource:
    """A `PublishedSource` that fetches files from a URL.

    Args:
        http: An open client. Its default headers, cookies and authentication are not used.
        url: The address of the peer.
        peer: The party that answers at this address.
    """

    def __init__(self, http: httpx.Client, url: str, peer: Peer):
        self._http = http
        self._url = url.rstrip("/")
        self._peer = peer
        # Socket of the last connection, which the next request may reuse.
        self._socket: socket | None = None

    def manifest(self) -> bytes:
        return self._exchange("GET", routes.MANIFEST, max_bytes=SignedManifest.max_bytes())

    def shelf(self) -> bytes:
        return self._exchange("GET", routes.SHELF, max_bytes=SignedShelf.max_bytes())

    def model(self, sha256: bytes, max_bytes: int) -> bytes:
        return self._exchange("GET", routes.MODEL.format(sha256=sha256.hex()), max_bytes=max_bytes)

    def catalogue(self, sha256: bytes) -> bytes:
        return self._exchange(
            "GET", routes.CATALOGUE.format(sha256=sha256.hex()), max_bytes=MAX_CATALOGUE_BYTES
        )

    def patch(self, sha256: bytes) -> bytes:
        return self._exchange(
            "GET", routes.PATCH.format(sha256=sha256.hex()), max_bytes=MAX_PATCH_BYTES
        )

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        max_bytes: int,
        expected_status: HTTPStatus = HTTPStatus.OK,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            UnavailableError: The peer cannot be reached, or a retry may succeed.
            RefusedError: The status is neither `expected_status` nor one for a retry.
            ProtocolError: The body is longer than `max_bytes`.
        """
        size = max_bytes + len(content or b"")
        deadline = _Deadline(MAX_EXCHANGE_SECONDS + size / MIN_BYTES_PER_SECOND, self._socket)
        request = httpx.Request(
            method,
            self._url + path,
            headers={**REQUEST_HEADERS, **(headers or {})},
            content=content,
            extensions={"timeout": REQUEST_TIMEOUT.as_dict(), "trace": deadline.remember_socket},
        )
        deadline.start()
        try:
            response = self._http.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                if response.status_code != expected_status:
                    self._raise_for_status(response)
                return read_limited(response, max_bytes) if max_bytes else b""
            finally:
                response.close()
        except httpx.HTTPError as error:
            if deadline.has_passed:
                raise UnavailableError(
                    f"{request.url}: {self._peer.name} has not answered within "
                    f"{deadline.interval:.0f} s; {self._peer.retry_hint}"
                ) from error
            self._raise_unavailable(request.url, error)
        finally:
            deadline.cancel()
            self._socket = deadline.socket

    def _raise_unavailable(self, url: httpx.URL, error: httpx.HTTPError) -> NoReturn:
        """Raise an `UnavailableError` that explains why there was no answer."""
        peer = self._peer
        cause = escape_control_characters(f"{type(error).__name__}: {error}".removesuffix(": "))[
            :MAX_QUOTE_LENGTH
        ]
        tls_error = _find_tls_error(error)
        if tls_error is not None:
            problem = f"no connection to {peer.name} can be trusted ({cause}): {peer.trust_hint}"
            if tls_error.reason in PLAIN_HTTP_REASONS:
                problem = (
                    "what answers there does not speak TLS: name a certificate in its "
                    "[listen], or the port of what speaks TLS for it"
                )
            raise TlsError(f"{url}: {problem}") from error
        # The other side closed the connection without an answer. Often the scheme of the URL is
        # wrong.
        if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
            cause += {
                "http": ": does it speak TLS, so that the address begins with https?",
                "https": peer.tls_hint,
            }.get(url.scheme, "")
        raise UnavailableError(
            f"{url}: {peer.name} cannot be reached ({cause}); {peer.retry_hint}"
        ) from error

    def _raise_for_status(self, response: httpx.Response) -> NoReturn:
        """Raise the error that the status of the response stands for."""
        peer, code = self._peer, response.status_code
        message = f"{response.url}: {peer.name} answered {code}{peer.status_hints.get(code, '')}"
        is_conflict = code == HTTPStatus.CONFLICT and peer.closes_with_epoch
        problem = _read_problem(response) if is_conflict or peer.quotes_reasons else {}
        if peer.quotes_reasons and isinstance(problem.get("detail"), str):
            message += f" ({escape_control_characters(problem['detail'])[:MAX_QUOTE_LENGTH]})"
        if is_retryable(code):
            wait = parse_retry_after(response.headers.get("retry-after", ""), time.time())
            raise UnavailableError(f"{message}; {peer.retry_hint}", wait)
        if code == HTTPStatus.GONE:
            raise ClosedError(f"{message}: the epoch is over")
        if is_conflict and problem.get("type") == WRONG_EPOCH_PROBLEM:
            raise ClosedError(f"{message}: its current epoch is another one")
        if response.has_redirect_location:
            raise RefusedError(f"{message}, a redirect; redirects are not followed")
        raise peer.refusals.get(code, RefusedError)(message)


class _Deadline(Timer):
    """A timer that cuts the connection if a request and its answer take too long.

    The timeouts of the HTTP client start again with each byte. Without a deadline, a peer that
    sends a byte now and then could hold a client's lock, or stop a proxy's heartbeat, for days.

    Args:
        seconds: How long the request and its answer may take together.
        connected: Socket of an open connection that the request may reuse, if any.
    """

    def __init__(self, seconds: float, connected: socket | None):
        super().__init__(seconds, self._cut_connection)
        self.daemon = True
        self.has_passed = False
        self.socket = connected

    def remember_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the socket of a new connection. httpx calls this for each of its steps."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self.socket = info["return_value"].get_extra_info("socket")
            # The deadline may have passed while the connection was opened.
            if self.has_passed:
                self._cut_connection()

    def _cut_connection(self) -> None:
        self.has_passed = True
        if self.socket is not None:
            with suppress(OSError):
                self.socket.shutdown(SHUT_RDWR)


def _find_tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error that caused this one, if any."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _read_problem(response: httpx.Response) -> dict[str, Any]:
    """Return the problem document of a response; return an empty dict if it cannot be read."""
    try:
        problem = json.loads(read_limited(response, MAX_PROBLEM_BYTES))
    except (ProtocolError, ValueError, RecursionError, httpx.HTTPError):
        return {}
    return problem if isinstance(problem, dict) else {}


def is_loopback_host(host: str) -> bool:
    """Return whether requests to this host never leave the machine.

    >>> is_loopback_host("127.0.0.1"), is_loopback_host("shop.example")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
