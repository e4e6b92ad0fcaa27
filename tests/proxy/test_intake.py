"""Intake: which batches are taken or refused, with which error, and the limits of rates."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette

from sottovoce.errors import (
    ClosedError,
    FullError,
    RefusedError,
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import SEALED_BYTES, Batch, batch_size
from sottovoce.proxy import Rate
from sottovoce.proxy.epoch_files import (
    RESERVATION_STEP_BYTES,
    SPARE_BYTES,
    BatchTables,
    estimate_stored_bytes,
)
from sottovoce.proxy.group_commit import MAX_REQUESTS_PER_TRANSACTION, GroupCommit
from sottovoce.proxy.intake import RETRY_WHEN_FULL_SECONDS
from sottovoce.proxy.rate_limit import RateLimit
from tests.proxy.world import (
    CLOSES,
    ENDS,
    OPENS,
    Clock,
    MakeWorld,
    People,
    World,
    metric,
    post,
    signed,
    stored,
    within,
)

Writer = GroupCommit[Batch, None]


def test_repeated_batch_counts_once(world: World) -> None:
    """Accept the same bytes again; refuse the same id, or the same reports, with other bytes."""
    (batch,) = world.send(1)
    world.accept(batch)
    copies = [replace(batch, id=bytes([draw]) * 16) for draw in range(9)]
    for other in (world.people.batch(world.now, id=batch.id), *copies):
        with pytest.raises(RefusedError):
            world.accept(other)
    assert stored(world) == [batch.sealed]
    assert world.proxy.intake.n_waiting == 1


@pytest.mark.parametrize(
    ("time", "error"),
    [
        (OPENS - 0.01, UnavailableError),
        (OPENS, None),
        (ENDS - 0.01, None),
        (ENDS, ClosedError),
    ],
)
def test_batches_are_taken_while_the_epoch_is_open_by_the_proxys_clock(
    world: World, time: float, error: type[Exception] | None
) -> None:
    world.clock.now = time
    if error is None:
        world.send(1)
    else:
        with pytest.raises(error):
            world.send(1)
    assert len(stored(world)) == (error is None)


def test_finished_training_takes_no_batches_and_contacts_no_server(
    make_world: MakeWorld,
) -> None:
    world = make_world(signed(public_key=None))
    with pytest.raises(ClosedError):
        world.send(1)
    world.clock.now = CLOSES
    world.proxy.tick()
    assert not world.server.told
    assert not world.server.commits


@pytest.mark.parametrize("restarted", [False, True])
def test_closed_epoch_refuses_repeated_batches(world: World, restarted: bool) -> None:
    sent = world.send(2)
    world.reopen()
    with pytest.raises(UnavailableError):  # the server may have been set back meanwhile
        world.send(1)
    world.proxy.tick()
    sent += world.send(1)
    assert world.proxy.intake.n_waiting == 3, "a restart goes on counting"
    world.end_epoch()
    if restarted:
        world.reopen()
        world.proxy.tick()
    for batch in (sent[0], world.people.batch(world.now)):
        with pytest.raises(ClosedError):
            world.accept(batch)
    assert world.proxy.intake.n_waiting == 0


def test_batch_that_was_checked_before_the_close_is_refused_after_it(world: World) -> None:
    # It is checked again inside the transaction, so that no batch is stored after a flush.
    world.send(3)
    late = world.proxy.intake.check(world.people.batch(world.now).encode())
    world.end_epoch()
    (outcome,) = world.proxy.intake.store_batches([late])
    assert isinstance(outcome, ClosedError)
    world.server.go_on(signed(2))
    world.proxy.tick()
    (outcome,) = world.proxy.intake.store_batches([late])
    assert isinstance(outcome, WrongEpochError)
    assert not stored(world)
    assert world.proxy.intake.n_waiting == 0


def test_close_between_check_and_transaction_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse the batch: the flush waits for this transaction, and the batch would be lost."""
    batch = world.proxy.intake.check(world.people.batch(world.now).encode())
    write_batches = world.store.write_batches

    def close_first(n_reports: int = 0) -> AbstractContextManager[BatchTables]:
        world.proxy.intake.close(world.now)
        return write_batches(n_reports)

    monkeypatch.setattr(world.store, "write_batches", close_first)
    (outcome,) = world.proxy.intake.store_batches([batch])
    assert isinstance(outcome, ClosedError)
    assert not stored(world)


