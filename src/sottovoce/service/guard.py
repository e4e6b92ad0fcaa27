"""uvicorn's HTTP protocol with the limits of `Listen`, since uvicorn has no such limits.

The parser keeps an unfinished header in memory and copies it with every piece that arrives, so
bytes are counted before the parser gets them. Nothing about a connection is logged.

granian was no alternative: version 2.8 leaves silent connections and slow bodies open, and sixty
silent connections locked everybody out.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from math import inf
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from sottovoce.service.connections import LATE, UNREADABLE, Connection, ConnectionLimiter
from sottovoce.service.http import make_problem
from sottovoce.service.listen import Listen

# Seconds that a client has to read a refusal, or an answer to an unfinished request, before the
# connection ends.
CLOSE_DELAY_SECONDS = 1.0
# `detail` in the answers to requests that cannot be served.
LONG_HEADER = "the header is longer than this service reads"
TOO_MANY_HEADERS = "the request has more headers than this service reads"
SLOW_REQUEST = "the request did not arrive in time"
NOT_HTTP = "this is not HTTP/1.1"
NOT_ONE_HOST = "a request must have exactly one Host header"


class GuardedProtocol(HttpToolsProtocol):
    """A connection that limits the time and size of each request's header and body.

    It takes one request at a time. If the client sends another request before the answer, the
    connection stops reading and ends with that answer. The client then sends the request again on a
    new connection.

    Args:
        limits: The limits.
        limiter: Gives connections places.
        handshake: The connection in which the TLS handshake took place; its place is freed.
        **uvicorn_arguments: Arguments of uvicorn's protocol.
    """

    def __init__(
        self,
        limits: Listen,
        limiter: ConnectionLimiter,
        handshake: Connection | None = None,
        **uvicorn_arguments: Any,
    ):
        super().__init__(**uvicorn_arguments)
        self._limits = limits
        self._limiter = limiter
        self._handshake = handshake
        self.cycle: RequestResponseCycle | None  # type: ignore[assignment]  # none at first
        self.deadline = inf
        self._in_header = True
        """Whether the next bytes belong to a header, or begin one."""
        self._unproductive_bytes = 0
        """Bytes of the header so far, or bytes since the last piece of a body."""
        self._unread_bytes = 0
        """Bytes of an answer that the client had not read when the last deadline passed."""
        self._is_deaf = False
        """Whether the connection ignores everything that it receives."""
        self._refusal = (HTTPStatus.BAD_REQUEST, NOT_HTTP)

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_within(self._limits.header_seconds)
        if self._handshake is not None:
            self._limiter.remove(self._handshake)
        if not self._limiter.admit(self, self.client[0] if self.client else "", self.loop):
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limiter.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        max_bytes = self._limits.header_bytes
        try:
            # Feed the parser pieces that are no longer than a header may be.
            for start in range(0, len(data), max_bytes):
                piece = data[start : start + max_bytes]
                self._unproductive_bytes += len(piece)
                self.parser.feed_data(piece)
                if self._unproductive_bytes > max_bytes:
                    self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, LONG_HEADER
                    raise httptools.HttpParserError
        except httptools.HttpParserUpgrade:
            pass  # an upgrade is not supported: the request is answered like any other
        except httptools.HttpParserError:
            if not self._is_deaf:
                self._refuse(*self._refusal)

    # What the parser calls

    def on_message_begin(self) -> None:
        if self.cycle is not None:
            if not self.cycle.response_complete:
                self.cycle.keep_alive = False
                self._is_deaf = True
                raise _StopParserError
            self._expect_within(self._limits.header_seconds)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._check_header()
        super().on_headers_complete()
        self._in_header = False
        self._unproductive_bytes = 0
        self._expect_within(self._limits.body_seconds)

    def _check_header(self) -> None:
        if len(self.headers) > self._limits.header_fields:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_MANY_HEADERS
            raise _StopParserError
        # The counted bytes may include the beginning of a body, so measure the header itself.
        if self._unproductive_bytes > self._limits.header_bytes:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self._limits.header_bytes:
                self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, LONG_HEADER
                raise _StopParserError
        hosts = sum(name == b"host" for name, _ in self.headers)
        # RFC 9112, section 3.2: with two Host headers, a program in front of this one could use the
        # other one.
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            self._refusal = HTTPStatus.BAD_REQUEST, NOT_ONE_HOST
            raise _StopParserError

    def on_body(self, body: bytes) -> None:
        self._unproductive_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_header = True
        self._unproductive_bytes = 0
        if self._is_answering():
            self.deadline = inf
            self._limiter.set_working(self)
        else:  # the request was answered before it ended
            self._expect_within(self._limits.idle_seconds)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._unread_bytes = 0
        self._expect_within(self._limits.idle_seconds if self._in_header else CLOSE_DELAY_SECONDS)
        self._limiter.set_waiting(self)
        if not self.transport.is_closing():
            self.flow.resume_reading()

    # The end

    def time_out(self) -> None:
        if self._is_reading():
            self._expect_within(self._limits.idle_seconds)
        elif self._is_deaf or self.transport.is_closing():
            self.transport.abort()
        elif self._in_header and not self._unproductive_bytes:
            self._close()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, SLOW_REQUEST)

    def drop(self) -> None:
        self.transport.abort()

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer with the reason, if an answer is still possible, and close the connection."""
        self._limiter.on_rejection(LATE if status is HTTPStatus.REQUEST_TIMEOUT else UNREADABLE)
        can_answer = self.cycle is None or not self.cycle.response_started
        if self._in_header:
            can_answer = not self._is_answering()
        if can_answer and not self.transport.is_closing():
            self.transport.write(_encode_problem(status, detail))
        self._is_deaf = True
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._close()

    def _close(self) -> None:
        # Wait before closing: if the client is still sending, closing at once would make its system
        # discard the answer.
        self._expect_within(CLOSE_DELAY_SECONDS)
        if self._is_deaf and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _expect_within(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_reading(self) -> bool:
        """Return whether the client has read a part of the answer since the last deadline."""
        before, self._unread_bytes = self._unread_bytes, self.transport.get_write_buffer_size()
        return self._unread_bytes > 0 and (before == 0 or self._unread_bytes < before)


class _StopParserError(Exception):
    """Stops the parser from a callback."""


def _encode_problem(status: HTTPStatus, detail: str) -> bytes:
    """Encode the answer to an incomplete request, for which uvicorn makes no answer."""
    answer = make_problem(
        status, detail, {"x-content-type-options": "nosniff", "connection": "close"}
    )
    head = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
    return STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body)
