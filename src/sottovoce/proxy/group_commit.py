"""Transactions that store many requests: a disk confirms only a few hundred writes a second."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sottovoce.errors import UnavailableError

Request = TypeVar("Request")
Answer = TypeVar("Answer")

MAX_REQUESTS_PER_TRANSACTION = 512
# Requests that may wait in memory; further ones are refused.
MAX_PENDING_REQUESTS = 8192


class GroupCommit(Generic[Request, Answer]):
    """Stores requests in groups: those that arrive during a transaction share the next one.

    Args:
        store_all: Stores several requests in one transaction, in a thread; returns an answer or an
            error for each request.
        max_pending: Requests that may wait at the same time.
    """

    def __init__(
        self,
        store_all: Callable[[list[Request]], Sequence[Answer | Exception]],
        *,
        max_pending: int = MAX_PENDING_REQUESTS,
    ):
        self._store_all = store_all
        self._max_pending = max_pending
        self._pending: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, request: Request) -> Answer:
        """Store a request; return its answer once it is on disk, or raise its error."""
        if len(self._pending) >= self._max_pending:
            raise UnavailableError("too many requests are waiting to be stored")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending.append((request, future))
        if self._task is None:
            self._task = asyncio.create_task(self._store_pending())
        return await future

    async def finish(self) -> None:
        """Wait until all pending requests are on disk."""
        if self._task is not None:
            await self._task

    async def _store_pending(self) -> None:
        while self._pending:
            group = self._pending[:MAX_REQUESTS_PER_TRANSACTION]
            self._pending = self._pending[MAX_REQUESTS_PER_TRANSACTION:]
            outcomes: Sequence[Answer | Exception]
            try:
                requests = [request for request, _ in group]
                outcomes = await asyncio.to_thread(self._store_all, requests)
            except Exception as error:  # a bug must not leave the senders waiting
                outcomes = [error] * len(group)
            for (_, future), outcome in zip(group, outcomes, strict=True):
                if future.done():  # the sender has disconnected
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        self._task = None
