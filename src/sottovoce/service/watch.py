"""What the operator may see of a service: on an address of its own, never on the public one.

How many batches wait, say, would tell an outsider when a crowd is complete but for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sottovoce.service.http import errors_as_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"


def build_watch(check: Callable[[], None], metrics: Callable[[], bytes]) -> Starlette:
    """The application; `check` raises what keeps the service from its work."""

    async def alive(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(_: Request) -> Response:
        await run_in_threadpool(check)
        return PlainTextResponse("ready\n")

    async def measured(_: Request) -> Response:
        return Response(await run_in_threadpool(metrics), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[Route(HEALTH, alive), Route(READY, ready), Route(METRICS, measured)],
        exception_handlers=errors_as_problems(log_unavailable=False),
    )
