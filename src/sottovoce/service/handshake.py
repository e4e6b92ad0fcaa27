"""TLS before HTTP: whoever does not end the handshake has a place like anybody, and loses it so.

asyncio shows a connection only after its handshake. Then nobody could send away those who never
begin one, and there is no end to them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from math import inf
from typing import TYPE_CHECKING

from sottovoce.service.turned_away import LATE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from sottovoce.service.guard import Guard, GuardedProtocol


class Handshake(asyncio.Protocol):
    """One connection until it is secured; `inside`, told whose place it has, then takes over."""

    def __init__(
        self, guard: Guard, tls: ssl.SSLContext, inside: Callable[[Handshake], GuardedProtocol]
    ):
        self._guard = guard
        self._tls = tls
        self._inside = inside
        self._loop = asyncio.get_running_loop()
        self._accepted: socket.socket | None = None
        """Until the handshake owns it."""
        self._task: asyncio.Task[None] | None = None
        self.deadline = inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Nothing was read yet: the connection goes on under another descriptor, as TLS."""
        known = transport.get_extra_info("socket")
        self._accepted = socket.socket(fileno=os.dup(known.fileno()))
        self._accepted.settimeout(0)
        transport.abort()
        self.deadline = self._loop.time() + self._guard.caps.header_seconds
        peer = transport.get_extra_info("peername")
        if self._guard.enter(self, peer[0] if peer else "", self._loop):
            self._task = self._loop.create_task(self._secure())
        else:
            self.give_way()

    def late(self) -> None:
        self._guard.turned_away(LATE)
        self.give_way()

    def give_way(self) -> None:
        """A task that is cancelled before its first step never takes it."""
        if self._task is not None:
            self._task.cancel()
        if self._accepted is not None:
            self._accepted.close()

    async def _secure(self) -> None:
        accepted, self._accepted = self._accepted, None
        assert accepted is not None, "this runs once"
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._inside(self), accepted, ssl=self._tls
            )
        except OSError:
            pass  # no TLS, no certificate of theirs that we accept, or gone
        finally:
            self._guard.places.leave(self)
