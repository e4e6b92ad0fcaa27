"""HTTP with caps: uvicorn's protocol, which has none of its own, held to those of `Listen`.

The parser keeps a header for as long as it goes on and copies it with every piece that comes, so
its bytes are counted before it sees them. Nothing about a connection is logged. (granian 2.8 leaves
silent connections and slow bodies open, and sixty silent ones locked everybody out.)
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from sottovoce.service.http import problem
from sottovoce.service.listen import LATE, UNREADABLE, Guest, Listen, Places, TurnAway

SWEEP = 0.25
"""Seconds between two looks at who is late."""
LINGER = 1.0
"""Seconds in which whoever was refused, or answered early, can read it before the end."""
TOO_LONG = "the header is longer than this service reads"
TOO_MANY = "the request has more headers than this service reads"
TOO_SLOW = "the request did not come in time"
MALFORMED = "this is not HTTP/1.1"
NOT_ONE_HOST = "a request needs one Host header, and no second one"


class Guard:
    """The caps of one listener, and who is connected."""

    def __init__(self, caps: Listen, most: int, turned_away: TurnAway):
        self.caps = caps
        self.turned_away = turned_away
        self.places = Places(most, caps.connections_per_address, turned_away)
        self._sweeping = False

    def enter(self, guest: Guest, address: str, loop: asyncio.AbstractEventLoop) -> bool:
        entered = self.places.take(guest, address)
        if entered and not self._sweeping:
            self._sweeping = True
            self._sweep(loop)
        return entered

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all connections, as long as there are any."""
        now = loop.time()
        for guest in self.places:
            if guest.deadline <= now:
                guest.late()
        self._sweeping = bool(self.places)
        if self._sweeping:
            loop.call_later(SWEEP, self._sweep, loop)


class GuardedProtocol(HttpToolsProtocol):
    """One connection: a header, a body, an answer, and again; each in its time and size.

    One request at a time: what comes before the answer is not read, and the connection ends with
    that answer, so that its sender sends it again.
    """

    def __init__(self, guard: Guard, handshake: Guest | None = None, **given: Any):
        super().__init__(**given)
        self._guard = guard
        self._handshake = handshake
        self._caps = guard.caps
        self.cycle: RequestResponseCycle | None  # type: ignore[assignment]  # none at first
        self.deadline = inf
        self._in_header = True
        """From the end of a request to the end of the next one's header."""
        self._unproductive = 0
        """Bytes of a header, or between two pieces of a body."""
        self._unread = 0
        """Bytes of an answer, when they were looked at last."""
        self._deaf = False
        """Nothing more is read."""
        self._refusal = (HTTPStatus.BAD_REQUEST, MALFORMED)

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_within(self._caps.header_seconds)
        if self._handshake is not None:
            self._guard.places.leave(self._handshake)
        if not self._guard.enter(self, self.client[0] if self.client else "", self.loop):
            self.give_way()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.places.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        try:
            for at in range(0, len(data), self._caps.header_bytes):
                self._feed(data[at : at + self._caps.header_bytes])
        except httptools.HttpParserUpgrade:
            pass  # to what is not spoken here: it is answered like any other request
        except httptools.HttpParserError:
            if not self._deaf:
                self._refuse(*self._refusal)

    def _feed(self, data: bytes) -> None:
        """A piece that is no longer than a header may be."""
        self._unproductive += len(data)
        self.parser.feed_data(data)
        if self._unproductive > self._caps.header_bytes:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_LONG
            raise httptools.HttpParserError

    # What the parser finds

    def on_message_begin(self) -> None:
        if self.cycle is not None:
            if not self.cycle.response_complete:
                self.cycle.keep_alive = False
                self._deaf = True
                raise _StopError
            self._expect_within(self._caps.header_seconds)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._check_header()
        super().on_headers_complete()
        self._in_header = False
        self._unproductive = 0
        self._expect_within(self._caps.body_seconds)

    def _check_header(self) -> None:
        if len(self.headers) > self._caps.header_fields:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_MANY
            raise _StopError
        if self._unproductive > self._caps.header_bytes:  # with what else came: look closer
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self._caps.header_bytes:
                self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_LONG
                raise _StopError
        hosts = sum(name == b"host" for name, _ in self.headers)
        # RFC 9112, 3.2: what is in front could take another one for the host than we do.
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            self._refusal = HTTPStatus.BAD_REQUEST, NOT_ONE_HOST
            raise _StopError

    def on_body(self, body: bytes) -> None:
        self._unproductive = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_header = True
        self._unproductive = 0
        if self._is_answering():
            self.deadline = inf
            self._guard.places.work(self)
        else:  # it was answered before its end
            self._expect_within(self._caps.idle_seconds)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._unread = 0
        self._expect_within(self._caps.idle_seconds if self._in_header else LINGER)
        self._guard.places.wait(self)
        if not self.transport.is_closing():
            self.flow.resume_reading()

    # The end of it

    def late(self) -> None:
        if self._is_reading():
            self._expect_within(self._caps.idle_seconds)
        elif self._deaf or self.transport.is_closing():
            self.transport.abort()
        elif self._in_header and not self._unproductive:
            self._close()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, TOO_SLOW)

    def give_way(self) -> None:
        self.transport.abort()

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Say why, if an answer can still be given; then end."""
        self._guard.turned_away(LATE if status is HTTPStatus.REQUEST_TIMEOUT else UNREADABLE)
        answerable = self.cycle is None or not self.cycle.response_started
        if self._in_header:
            answerable = not self._is_answering()
        if answerable and not self.transport.is_closing():
            self.transport.write(_problem(status, detail))
        self._deaf = True
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._close()

    def _close(self) -> None:
        """Once they have read the answer, or soon: what they still send would take it from them."""
        self._expect_within(LINGER)
        if self._deaf and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _expect_within(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_reading(self) -> bool:
        """Whether they have read more of an answer since they were late last."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        return self._unread > 0 and (before == 0 or self._unread < before)


