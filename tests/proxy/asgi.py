"""A proxy's application as it runs, and batches for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sottovoce.proxy import build_app
from tests.asgi import Answer, ask
from tests.proxy.world import Clock, World

if TYPE_CHECKING:
    from starlette.applications import Starlette


@asynccontextmanager
async def serving(world: World, clock: Clock | None = None) -> AsyncIterator[Starlette]:
    """The application with its writer and heartbeat."""
    app = build_app(world.proxy, world.settings, clock=clock or Clock(0))
    async with app.router.lifespan_context(app):
        yield app


async def post(app: Starlette, data: bytes, **more: Any) -> Answer:
    """A batch, as a client sends it."""
    length = ("content-length", str(len(data)))
    return await ask(app, "POST", "/v2/batches", data, [length], **more)
