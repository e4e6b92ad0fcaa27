"""Copies of a batch, and more of them than an epoch takes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import FullError, RefusedError
from sottovoce.protocol import batch_size
from sottovoce.proxy import ProxyStore, build_app
from tests.asgi import Answer, ask
from tests.proxy.world import World, raw_bytes, signed


def stored(store: ProxyStore) -> list[bytes]:
    with store.read() as tables:
        return list(tables.batches())


def test_a_copy_under_another_id_is_refused_and_not_stored(world: World) -> None:
    (batch,) = world.send(1)
    for draw in range(20):
        copy = replace(batch, id=bytes([draw]) * 16)
        with pytest.raises(RefusedError, match="under another id"):
            world.proxy.accept(copy.encode())
    world.proxy.accept(batch.encode())
    assert stored(world.store) == [batch.sealed]
    assert world.proxy.intake.waiting == 1


def test_copies_that_come_at_once_are_one(world: World) -> None:
    batch = world.people.batch(world.now)
    copies = [replace(batch, id=bytes([draw]) * 16) for draw in range(20)]
    outcomes = world.proxy.intake.keep(copies)
    assert outcomes[0] is None
    assert all(isinstance(outcome, RefusedError) for outcome in outcomes[1:])
    assert stored(world.store) == [batch.sealed]


def test_nothing_of_it_is_kept_longer_than_the_batch(world: World) -> None:
    batches = world.send(3)
    world.end_epoch()
    world.server.go_on(signed(2))
    world.proxy.tick()
    left = raw_bytes(world.folder)
    assert not [batch for batch in batches if batch.sealed[:32] in left]
    again = replace(batches[0], epoch=2, manifest_hash=world.now.hash)
    world.proxy.accept(again.encode())


@pytest.mark.parametrize("cap", [{"most_batches": 3}, {"most_bytes": 4 * batch_size(4) - 1}])
def test_an_epoch_takes_so_many_and_no_more(
    tmp_path: Path, cap: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, **cap)
    world.proxy.tick()
    kept = world.send(3)
    with caplog.at_level(logging.WARNING):
        for more in world.people.batches(world.now, 5):
            with pytest.raises(FullError):
                world.proxy.accept(more.encode())
    assert [record.message for record in caplog.records] == [
        "3 batches wait: the epoch takes no more"
    ]
    world.proxy.accept(kept[0].encode())  # its sender did not hear the answer
    assert sorted(stored(world.store)) == sorted(batch.sealed for batch in kept)
    world.reopen()
    with pytest.raises(FullError):
        world.send(1)
    world.end_epoch()
    world.server.go_on(signed(2))
    world.proxy.tick()
    world.send(3)
    world.store.close()


def test_of_many_at_once_as_many_as_there_is_room_for(tmp_path: Path) -> None:
    world = World(tmp_path, most_batches=5)
    world.proxy.tick()
    outcomes = world.proxy.intake.keep(world.people.batches(world.now, 9))
    assert [outcome is None for outcome in outcomes] == [True] * 5 + [False] * 4
    assert len(stored(world.store)) == world.proxy.intake.waiting == 5
    world.store.close()


def test_whoever_comes_too_late_is_told_when_to_come_again(tmp_path: Path) -> None:
    world = World(tmp_path, most_batches=1)
    world.proxy.tick()
    world.send(1)
    app = build_app(world.proxy, world.settings)

    async def post() -> Answer:
        async with app.router.lifespan_context(app):
            return await ask(app, "POST", "/v2/batches", world.people.batch(world.now).encode())

    answer = asyncio.run(post())
    assert (answer.status, answer.headers["retry-after"]) == (503, "3600")
    assert 'refused_total{reason="full"} 1.0' in world.proxy.metrics.text().decode()
    world.store.close()
