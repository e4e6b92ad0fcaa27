"""Forgetting at any moment of a sync: no batch of what was forgotten is kept or leaves after it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sottovoce.client.store import ClientStore
from sottovoce.protocol import open_reports
from tests.client.world import COST, ITEMS, FakeProxy, World, charges, item, words

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.client import Client, Synced

LOUD = {"epsilon": 40.0, "reports": 30}
"""So that reports say what a device knows."""


@pytest.fixture
def loud() -> World:
    return World(**LOUD)


def reports_of(proxy: FakeProxy) -> list[int]:
    manifest = proxy.signed.manifest
    key, directions = proxy.world.epoch_keys[1], manifest.build().n_directions
    (batch,) = proxy.received
    return list(open_reports(batch[56:], key, proxy.signed.hash, directions).reports)


def sync_of(
    world: World, folder: Path, history: list[str], meanwhile: Callable[[], None] = lambda: None
) -> tuple[FakeProxy, Synced]:
    """`meanwhile` is done once, when the history was read and nothing is kept yet."""
    proxy, left = FakeProxy(world), [meanwhile]

    def drawn(users: int, reports: int) -> NDArray[np.uint64]:
        if left:
            left.pop()()
        return words(users, reports)

    with world.create(folder, limit=1e6) as client:
        client.record(history)
        return proxy, client.sync(proxy, words=drawn)


def forget_in(world: World, folder: Path) -> None:
    with world.open(folder) as other:
        other.forget()


def test_a_batch_that_is_being_made_is_thrown_away_and_made_of_nothing(
    loud: World, tmp_path: Path
) -> None:
    folder, history = tmp_path / "forgets", [item(each) for each in range(0, ITEMS, 3)]
    forgetful, synced = sync_of(loud, folder, history, lambda: forget_in(loud, folder))
    assert synced.outcome == "sent"
    nobody, _ = sync_of(loud, tmp_path / "nobody", [])
    somebody, _ = sync_of(loud, tmp_path / "somebody", history)
    assert reports_of(forgetful) == reports_of(nobody) != reports_of(somebody)
    assert len(charges(folder)) == 1, "of the batch that was thrown away nothing is left"


def test_what_was_read_before_is_never_kept_after(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of forgetting, a sync may read: it sees the history or its end."""
    generations: list[bytes] = []
    clear = client._store.history.clear

    def read_first() -> None:
        generations.append(client._store.generation)
        assert client.touched()
        clear()

    monkeypatch.setattr(client._store.history, "clear", read_first)
    client.forget()
    assert generations != [client._store.generation]


def test_a_batch_that_waits_for_its_moment_does_not_leave(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def meanwhile(_: float) -> None:
        if client.status().batches:
            forget_in(world, folder)

    synced = client.sync(proxy, sleep=meanwhile, jitter=60)
    assert (synced.outcome, synced.spent) == ("already charged", COST)
    assert proxy.received == []
    assert client.status().batches == {}


def test_a_request_that_is_under_way_is_waited_for(
    client: Client, proxy: FakeProxy, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a batch could leave after forgetting has said that all is gone."""
    looking, order = threading.Event(), list[str]()
    sending = ClientStore.sending

    def forget() -> None:
        forget_in(world, folder)
        order.append("forgotten")

    thread = threading.Thread(target=forget)

    def under_way(call: str) -> None:
        if call == "send":
            monkeypatch.setattr(ClientStore, "sending", seen)
            thread.start()
            assert looking.wait(30)
            thread.join(0.2)
            order.append("sent")

    def seen(store: ClientStore) -> object:
        looking.set()
        return sending(store)

    proxy.before = under_way
    client.sync(proxy)
    thread.join()
    assert order == ["sent", "forgotten"]
    assert client.status().batches == {}
