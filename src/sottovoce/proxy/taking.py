"""Batches over HTTP: 202 when one is on disk.

Nearly every request to a proxy is one, so this is a plain ASGI application in front of Starlette's
routes: its layers for routes, requests and errors would cost a third of the time again.
"""

from __future__ import annotations

from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from sottovoce.errors import SottovoceError
from sottovoce.protocol import routes
from sottovoce.proxy.origins import check_sender
from sottovoce.service import problem_of, read_body

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

    from sottovoce.proxy.limit import RateLimit
    from sottovoce.proxy.proxy import Proxy
    from sottovoce.proxy.writer import GroupCommit


class Taking:
    """What is posted to the route of batches; all else goes to `app`."""

    def __init__(
        self,
        app: ASGIApp,
        proxy: Proxy,
        writer: GroupCommit,
        limit: RateLimit,
        origins: Collection[str],
    ):
        self._app = app
        self._proxy = proxy
        self._writer = writer
        self._limit = limit
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != routes.BATCHES:
            await self._app(scope, receive, send)
            return
        try:
            await self._take(scope, receive)
        except (SottovoceError, HTTPException, ClientDisconnect) as error:
            self._proxy.metrics.refused(error)
            # The store has logged once what is wrong; a line for each would keep its time.
            await problem_of(error, log_unavailable=False)(scope, receive, send)
            return
        self._proxy.metrics.accepted.inc()
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body"})

    async def _take(self, scope: Scope, receive: Receive) -> None:
        if scope["method"] != "POST":
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
        check_sender(scope, self._origins)
        address, epoch = scope["client"][0] if scope["client"] else "", None
        self._take_place(address)
        try:
            data = await read_body(scope, receive, self._proxy.intake.batch_size())
            batch = self._proxy.intake.check(data)
            await self._writer.write(batch)
            epoch = batch.epoch
        finally:
            self._limit.end(address, epoch)

    def _take_place(self, address: str) -> None:
        """For one of the batches that this address may send."""
        wait = self._limit.wait(address, self._proxy.epoch)
        if wait:
            raise HTTPException(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many batches from one address",
                {"Retry-After": str(ceil(wait))},
            )
