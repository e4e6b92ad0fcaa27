"""From charged to sent: the same bytes until they arrive, one sync at a time."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client import Client
from sottovoce.client.reporting import pause_before_sending
from sottovoce.errors import RefusedError, SettingsError, StoreError, UnavailableError
from sottovoce.mechanism import os_words
from sottovoce.protocol import open_reports
from tests.client.world import COST, DAY, REPORTS, FakeProxy, World, charges, item, sha

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
    assert asked == [8 * (REPORTS + 1) * 4]


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


@given(st.floats(1e-3, 1e6), st.binary(min_size=8, max_size=8))
def test_a_pause_is_never_as_long_as_its_bound(most: float, random: bytes) -> None:
    assert 0 <= pause_before_sending(most, lambda size: random[:size]) < most


def test_the_pause_is_uniform_in_its_bytes() -> None:
    for share in (0.0, 0.25, 0.5, 0.75):
        random = int(share * 2**64).to_bytes(8, "little")
        assert pause_before_sending(10.0, lambda _, drawn=random: drawn) == 10 * share  # type: ignore[misc]


@pytest.mark.parametrize(("left", "jitter", "most"), [(100.0, 30.0, 30.0), (100.0, 1e6, 100.0)])
def test_the_pause_ends_before_the_epoch(
    world: World, proxy: FakeProxy, folder: Path, left: float, jitter: float, most: float
) -> None:
    world.now = 2 * DAY - left
    slept: list[float] = []
    with world.create(folder, entropy=lambda size: b"\xff" * size) as client:
        assert client.sync(proxy, sleep=slept.append, jitter=jitter).outcome == "sent"
    assert 0.999 * most < slept[0] < most
    assert len(slept) == 1


@pytest.mark.parametrize("jitter", [-1.0, float("nan"), float("inf")])
def test_a_pause_without_sense_is_refused(client: Client, proxy: FakeProxy, jitter: float) -> None:
    with pytest.raises(SettingsError, match="jitter"):
        client.sync(proxy, jitter=jitter)
    assert proxy.calls == []


# Two at once.


def test_a_second_sync_of_the_same_folder_is_told_so(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    """Between processes: `tests/storage/test_lock.py`."""

    def meanwhile(_: float) -> None:
        with world.open(folder) as other:
            with pytest.raises(StoreError, match="another process is syncing"):
                other.sync(proxy)
            with pytest.raises(StoreError, match="another process is syncing"):
                other.forget()
            other.record([item(40)])
            assert other.recommend(1)

    assert client.sync(proxy, sleep=meanwhile, jitter=1).outcome == "sent"
    assert client.sync(proxy).outcome == "already sent"