class _StopError(Exception):
    """Ends the parser."""


def _problem(status: HTTPStatus, detail: str) -> bytes:
    """For whoever never became a request."""
    answer = problem(status, detail, {"x-content-type-options": "nosniff", "connection": "close"})
    head = b"".join(b"%s: %s\r\n" % each for each in answer.raw_headers)
    return STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body)


# TLS before HTTP: a connection has a place from its first moment, also if its handshake never ends.
#
# asyncio's own way (`ssl=` of `create_server`) shows a connection only after its handshake, so
# nobody could send away those who never begin one. And asyncio and uvloop give each connection a
# buffer of 256 KiB: 4,096 silent ones took up to a gigabyte.


class SecuredConnection(SSLProtocol):
    """TLS of one connection; `inside` makes the protocol that speaks HTTP in it."""

    # Bytes that are read at once, and that wait to be decrypted before reading pauses: the longest
    # record of TLS 1.3 (RFC 8446, 5.2) with its header.
    max_size = 5 + 2**14 + 256

    def __init__(
        self,
        guard: Guard,
        tls: ssl.SSLContext,
        inside: Callable[[SecuredConnection], GuardedProtocol],
    ):
        loop = asyncio.get_running_loop()
        # Nobody waits for the end of the handshake: `inside` is called then.
        super().__init__(loop, inside(self), tls, None, server_side=True)  # type: ignore[arg-type]
        self._app_transport.set_read_buffer_limits(self.max_size)
        self._guard = guard
        self._socket_transport: asyncio.Transport | None = None
        self.deadline = inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._socket_transport = transport
        self.deadline = self._loop.time() + self._guard.caps.header_seconds
        peer = transport.get_extra_info("peername")
        if self._guard.enter(self, peer[0] if peer else "", self._loop):
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._guard.places.leave(self)
        super().connection_lost(exc)

    def late(self) -> None:
        """The handshake did not end in time."""
        self._guard.turned_away(LATE)
        self.give_way()

    def give_way(self) -> None:
        if self._socket_transport is not None:
            self._socket_transport.abort()
