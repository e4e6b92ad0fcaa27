"""What is accepted, what is refused, and with which error."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.errors import (
    ClosedError,
    ProtocolError,
    RefusedError,
    UnavailableError,
    WrongEpochError,
)
from tests.proxy.world import CLOSES, ENDS, OPENS, World, signed


def stored(world: World) -> list[bytes]:
    with world.store.read() as tables:
        return list(tables.batches())


def test_the_same_bytes_again_are_fine_and_counted_once(world: World) -> None:
    (batch,) = world.send(1)
    world.proxy.accept(batch.encode())
    assert stored(world) == [batch.sealed]
    assert world.proxy.intake.waiting == 1


def test_the_same_id_with_other_bytes_is_refused(world: World) -> None:
    (batch,) = world.send(1)
    other = world.people.batch(world.now, id=batch.id)
    with pytest.raises(RefusedError, match="other reports"):
        world.proxy.accept(other.encode())
    assert stored(world) == [batch.sealed]


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"", lambda b: b"X" + b[1:]]
)
def test_bytes_that_are_no_batch(world: World, change: object) -> None:
    data = world.people.batch(world.now).encode()
    with pytest.raises(ProtocolError):
        world.proxy.accept(change(data))  # type: ignore[operator]
    assert not stored(world)


@pytest.mark.parametrize("change", [{"epoch": 2}, {"epoch": 0}, {"manifest_hash": bytes(32)}])
def test_another_epoch_or_manifest(world: World, change: dict[str, object]) -> None:
    with pytest.raises(WrongEpochError):
        world.proxy.accept(world.people.batch(world.now, **change).encode())
    assert not stored(world)


@pytest.mark.parametrize(
    ("time", "error"),
    [
        (OPENS - 0.01, UnavailableError),
        (OPENS, None),
        (CLOSES, None),
        (ENDS - 0.01, None),
        (ENDS, ClosedError),
    ],
)
def test_the_window_by_the_proxys_own_clock(
    world: World, time: float, error: type[Exception] | None
) -> None:
    world.clock.now = time
    if error is None:
        world.send(1)
    else:
        with pytest.raises(error):
            world.send(1)
    assert len(stored(world)) == (error is None)


def test_before_the_first_manifest(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(UnavailableError, match="no manifest"):
        world.proxy.accept(b"anything")
    world.store.close()


def test_a_finished_model_takes_no_reports_and_asks_the_server_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, signed(public_key=None))
    world.proxy.tick()
    with pytest.raises(ClosedError):
        world.send(1)
    world.clock.now = CLOSES
    world.proxy.tick()
    assert not world.server.told
    assert not world.server.commits
    world.store.close()


def test_closed_by_the_server_it_refuses_even_what_it_has(world: World) -> None:
    sent = world.send(3)
    world.end_epoch()
    with pytest.raises(ClosedError):
        world.proxy.accept(sent[0].encode())
    with pytest.raises(ClosedError):
        world.send(1)


def test_a_flushed_epoch_stays_closed_after_a_restart(world: World) -> None:
    world.send(3)
    world.end_epoch()
    world.reopen()
    with pytest.raises(ClosedError):
        world.send(1)
    assert world.proxy.intake.waiting == 0


def test_a_restart_goes_on_counting(world: World) -> None:
    world.send(2)
    world.reopen()
    world.send(1)
    assert world.proxy.intake.waiting == 3


def test_a_batch_checked_before_the_close_is_refused_behind_it(world: World) -> None:
    """The second check, inside the transaction: nothing slips in behind a flush."""
    world.send(3)
    late = world.proxy.intake.check(world.people.batch(world.now).encode())
    world.end_epoch()
    (outcome,) = world.proxy.intake.keep([late])
    assert isinstance(outcome, ClosedError)
    world.server.go_on(signed(2))
    world.proxy.tick()
    (outcome,) = world.proxy.intake.keep([late])
    assert isinstance(outcome, WrongEpochError)
    assert not stored(world)
    assert world.proxy.intake.waiting == 0


def test_one_bad_batch_does_not_spoil_its_group(world: World) -> None:
    (first,) = world.send(1)
    good = world.people.batches(world.now, 3)
    twin = replace(good[0], sealed=good[1].sealed)
    bad = replace(world.people.batch(world.now), id=first.id)
    outcomes = world.proxy.intake.keep([good[0], bad, good[1], twin, good[2], first])
    assert [type(outcome) for outcome in outcomes] == [
        type(None), RefusedError, type(None), RefusedError, type(None), type(None),
    ]  # fmt: skip
    assert sorted(stored(world)) == sorted(b.sealed for b in [first, *good])
    assert world.proxy.intake.waiting == 4


def test_many_threads_while_the_epoch_ends(world: World) -> None:
    """Every batch is acknowledged and flushed, or refused: nothing between the two."""
    batches = [world.people.batches(world.now, 40) for _ in range(6)]
    kept: list[bytes] = []
    some = threading.Event()

    def send(mine: int) -> None:
        for batch in batches[mine]:
            try:
                world.proxy.accept(batch.encode())
            except ClosedError:
                return
            kept.append(batch.sealed)
            if len(kept) > 20:
                some.set()

    threads = [threading.Thread(target=send, args=(mine,)) for mine in range(6)]
    for thread in threads:
        thread.start()
    assert some.wait(30)
    world.end_epoch()
    for thread in threads:
        thread.join()
    assert not stored(world)
    assert world.proxy.intake.waiting == 0
    assert sorted(world.server.reports(1)) == sorted(
        sealed[at : at + 52] for sealed in kept for at in range(0, len(sealed), 52)
    )
