"""From charged to sent: the same bytes until they arrive, one sync at a time."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client import Client
from sottovoce.client.timing import JITTER, MOST_LEAD, READY, drawn_plan, lead, not_before, uniform
from sottovoce.core import os_words
from sottovoce.errors import RefusedError, SettingsError, StoreError, UnavailableError
from sottovoce.protocol import open_reports
from tests.client.world import (
    COST,
    DAY,
    REPORTS,
    FakeProxy,
    World,
    charges,
    item,
    pause_once_made,
    sha,
)

# A proxy that is away, closed, or says no.


def unavailable(call: str) -> None:
    if call == "send":
        raise UnavailableError("busy")


def test_the_same_bytes_are_sent_again(client: Client, proxy: FakeProxy, folder: Path) -> None:
    proxy.after = unavailable  # it arrived, but the answer was lost
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before, proxy.after = unavailable, lambda call: None
    for _ in range(3):
        with pytest.raises(UnavailableError):
            client.sync(proxy)
    proxy.before = lambda call: None
    assert client.sync(proxy).outcome == "sent"
    assert len(proxy.received) == 2
    assert len(set(proxy.received)) == 1
    assert [charge.purpose for charge in charges(folder)] == [sha(proxy.received[0])]


def test_a_batch_that_comes_too_late_stays_spent(client: Client, proxy: FakeProxy) -> None:
    proxy.closed = True
    for _ in range(2):
        synced = client.sync(proxy)
        assert (synced.outcome, synced.spent) == ("too late", COST)
        assert "stays spent" in synced.sentence
    assert client.status().batches == {"dropped": 1}
    assert client._store._db.rows("SELECT batch FROM outbox") == [(None,)]


def test_a_left_over_of_a_closed_epoch_makes_way(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    proxy.before = unavailable
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before = lambda call: None
    proxy.next_epoch()
    synced = client.sync(proxy)
    assert (synced.epoch, synced.outcome, synced.lost) == (2, "sent", 1)
    assert "epoch 1 came too late" in synced.sentence
    assert [charge.epoch for charge in charges(folder)] == [1, 2]
    assert len(proxy.received) == 1


def test_a_refusal_keeps_the_batch_until_its_epoch_is_over(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    def refuse(call: str) -> None:
        if call == "send":
            raise RefusedError("403")

    proxy.before = refuse
    for _ in range(2):
        with pytest.raises(RefusedError):
            client.sync(proxy)
    assert client.status().batches == {"charged": 1}
    proxy.before = lambda call: None
    proxy.next_epoch()
    assert client.sync(proxy).outcome == "sent"


def test_a_proxy_that_asks_for_patience_gets_it_also_after_a_restart(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def busy(call: str) -> None:
        if call == "send":
            raise UnavailableError("busy", 120.0)

    proxy.before = busy
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    proxy.before = lambda call: None
    client.close()
    with world.open(folder) as again:
        world.now += 119
        for _ in range(2):
            with pytest.raises(UnavailableError, match="again in 1 seconds") as caught:
                again.sync(proxy)
            assert caught.value.retry_after == pytest.approx(1)
        assert proxy.calls.count("send") == 0
        world.now += 1
        assert again.sync(proxy).outcome == "sent"


def postponed(call: str) -> None:
    if call == "send":
        raise UnavailableError("429", 3_600.0)


def test_a_pause_is_for_the_batch_alone(client: Client, proxy: FakeProxy, world: World) -> None:
    """What is published is fetched meanwhile, and the owner hears that they have paid."""
    proxy.before = postponed
    for asked_again_in in (3_600, 3_599):
        proxy.calls.clear()
        with pytest.raises(UnavailableError, match="its cost is charged already") as caught:
            client.sync(proxy)
        assert caught.value.retry_after == pytest.approx(asked_again_in)
        assert "manifest" in proxy.calls
        world.now += 1
    assert proxy.calls.count("send") == 0
    assert client.status().batches == {"charged": 1}


def test_a_postponed_batch_is_given_up_when_its_epoch_is_over(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    """As any other that is late: before the time that the proxy named, and before `ends`."""
    proxy.before = postponed
    with pytest.raises(UnavailableError):
        client.sync(proxy)
    world.now += 60
    proxy.before = lambda call: None
    proxy.publish(world.signed(2, opens=int(world.now)))
    synced = client.sync(proxy)
    assert (synced.epoch, synced.outcome, synced.lost) == (2, "sent", 1)
    assert "epoch 1 came too late" in synced.sentence
    assert client.status().batches == {"dropped": 1, "sent": 1}
    assert [charge.epoch for charge in charges(folder)] == [1, 2]
    assert len(proxy.received) == 1


# Randomness.


def test_words_and_entropy_come_from_the_operating_system_by_default(
    client: Client, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inspect.signature(Client.sync).parameters["words"].default is os_words
    for method in (Client.open, Client.create):
        assert inspect.signature(method).parameters["entropy"].default is os.urandom
    asked: list[int] = []
    real = os.urandom

    def counting(size: int) -> bytes:
        asked.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", counting)
    client.sync(proxy)
    assert asked == [8 * (REPORTS + 1) * 4]  # `entropy` was bound before: plan and id are not in it


def test_two_devices_with_the_same_history_say_different_things(tmp_path: Path) -> None:
    """20 reports of 3 bits or more each agree by chance with probability below 2^-60."""
    world = World(reports=20)
    proxy = FakeProxy(world)
    for name in ("a", "b"):
        with world.create(tmp_path / name) as client:
            client.sync(proxy)
    n_directions = proxy.signed.manifest.build().n_directions
    opened = [
        open_reports(batch[56:], world.epoch_keys[1], proxy.signed.hash, n_directions)
        for batch in proxy.received
    ]
    assert not np.array_equal(opened[0].reports, opened[1].reports)
    assert proxy.received[0][40:56] != proxy.received[1][40:56]


# When it sends.


def test_an_hour_is_the_default() -> None:
    assert inspect.signature(Client.sync).parameters["jitter"].default == JITTER == 3_600


def coins(*shares: float) -> Callable[[int], bytes]:
    """Entropy whose draws are these shares of everything, then zeros."""
    drawn = iter([int(share * 2**64).to_bytes(8, "little") for share in shares])
    return lambda size: next(drawn, bytes(size))


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75])
def test_a_coin_is_uniform_in_its_bytes(share: float) -> None:
    assert uniform(coins(share)) == share


@given(st.floats(1, 1e6), st.floats(0, 5e5), st.binary(min_size=8, max_size=8))
def test_the_moment_leaves_time_to_compute_and_lies_in_the_epoch(
    jitter: float, age: float, random: bytes
) -> None:
    one = World(hold=3 * DAY).manifest(1)
    now = min(one.opens + age, one.ends - 1)
    plan = drawn_plan(one, 1, now, jitter, lambda size: random[:size])
    until = one.closes if now + lead(one) < one.closes else one.ends
    assert now + lead(one) <= plan.send_at <= max(until, now + lead(one))
    assert plan.send_at <= now + lead(one) + jitter


@pytest.mark.parametrize(("share", "takes_part"), [(0.24, True), (0.25, False), (0.9, False)])
def test_the_first_coin_says_whether_to_take_part(share: float, takes_part: bool) -> None:
    plan = drawn_plan(World(share=0.25).manifest(1), 1, 1.5 * DAY, 60, coins(share, 0.5))
    assert plan.takes_part == takes_part


def test_a_device_that_sits_out_asks_its_coin_once(world: World, folder: Path) -> None:
    proxy = FakeProxy(world, share=0.25)
    with world.create(folder, accept=False, entropy=coins(0.25)) as client:
        client.accept(proxy.signed.manifest.terms)
        for _ in range(3):  # the coin's further draws would all say yes
            assert client.sync(proxy).outcome == "sitting out"
    assert proxy.received == []
    assert charges(folder) == []


@given(st.floats(0, 1e4), st.floats(-1e4, 1e4))
def test_who_computes_too_long_is_seen_in_whole_steps(send_at: float, late: float) -> None:
    one = World().manifest(1)
    moment = not_before(send_at, send_at + late, one)
    assert moment >= send_at + late - 1e-6
    steps = (moment - send_at) / lead(one)
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert steps == 0 or late > 0


def sleeping(world: World, slept: list[float]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.now += seconds

    return sleep


def test_the_batch_leaves_at_the_moment_that_was_drawn(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    begun, slept = world.now, list[float]()
    sent_at: list[float] = []
    proxy.before = lambda call: sent_at.append(world.now) if call == "send" else None
    with world.create(folder, entropy=coins(0.0, 0.5)) as client:
        synced = client.sync(proxy, sleep=sleeping(world, slept), jitter=600)
    assert synced.outcome == "sent"
    ahead = lead(proxy.signed.manifest)
    assert sent_at == [begun + ahead + 300]
    assert slept == [300 - READY, READY, pytest.approx(ahead)]
    # Shortly before it makes the batch it looks again whether the epoch still runs.
    assert proxy.calls == ["manifest", "model", "catalogue", "manifest", "send"]


def test_no_shape_has_a_longer_lead_than_a_batch_waits_for() -> None:
    shapes = [(2**24, 1), (2**24, 4), (2**16, 256), (2**22, 16)]
    leads = [
        lead(World(most_items=2**24, factors=f, reports=10_000, items=m).manifest(1))
        for m, f in shapes
    ]
    assert max(leads) < MOST_LEAD


def test_a_clock_that_was_set_back_does_not_hold_a_batch(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.pause(on=False)
    world.now -= DAY / 4
    slept: list[float] = []
    assert client.sync(proxy, sleep=slept.append, jitter=60).outcome == "sent"
    assert slept == []


@pytest.mark.parametrize(("left", "outcome"), [(5, "not open"), (6, "sent")])
def test_nobody_pays_for_a_batch_that_could_not_be_sent_in_time(
    world: World, folder: Path, left: int, outcome: str
) -> None:
    """The epoch ends after so many seconds."""
    proxy = FakeProxy(world, closes=int(world.now) + left)
    assert 5 < lead(proxy.signed.manifest) < 6
    with world.create(folder) as client:
        synced = client.sync(proxy, sleep=sleeping(world, []), jitter=600)
    assert (synced.outcome, len(charges(folder))) == (outcome, int(outcome == "sent"))


def test_an_epoch_that_is_over_before_its_turn_costs_nothing(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def meanwhile(seconds: float) -> None:
        world.now += seconds
        proxy.publish(world.signed(2, opens=DAY))

    missed = client.sync(proxy, sleep=meanwhile, jitter=600)
    assert (missed.outcome, missed.epoch) == ("missed", 2)
    assert charges(folder) == []
    assert proxy.received == []
    assert client.sync(proxy).outcome == "sent"


def test_the_moment_survives_a_restart(world: World, proxy: FakeProxy, folder: Path) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    begun, slept = world.now, list[float]()
    with world.create(folder, entropy=coins(0.0, 0.5)) as client, pytest.raises(KeyboardInterrupt):
        client.sync(proxy, sleep=stop, jitter=600)
    assert charges(folder) == []
    world.now += 100
    with world.open(folder, entropy=coins(0.9, 0.9)) as client:
        client.sync(proxy, sleep=sleeping(world, slept), jitter=600)
    assert sum(slept) == pytest.approx(300 + lead(proxy.signed.manifest) - 100)
    assert world.now == pytest.approx(begun + 300 + lead(proxy.signed.manifest))


@pytest.mark.parametrize("jitter", [-1.0, 3_601.0, float("nan"), float("inf")])
def test_a_pause_without_sense_is_refused(client: Client, proxy: FakeProxy, jitter: float) -> None:
    with pytest.raises(SettingsError, match="jitter"):
        client.sync(proxy, jitter=jitter)
    assert proxy.calls == []


# Two at once.


def test_a_second_sync_of_the_same_folder_is_told_so(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    """Between processes: `tests/storage/test_lock.py`. What the owner does goes on all the same."""

    def meanwhile(_: float) -> None:
        if not client.status().batches:
            return  # the long pause, before anything is made: see below
        with world.open(folder) as other:
            with pytest.raises(StoreError, match="another process is syncing"):
                other.sync(proxy)
            other.record([item(40)])
            other.remove([item(40)])
            assert other.recommend(1)

    assert client.sync(proxy, sleep=meanwhile, jitter=60).outcome == "sent"
    assert client.sync(proxy).outcome == "already sent"


def test_while_it_waits_for_its_turn_the_owner_may_do_as_they_like(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def meanwhile(_: float) -> None:
        with world.open(folder) as other:
            if other.status().limit:
                other.forget()
                other.set_limit(0)

    synced = client.sync(proxy, sleep=meanwhile, jitter=600)
    assert (synced.outcome, synced.spent) == ("limit reached", 0.0)
    assert proxy.received == []