def test_epoch_is_refused_if_its_crowd_does_not_fit_on_the_disk(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its batches could be neither stored nor mixed, and this is known before anybody pays.
    world = make_world(signed(min_clients=1000, reports=100, dummies=7))
    world.send(1)
    needed = SPARE_BYTES + estimate_stored_bytes(999, 100, 7)
    monkeypatch.setattr(world.store, "count_free_bytes", lambda: needed - 1)
    world.proxy.tick()
    with pytest.raises(UnavailableError):
        world.send(1)
    assert "10.6 MB more" in "".join(world.proxy.troubles.texts)
    monkeypatch.setattr(world.store, "count_free_bytes", lambda: needed)
    world.proxy.tick()
    world.send(1)


def test_room_for_mixing_is_reserved_before_the_acknowledgement(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse batches that could be stored but not mixed."""
    limit = 3 * RESERVATION_STEP_BYTES

    def reserve(handle: int, _: int, size: int) -> None:
        if size > limit:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.truncate(handle, size)

    monkeypatch.setattr(os, "posix_fallocate", reserve)
    world = make_world(signed(min_clients=1, reports=10_000))
    per_step = RESERVATION_STEP_BYTES // (10_000 * SEALED_BYTES)
    sent = world.send(3 * per_step)
    with pytest.raises(StoreError, match="make room"):
        world.send(100)
    assert len(stored(world)) >= len(sent)
    world.proxy.tick()
    assert world.proxy.is_paused
    with monkeypatch.context() as patch:  # nothing else gets room any more
        patch.setattr(os, "posix_fallocate", lambda *_: 1 / 0)
        waiting = world.proxy.intake.n_waiting
        world.end_epoch()
    assert len(world.server.reports(1)) == waiting * 10_000


def test_invalid_batch_does_not_affect_its_group(world: World) -> None:
    (first,) = world.send(1)
    good = world.people.batches(world.now, 3)
    twin = replace(good[0], sealed=good[1].sealed)
    bad = replace(world.people.batch(world.now), id=first.id)
    outcomes = world.proxy.intake.store_batches([good[0], bad, good[1], twin, good[2], first])
    assert [type(outcome) for outcome in outcomes] == [
        type(None), RefusedError, type(None), RefusedError, type(None), type(None),
    ]  # fmt: skip
    assert sorted(stored(world)) == sorted(b.sealed for b in [first, *good])
    assert world.proxy.intake.n_waiting == 4


@pytest.mark.parametrize(
    ("cap", "dummies"),
    [
        ({"max_batches": 3}, 0),
        ({"max_bytes": 4 * batch_size(4) - 1}, 0),
        ({"max_bytes": 3 * batch_size(4) + 7 * SEALED_BYTES}, 7),
        ({"max_bytes": 4 * batch_size(4) + 7 * SEALED_BYTES - 1}, 7),
    ],
)
def test_number_of_batches_in_an_epoch_is_limited(
    make_world: MakeWorld, cap: dict[str, Any], dummies: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(signed(dummies=dummies), **cap)
    batches = world.people.batches(world.now, 3)
    outcomes = world.proxy.intake.store_batches([*batches, world.people.batch(world.now)])
    assert [outcome is None for outcome in outcomes] == [True] * 3 + [False]
    with pytest.raises(FullError):
        world.send(1)
    for _ in range(2):
        world.proxy.tick()
    assert caplog.text.count("is full with 3 batches") == 1, "a line for each would keep its time"
    world.proxy.check_ready()  # those who are in count
    world.accept(batches[0])  # its sender did not hear the answer
    assert sorted(stored(world)) == sorted(batch.sealed for batch in batches)
    world.reopen()
    world.proxy.tick()
    answer = within(world, lambda app: post(app, world.people.batch(world.now).encode()))
    assert (answer.status, answer.headers["retry-after"]) == (503, "3600")
    assert metric(world, 'batches_refused_total{reason="full"}') == 1
    world.end_epoch()
    world.server.go_on(signed(2))
    world.proxy.tick()
    world.send(3)


# What one address may send.


class Limit(RateLimit):
    """The default is for one epoch; what is allowed may come at once."""

    def begin(self, address: str, epoch: int = 1) -> float:
        pause = super().begin(address, epoch)
        if not pause:
            self.end(address, epoch)
        return pause


def limit(
    clock: Clock, per_minute: float = 6, burst: int = 3, most: int = 100, per_epoch: int = 0
) -> Limit:
    return Limit(Rate(per_minute, burst, per_epoch), clock, max_addresses=most)


def test_address_may_send_a_burst_and_then_one_batch_every_ten_seconds() -> None:
    # The bucket of an address fills up while it is silent, also after a clock is set back.
    clock = Clock(100)
    asked = limit(clock)
    clock.now = 0
    assert [asked.begin("192.0.2.1") for _ in range(3)] == [0, 0, 0]
    assert asked.begin("192.0.2.1") == pytest.approx(10)
    assert asked.begin("192.0.2.2") == 0
    clock.now = 4
    assert asked.begin("192.0.2.1") == pytest.approx(6)
    clock.now = 10.001
    assert asked.begin("192.0.2.1") == 0
    assert asked.begin("192.0.2.1") > 9
    clock.now = 1e9
    assert [asked.begin("192.0.2.1") > 0 for _ in range(4)] == [False, False, False, True]


def test_memory_of_addresses_is_bounded() -> None:
    asked = limit(Clock(0), burst=1, most=2)
    for address in ("a", "b", "a", "c"):
        asked.begin(address)
    assert list(asked._addresses) == ["a", "c"]
    assert asked.begin("b") == 0
    off = limit(Clock(0), per_minute=0, burst=1)
    assert not any(off.begin("a") for _ in range(1000))
    assert not off._addresses, "zero is off, and remembers nobody"


@pytest.mark.parametrize("per_minute", [0, 6])
def test_batches_of_an_address_in_an_epoch_are_limited(per_minute: float) -> None:
    # The limit holds at any time; batches that were refused or not stored do not count.
    clock = Clock(0)
    asked = limit(clock, per_minute, per_epoch=2)
    for _ in range(2):
        assert RateLimit.begin(asked, "a", 1) == 0
        asked.end("a", None)  # it was not stored
        clock.now += 1e6
        assert asked.begin("a") == 0
        clock.now += 1e6
    assert asked.begin("a") == RETRY_WHEN_FULL_SECONDS
    assert asked.begin("b") == 0
    assert asked.begin("a", 2) == 0, "another epoch"


def test_requests_in_progress_count_for_every_epoch() -> None:
    asked = RateLimit(Rate(0, per_epoch=2), Clock(0))
    assert [asked.begin("a", 1) for _ in range(3)] == [0, 0, RETRY_WHEN_FULL_SECONDS]
    assert asked.begin("a", 2) == RETRY_WHEN_FULL_SECONDS
    asked.end("a", 1)  # too late for the second epoch: it was stored in the first
    assert [asked.begin("a", 2) for _ in range(2)] == [0, RETRY_WHEN_FULL_SECONDS]
    asked.end("a", 2)  # begun in the first epoch
    assert asked.begin("a", 2) == RETRY_WHEN_FULL_SECONDS
    asked.end("a", None)
    assert [asked.begin("a", 2) for _ in range(2)] == [0, RETRY_WHEN_FULL_SECONDS]


def test_concurrent_batches_of_an_address_are_limited(make_world: MakeWorld) -> None:
    # Count accepted batches, also of requests that began together, again in each epoch.
    world = make_world(rate=Rate(batches_per_minute=0, per_epoch=2))

    def batch() -> bytes:
        return world.people.batch(world.now).encode()

    async def work(app: Starlette) -> None:
        assert (await post(app, b"nonsense")).status == 400
        answers = await asyncio.gather(*[post(app, batch()) for _ in range(10)])
        assert sorted(answer.status for answer in answers) == [202] * 2 + [429] * 8
        away = await post(app, batch())
        assert (away.status, away.headers["retry-after"]) == (429, "3600")
        assert (await post(app, batch(), client=("192.0.2.77", 1))).status == 202
        world.end_epoch()
        world.server.go_on(signed(2))
        world.proxy.tick()
        assert (await post(app, batch())).status == 202

    within(world, work)
    assert len(world.server.reports(1)) == 12


# Group commit: many requests, one transaction, everybody gets an answer.

BATCHES = People().batches(signed(), 700)


def run(
    keep: Callable[[list[Batch]], Sequence[Exception | None]],
    work: Callable[[Writer], Coroutine[Any, Any, Any]],
    **settings: int,
) -> Any:
    async def main() -> Any:
        writer = GroupCommit(keep, **settings)
        try:
            return await asyncio.wait_for(work(writer), 30)
        finally:
            await writer.finish()

    return asyncio.run(main())


async def all_of(writer: Writer, batches: list[Batch]) -> list[BaseException | None]:
    return await asyncio.gather(*map(writer.write, batches), return_exceptions=True)


def test_waiting_batches_share_a_transaction() -> None:
    groups: list[list[Batch]] = []
    first_seen, go_on = threading.Event(), threading.Event()

    def keep(batches: list[Batch]) -> list[None]:
        groups.append(batches)
        first_seen.set()
        assert go_on.wait(10)
        return [None] * len(batches)

    async def work(writer: Writer) -> None:
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
    assert [len(group) for group in groups] == [
        1,
        MAX_REQUESTS_PER_TRANSACTION,
        699 - MAX_REQUESTS_PER_TRANSACTION,
    ]
    assert [batch for group in groups for batch in group] == BATCHES


def test_internal_error_answers_every_waiting_batch() -> None:
    def keep(batches: list[Batch]) -> list[None]:
        raise ZeroDivisionError("a bug")

    answers = run(keep, lambda writer: all_of(writer, BATCHES[:5]))
    assert [type(answer) for answer in answers] == [ZeroDivisionError] * 5


def test_batches_beyond_the_queue_are_refused() -> None:
    gate = threading.Event()

    def keep(batches: list[Batch]) -> list[None]:
        assert gate.wait(10)
        return [None] * len(batches)

    async def work(writer: Writer) -> list[BaseException | None]:
        answers = asyncio.create_task(all_of(writer, BATCHES))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gate.set()
        return await answers

    answers = run(keep, work, max_pending=10)
    away = [answer for answer in answers if isinstance(answer, UnavailableError)]
    # Ten wait, and up to ten are in the transaction that the thread began meanwhile.
    assert len(BATCHES) - 20 <= len(away) <= len(BATCHES) - 10
    assert answers.count(None) == len(BATCHES) - len(away)


def test_closed_connection_does_not_affect_others() -> None:
    gate = threading.Event()

    def keep(batches: list[Batch]) -> list[None]:
        assert gate.wait(10)
        return [None] * len(batches)

    async def work(writer: Writer) -> None:
        tasks = [asyncio.create_task(writer.write(batch)) for batch in BATCHES[:9]]
        await asyncio.sleep(0)
        tasks[4].cancel()
        gate.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(answers.pop(4), asyncio.CancelledError)
        assert answers == [None] * 8

    run(keep, work)


def test_waiting_batches_are_stored_at_shutdown(world: World) -> None:
    batches = world.people.batches(world.now, 50)

    async def work(writer: Writer) -> asyncio.Task[Any]:
        task = asyncio.create_task(all_of(writer, batches))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task

    run(world.proxy.intake.store_batches, work)
    assert len(stored(world)) == 50
