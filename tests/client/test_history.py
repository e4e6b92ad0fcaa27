"""The history: its order, how items are removed and forgotten, and that no trace is left."""

import random
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.client import Client, SyncResult
from sottovoce.client.store import ClientStore
from sottovoce.errors import DataError, StoreError
from sottovoce.protocol import open_reports
from tests.client.world import (
    COST,
    ITEMS,
    FakeProxy,
    World,
    charges,
    item,
    pause_once_made,
    words,
)


def test_earliest_items_are_dropped_from_a_full_history(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among items of one moment, drop those that come last by name."""
    client.forget()
    monkeypatch.setattr("sottovoce.client.history.MAX_HISTORY_ITEMS", 3)
    assert client.record(["c", "a"]) == 2
    assert client.record(["b"]) == 1
    assert client.record(["d"]) == 1
    assert client.list_touched() == ["a", "b", "d"]
    assert client.record(["a"]) == 0
    assert client.record(["e"]) == 1
    assert client.list_touched() == ["d", "a", "e"]
    assert client.record(list("zyxw")) == 4
    assert client.list_touched() == ["w", "x", "y"]


PRIVATE = [f"a-very-private-thing-{n}" for n in range(300)]


def read_files(folder: Path) -> bytes:
    """Return the bytes of all files, and their names."""
    return b"".join(file.name.encode() + file.read_bytes() for file in sorted(folder.iterdir()))


def test_recording_and_removing_say_how_many_were_new_or_there(client: Client) -> None:
    assert client.record([item(20), item(4), item(4)]) == 1
    assert client.record(iter([item(1)])) == 1
    assert client.list_touched() == [item(3), item(7), item(4), item(20), item(1)]
    rows = client._store.history._db.rows("SELECT * FROM interactions")
    assert rows == [(item(1), 3), (item(3), 1), (item(4), 2), (item(7), 1), (item(20), 2)]
    assert client.remove([item(7), item(7), "never there"]) == 1
    assert client.remove([item(7)]) == client.remove([]) == client.record([]) == 0
    assert client.list_touched() == [item(3), item(4), item(20), item(1)]


@pytest.mark.parametrize("wrong", ["abc", *(["good", bad] for bad in ("", "x" * 513, "\ud800", 7))])
def test_invalid_items_change_nothing(client: Client, wrong: Any) -> None:
    for attempt in (client.record, client.remove):
        with pytest.raises(DataError):
            attempt(wrong)
    assert len(client.list_touched()) == 3


def test_removed_item_leaves_no_byte_in_any_file(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    """Remove one of thousands, so that the table has many pages; the files stay open."""
    client.sync(proxy)
    for first in range(0, 300, 100):
        client.record(PRIVATE[first : first + 100] + [f"kept-{first}-{n}" for n in range(700)])
    assert read_files(folder).count(b"a-very-private") >= len(PRIVATE)
    assert client.remove(PRIVATE) == len(PRIVATE)
    assert b"a-very-private" not in read_files(folder)
    client.close()
    assert b"a-very-private" not in read_files(folder)


@pytest.mark.parametrize("seed", range(8))
def test_no_page_has_an_old_copy_of_a_removed_item(client: Client, folder: Path, seed: int) -> None:
    """Add names in random order: SQLite moves rows to other pages, and leaves copies."""
    source, names = random.Random(seed), list[str]()
    for _ in range(8):
        lengths = source.choices(range(10, 41), k=250)
        names += ("".join(source.choices(ascii_lowercase, k=length)) for length in lengths)
        client.record(names[-250:])
    removed = source.sample(names, 1000)
    assert client.remove(removed) == 1000
    left = read_files(folder)
    assert not [name for name in removed if name[-10:].encode() in left]
    client.forget()
    left = read_files(folder)
    assert not [name for name in names if name[-10:].encode() in left]


def test_files_are_as_if_a_removed_item_had_never_been_recorded(
    world: World, tmp_path: Path
) -> None:
    """Moments are numbered again: a gap would reveal that something was there."""
    with world.create(tmp_path / "one") as one, world.create(tmp_path / "other") as other:
        for client in (one, other):
            client.record([item(9), item(2)])
            client.record([item(5)])
        one.remove(["was never there"])  # both files have been rewritten once
        for ids in ([item(1)], [item(30), item(5)]):
            other.record(ids)
        other.record([item(4)])
        other.remove([item(1), item(30), item(5)])
        one.remove([item(5)])
        one.record([item(4)])
        assert (
            one._store.history.get_moments()
            == other._store.history.get_moments()
            == {item(2): 1, item(4): 2, item(9): 1}
        )
        proxy = FakeProxy(world)
        for client in (one, other):
            client.pause()
            client.sync(proxy)
        assert one.recommend(10) == other.recommend(10)


# Forgetting at any moment of a sync: no batch of it is kept or leaves after it.


LOUD_TERMS = {"epsilon": 40.0, "reports": 30}
"""So that reports say what a device knows."""


@pytest.fixture
def loud() -> World:
    return World(**LOUD_TERMS)


def open_batch_of(proxy: FakeProxy) -> list[int]:
    manifest = proxy.signed.manifest
    key, directions = proxy.world.epoch_keys[1], manifest.build().n_directions
    (batch,) = proxy.received
    return list(open_reports(batch[56:], key, proxy.signed.hash, directions).reports)


def sync_of(
    world: World, folder: Path, history: list[str], meanwhile: Callable[[], None] = lambda: None
) -> tuple[FakeProxy, SyncResult]:
    """Sync; call `meanwhile` once, after the history was read and before anything is stored."""
    proxy, left = FakeProxy(world), [meanwhile]

    def drawn(users: int, reports: int) -> NDArray[np.uint64]:
        if left:
            left.pop()()
        return words(users, reports)

    with world.create(folder, limit=1e6) as client:
        client.record(history)
        return proxy, client.sync(proxy, draw_words=drawn)


def forget_in(world: World, folder: Path) -> None:
    with world.open(folder) as other:
        other.forget()


def test_batch_in_progress_is_discarded_and_made_of_an_empty_history(
    loud: World, tmp_path: Path
) -> None:
    folder, history = tmp_path / "forgets", [item(number) for number in range(0, ITEMS, 3)]
    forgetful, synced = sync_of(loud, folder, history, lambda: forget_in(loud, folder))
    assert synced.outcome == "sent"
    nobody, _ = sync_of(loud, tmp_path / "nobody", [])
    somebody, _ = sync_of(loud, tmp_path / "somebody", history)
    assert open_batch_of(forgetful) == open_batch_of(nobody) != open_batch_of(somebody)
    assert len(charges(folder)) == 1, "of the batch that was thrown away nothing is left"


def test_history_read_before_forgetting_is_not_kept_after_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A sync that reads between two steps of forgetting sees the whole history or nothing.
    generations: list[bytes] = []
    clear = client._store.history.clear

    def read_first() -> None:
        generations.append(client._store.generation)
        assert client.list_touched()
        clear()

    monkeypatch.setattr(client._store.history, "clear", read_first)
    client.forget()
    assert generations != [client._store.generation]


def test_batch_that_waits_for_its_moment_is_not_sent_after_forgetting(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def meanwhile(_: float) -> None:
        if client.get_status().batches:
            forget_in(world, folder)

    synced = client.sync(proxy, sleep=meanwhile, jitter=60)
    assert (synced.outcome, synced.spent) == ("already charged", COST)
    assert proxy.received == []
    assert client.get_status().batches == {}


def pause_in(world: World, folder: Path) -> None:
    with world.open(folder) as other:
        other.pause()


@pytest.fixture(params=[forget_in, pause_in])
def stop(request: pytest.FixtureRequest, world: World, folder: Path) -> partial[None]:
    """Return a function that stops all batches, as an owner does."""
    return partial(request.param, world, folder)


def test_forgetting_waits_for_a_request_in_progress(
    client: Client, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch, stop: partial[None]
) -> None:
    """Otherwise a batch could be sent after its owner was told that none is."""
    waits_for_lock, order = threading.Event(), list[str]()
    sending = ClientStore.lock_sending

    def stop_it() -> None:
        stop()
        waits_for_lock.set()  # also where nothing is waited for
        order.append("stopped")

    thread = threading.Thread(target=stop_it)

    def under_way(call: str) -> None:
        if call == "send":
            monkeypatch.setattr(ClientStore, "lock_sending", seen)
            thread.start()
            assert waits_for_lock.wait(30)
            thread.join(0.2)
            order.append("sent")

    def seen(store: ClientStore) -> object:
        waits_for_lock.set()
        return sending(store)

    proxy.before = under_way
    client.sync(proxy)
    thread.join()
    assert order == ["sent", "stopped"]
    assert client.get_status().batches == ({} if stop.func is forget_in else {"sent": 1})


def test_batch_can_be_stopped_until_the_sending_lock_is_taken(
    client: Client, proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch, stop: partial[None]
) -> None:
    """Stop it just before the lock under which a batch is sent is taken."""
    sending = ClientStore.lock_sending

    def stop_first(store: ClientStore) -> object:
        monkeypatch.setattr(ClientStore, "lock_sending", sending)
        stop()
        return sending(store)

    monkeypatch.setattr(ClientStore, "lock_sending", stop_first)
    assert client.sync(proxy).outcome in ("paused", "already charged")
    assert proxy.received == []


def test_forgetting_leaves_no_trace_of_an_item(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.record([f"a-very-private-thing-{n}" for n in range(2000)])
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    waiting = client._store.get_waiting_batch()
    assert waiting is not None
    model = world.files[proxy.signed.manifest.model]
    before = read_files(folder)
    traces = [b"a-very-private", b"secret-item", b"Title 4", waiting.batch[56:100], model[200:260]]
    assert all(trace in before for trace in traces)
    client.forget()
    after = read_files(folder)
    assert not any(trace in after for trace in traces)
    client.close()
    assert not any(trace in read_files(folder) for trace in traces)
    with world.create(folder.with_name("new")):
        pass
    for name in ("client.db", "client.history.db"):  # nor of how much there was
        new = (folder.with_name("new") / name).stat().st_size
        assert (folder / name).stat().st_size == new


def test_forgetting_keeps_charges_terms_and_used_epochs(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    client.pause()
    client.forget()
    status = client.get_status()
    assert (status.interactions, status.batches, status.epoch) == (0, {}, 1)
    assert (status.spent, status.paused, status.terms) == (COST, True, world.terms())
    client.pause(on=False)
    assert client.sync(proxy).outcome == "already charged"
    proxy.next_epoch()
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.forget()  # the batch that waits goes, its charge does not
    client.pause(on=False)
    assert client.sync(proxy).outcome == "already charged"
    proxy.next_epoch()
    client.record([item(2)])
    assert client._store.history.get_moments() == {item(2): 1}, "no trace of earlier moments"
    assert client.sync(proxy).outcome == "sent"
    assert [charge.epoch for charge in charges(folder)] == [1, 2, 3]
    assert len(proxy.received) == 2


@pytest.mark.parametrize(
    ("name", "table"), [("client.db", "ledger"), ("client.history.db", "interactions")]
)
def test_reader_that_keeps_old_pages_is_reported_and_a_retry_succeeds(
    client: Client, folder: Path, name: str, table: str
) -> None:
    other = sqlite3.connect(folder / name, isolation_level=None)
    other.execute("BEGIN")
    other.execute(f"SELECT count(*) FROM {table}").fetchall()
    for database in (client._store._db, client._store.history._db):
        database.rows("PRAGMA busy_timeout = 1")
    if table == "interactions":
        with pytest.raises(StoreError):
            client.remove([item(7)])
    with pytest.raises(StoreError):
        client.forget()
    other.close()
    assert client.remove([item(7)]) == 0
    client.forget()
    assert b"secret-item" not in read_files(folder)
