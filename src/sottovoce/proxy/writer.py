"""Group commit: requests that come while one transaction is synced share the next.

A disk syncs perhaps a few hundred times a second, and a batch may be acknowledged only after a
sync. So a thread of its own takes whatever waits and stores it at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence

from sottovoce.errors import UnavailableError
from sottovoce.protocol import Batch

Keep = Callable[[list[Batch]], Sequence[Exception | None]]
_Unwritten = tuple[Batch, asyncio.Future[None]]

GROUP = 512
"""Batches in one transaction, at most."""
MOST_WAITING = 8192
"""More at once are sent away: what waits is held in memory."""


class GroupCommit:
    """Stores batches for an event loop, many at a time."""

    def __init__(self, keep: Keep, *, most_waiting: int = MOST_WAITING):
        self._keep = keep
        self._most_waiting = most_waiting
        self._queue: queue.SimpleQueue[_Unwritten | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; answers go to this loop."""
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """Store what waits, then end."""
        self._queue.put(None)
        self._thread.join()

    async def write(self, batch: Batch) -> None:
        """Returns when the batch is on disk, or raises why it is not."""
        if self._loop is None or self._queue.qsize() >= self._most_waiting:
            raise UnavailableError("too many batches at once")
        future = self._loop.create_future()
        self._queue.put((batch, future))
        await future

    def _run(self) -> None:
        assert self._loop is not None
        going = True
        while going:
            group, going = self._next_group()
            if group:
                outcomes = self._outcomes([batch for batch, _ in group])
                futures = [future for _, future in group]
                self._loop.call_soon_threadsafe(_settle, futures, outcomes)

    def _next_group(self) -> tuple[list[_Unwritten], bool]:
        """Wait for one, take what else is there; and whether to go on afterwards."""
        group: list[_Unwritten] = []
        first = self._queue.get()
        while first is not None:
            group.append(first)
            if len(group) == GROUP or self._queue.empty():
                return group, True
            first = self._queue.get()
        return group, False

    def _outcomes(self, batches: list[Batch]) -> Sequence[Exception | None]:
        """A fault of ours must not leave anybody waiting for an answer."""
        try:
            return self._keep(batches)
        except Exception as error:
            return [error] * len(batches)


def _settle(futures: list[asyncio.Future[None]], outcomes: Sequence[Exception | None]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # whoever asked has hung up
            continue
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)
