"""Group commit: many requests, one transaction, everybody gets an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from sottovoce.errors import UnavailableError
from sottovoce.protocol import Batch
from sottovoce.proxy.intake import GROUP, GroupCommit
from tests.proxy.world import People, World, signed

BATCHES = People().batches(signed(), 700)


def run(
    keep: Callable[[list[Batch]], Sequence[Exception | None]],
    work: Callable[[GroupCommit], Coroutine[Any, Any, Any]],
    **settings: int,
) -> Any:
    async def main() -> Any:
        writer = GroupCommit(keep, **settings)
        try:
            return await work(writer)
        finally:
            await writer.finish()

    return asyncio.run(main())


async def all_of(writer: GroupCommit, batches: list[Batch]) -> list[BaseException | None]:
    return await asyncio.gather(*map(writer.write, batches), return_exceptions=True)


def test_whoever_waits_shares_a_transaction() -> None:
    groups: list[list[Batch]] = []
    first_seen, go_on = threading.Event(), threading.Event()

    def keep(batches: list[Batch]) -> list[None]:
        groups.append(batches)
        first_seen.set()
        assert go_on.wait(10)
        return [None] * len(batches)

    async def work(writer: GroupCommit) -> None:
        first = asyncio.create_task(writer.write(BATCHES[0]))
        await asyncio.to_thread(first_seen.wait, 10)
        rest = asyncio.create_task(all_of(writer, BATCHES[1:]))
        await asyncio.sleep(0)  # one turn of the loop starts the tasks,
        await asyncio.sleep(0)  # the next lets them ask
        assert not first.done()
        go_on.set()
        await first
        assert set(await rest) == {None}

    run(keep, work)
    assert [len(group) for group in groups] == [1, GROUP, 699 - GROUP]
    assert [batch for group in groups for batch in group] == BATCHES


def test_a_fault_of_ours_leaves_nobody_waiting() -> None:
    def keep(batches: list[Batch]) -> list[None]:
        raise ZeroDivisionError("a bug")

    answers = run(keep, lambda writer: all_of(writer, BATCHES[:5]))
    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 5


def test_more_than_memory_should_hold_are_sent_away() -> None:
    gate = threading.Event()

    def keep(batches: list[Batch]) -> list[None]:
        assert gate.wait(10)
        return [None] * len(batches)

    async def work(writer: GroupCommit) -> list[BaseException | None]:
        answers = asyncio.create_task(all_of(writer, BATCHES))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.set()
        return await answers

    answers = run(keep, work, most_waiting=10)
    away = [answer for answer in answers if isinstance(answer, UnavailableError)]
    # Ten wait, and up to ten are in the transaction that the thread began meanwhile.
    assert len(BATCHES) - 20 <= len(away) <= len(BATCHES) - 10
    assert answers.count(None) == len(BATCHES) - len(away)


def test_somebody_who_hangs_up_does_not_disturb_the_others() -> None:
    gate = threading.Event()

    def keep(batches: list[Batch]) -> list[None]:
        assert gate.wait(10)
        return [None] * len(batches)

    async def work(writer: GroupCommit) -> None:
        tasks = [asyncio.create_task(writer.write(batch)) for batch in BATCHES[:9]]
        await asyncio.sleep(0)
        tasks[4].cancel()
        gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers.pop(4), asyncio.CancelledError)
        assert answers == [None] * 8

    run(keep, work)


def test_what_waits_at_the_end_is_stored(world: World) -> None:
    batches = world.people.batches(world.now, 50)

    async def work(writer: GroupCommit) -> asyncio.Task[Any]:
        task = asyncio.create_task(all_of(writer, batches))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task

    run(world.proxy.intake.keep, work)
    with world.store.read() as tables:
        assert tables.count_batches() == 50
