"""A proxy's application as it runs, and batches for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
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


def within(
    world: World, work: Callable[[Starlette], Coroutine[Any, Any, Any]], clock: Clock | None = None
) -> Any:
    """What comes of this work with the application of a world."""

    async def main() -> Any:
        async with serving(world, clock) as app:
            return await work(app)

    return asyncio.run(main())


def stored(world: World) -> int:
    with world.store.read() as tables:
        return tables.count_batches()
