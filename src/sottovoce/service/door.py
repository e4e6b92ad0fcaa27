"""TLS before HTTP: whoever does not end the handshake has a place like anybody, and loses it so.

asyncio shows a connection only after its handshake. Then nobody could send away those who never
begin one, and there is no end to them.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from sottovoce.service.guard import Guard, GuardedProtocol


class Door(asyncio.Protocol):
    """One connection until it is secured; `inside` then takes over."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext, inside: Callable[[], GuardedProtocol]):
        self._guard = guard
        self._tls = tls
        self._inside = inside
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self.deadline = inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        transport.pause_reading()
        self.deadline = self._loop.time() + self._guard.caps.header_seconds
        peer = transport.get_extra_info("peername")
        if self._guard.enter(self, peer[0] if peer else "", self._loop):
            self._task = self._loop.create_task(self._secure())
        else:
            self.give_way()

    def connection_lost(self, _: Exception | None) -> None:
        self._guard.places.leave(self)

    def late(self) -> None:
        self._transport.abort()

    def give_way(self) -> None:
        self._transport.abort()

    async def _secure(self) -> None:
        """The place is free for a moment, within which nobody else is asked."""
        protocol = self._inside()
        try:
            secured = await self._loop.start_tls(
                self._transport, protocol, self._tls, server_side=True
            )
        except OSError:  # no TLS, no certificate of theirs that we accept, gone
            secured = None
        finally:
            self._guard.places.leave(self)
        if secured is None:
            self._transport.abort()
        else:
            protocol.connection_made(secured)
