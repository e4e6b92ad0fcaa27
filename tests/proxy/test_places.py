"""So many batches of one epoch from one address, however its requests lie in time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.proxy import Rate
from tests.asgi import Answer, ask
from tests.proxy.asgi import post, stored, within
from tests.proxy.world import World, signed

if TYPE_CHECKING:
    from starlette.applications import Starlette


def test_one_address_is_taken_so_often_in_an_epoch(tmp_path: Path) -> None:
    """What was refused or came before does not use it up; the next epoch begins anew."""
    world = World(tmp_path, rate=Rate(batches_per_minute=0, per_epoch=2))
    world.proxy.tick()

    async def work(app: Starlette) -> None:
        for _ in range(2):
            assert (await post(app, b"nonsense")).status == 400
            assert (await post(app, world.people.batch(world.now).encode())).status == 202
        away = await post(app, world.people.batch(world.now).encode())
        assert (away.status, away.headers["retry-after"]) == (429, "3600")
        other = world.people.batch(world.now).encode()
        assert (await post(app, other, client=("192.0.2.77", 1))).status == 202
        world.end_epoch()
        world.server.go_on(signed(2))
        world.proxy.tick()
        assert (await post(app, world.people.batch(world.now).encode())).status == 202

    within(world, work)
    assert len(world.server.reports(1)) == 12
    world.store.close()


def test_requests_that_are_begun_together_are_no_more_than_others(tmp_path: Path) -> None:
    """Bodies that are held back until many requests were let in do not make one address a crowd."""
    world = World(tmp_path, rate=Rate(batches_per_minute=0, per_epoch=2))
    world.proxy.tick()

    async def work(app: Starlette) -> None:
        batches = [world.people.batch(world.now).encode() for _ in range(10)]
        answers = await asyncio.gather(*[post(app, data) for data in batches])
        assert sorted(answer.status for answer in answers) == [202] * 2 + [429] * 8

    within(world, work)
    assert stored(world) == 2
    world.store.close()


def test_requests_that_are_held_open_across_the_end_of_an_epoch_are_no_more_than_others(
    tmp_path: Path,
) -> None:
    """A place counts for the epoch of the batch, not for the one in which its request began."""
    world = World(tmp_path, rate=Rate(batches_per_minute=0, per_epoch=20))
    world.proxy.tick()

    async def work(app: Starlette) -> None:
        next_epoch = asyncio.Event()

        def batch() -> bytes:
            return world.people.batch(world.now).encode()

        async def begin_now() -> Answer:
            later = (batch() for _ in range(1))
            return await ask(app, "POST", "/v2/batches", later, held=next_epoch)

        requests = [asyncio.create_task(begin_now()) for _ in range(20)]
        await asyncio.sleep(0)
        for _ in range(3):  # the first epoch needs a crowd, from other addresses
            assert (await post(app, batch(), client=("192.0.2.77", 1))).status == 202
        world.end_epoch()
        world.server.go_on(signed(2))
        world.proxy.tick()
        statuses = [(await post(app, batch())).status for _ in range(20)]
        next_epoch.set()
        statuses += [answer.status for answer in await asyncio.gather(*requests)]
        statuses += [(await post(app, batch())).status for _ in range(20)]
        assert sorted(statuses) == [202] * 20 + [429] * 40

    within(world, work)
    assert stored(world) == 20
    world.store.close()
