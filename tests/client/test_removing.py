"""Removing some of what was touched: nothing of it is left, and nobody else can tell."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.errors import DataError, StoreError
from sottovoce.protocol import open_reports
from tests.client.world import FakeProxy, World, charges, item, pause_once_made, words

if TYPE_CHECKING:
    from sottovoce.client import Client

PRIVATE = [f"a-very-private-thing-{n}" for n in range(300)]


def raw(folder: Path) -> bytes:
    """Of all files, and their names."""
    return b"".join(file.name.encode() + file.read_bytes() for file in sorted(folder.iterdir()))


def test_what_was_touched_comes_in_its_order(client: Client) -> None:
    client.record([item(1)])
    client.record([item(20), item(4)])
    assert client.touched() == [item(3), item(7), item(1), item(4), item(20)]


def test_removing_says_how_many_were_there(client: Client) -> None:
    assert client.remove([item(7), item(7), "never there"]) == 1
    assert client.touched() == [item(3), item(20)]
    assert client.remove([item(7)]) == 0
    assert client.remove([]) == 0


@pytest.mark.parametrize("wrong", ["secret", [item(3), ""], [item(3), "x" * 600], [item(3), 7]])
def test_what_cannot_be_an_item_removes_nothing(client: Client, wrong: Any) -> None:
    with pytest.raises(DataError):
        client.remove(wrong)
    assert len(client.touched()) == 3


def test_no_byte_of_it_is_left_in_any_file(client: Client, proxy: FakeProxy, folder: Path) -> None:
    """Among thousands, so that the table has many pages; the files stay open, their log too."""
    client.sync(proxy)
    for first in range(0, 300, 100):
        client.record(PRIVATE[first : first + 100] + [f"kept-{first}-{n}" for n in range(700)])
    assert raw(folder).count(b"a-very-private") >= len(PRIVATE)
    assert client.remove(PRIVATE) == len(PRIVATE)
    assert b"a-very-private" not in raw(folder)
    assert len(client.touched()) == 3 + 2100
    client.close()
    assert b"a-very-private" not in raw(folder)


def test_nor_how_much_there_was(client: Client, folder: Path) -> None:
    client.remove([])  # its file is rewritten once
    before = (folder / "client.history.db").stat().st_size
    client.record(PRIVATE)
    client.remove(PRIVATE)
    assert (folder / "client.history.db").stat().st_size == before
    assert (folder / "client.history.db-wal").stat().st_size == 0


def test_it_is_as_if_it_had_never_been_recorded(world: World, tmp_path: Path) -> None:
    """The order is counted anew: a gap in it would tell that something was there."""
    with world.create(tmp_path / "one") as one, world.create(tmp_path / "other") as other:
        for each in (one, other):
            each.record([item(9), item(2)])
            each.record([item(5)])
        one.remove(["was never there"])  # both files have been rewritten once
        for ids in ([item(1)], [item(30), item(5)]):
            other.record(ids)
        other.record([item(4)])
        other.remove([item(1), item(30), item(5)])
        one.remove([item(5)])
        one.record([item(4)])
        assert (
            one._store.history.touched()
            == other._store.history.touched()
            == {item(2): 1, item(4): 2, item(9): 1}
        )
        proxy = FakeProxy(world)
        for each in (one, other):
            each.pause()
            each.sync(proxy)
        assert one.recommend(10) == other.recommend(10)


def test_no_batch_is_made_of_it_any_more(world: World, proxy: FakeProxy, tmp_path: Path) -> None:
    """Reports are those of somebody who never touched it, to the bit."""
    reports = []
    for name, extra in (("without", []), ("removed", [item(11), item(12)])):
        with world.create(tmp_path / name) as client:
            client.record([item(3), *extra])
            client.remove(extra)
            client.sync(proxy, words=words)
        manifest = proxy.signed.manifest
        key, directions = world.epoch_keys[1], manifest.build().n_directions
        opened = open_reports(proxy.received[-1][56:], key, proxy.signed.hash, directions)
        reports.append(list(opened.reports))
    assert reports[0] == reports[1]
    assert len(reports[0]) == manifest.terms.reports


def seen(folder: Path, removed: list[str]) -> list[Any]:
    """What others see of three epochs, if some is removed during every sleep, and at rest."""
    world, coins, told = World(), Random(5), list[Any]()
    proxy = FakeProxy(world)
    proxy.before = lambda call: told.append((call, round(world.now, 6)))

    def sleep(seconds: float) -> None:
        client.remove(removed)
        world.now += seconds

    with world.create(folder, entropy=coins.randbytes) as client:
        client.record([item(3), item(7), item(20), "unknown"])
        for _ in range(3):
            synced = client.sync(proxy, sleep=sleep, jitter=3_600)
            told.append((synced.outcome, synced.spent, synced.sentence))
            client.record(removed)
            client.remove(removed)
            proxy.next_epoch()
    told.extend((one.epoch, one.epsilon, one.reports) for one in charges(folder))
    return [*told, [len(batch) for batch in proxy.received]]


def test_nobody_can_tell_that_something_was_removed(tmp_path: Path) -> None:
    alike = [
        seen(tmp_path / str(n), removed)
        for n, removed in enumerate(([], [item(7)], [item(3), item(7), item(20), "unknown"]))
    ]
    assert alike[0] == alike[1] == alike[2]
    assert [entry[0] for entry in alike[0]].count("send") == 3


def test_a_batch_that_waits_is_left_as_it_is(client: Client, proxy: FakeProxy) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    waiting = client._store.waiting()
    assert waiting is not None
    client.remove([item(3)])
    assert client._store.waiting() == waiting
    client.pause(on=False)
    assert client.sync(proxy).outcome == "sent"
    assert proxy.received == [waiting.batch]


def test_a_reader_that_keeps_traces_is_told_of_and_trying_again_helps(
    client: Client, folder: Path
) -> None:
    other = sqlite3.connect(folder / "client.history.db", isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM interactions").fetchall()
    client._store.history._db.rows("PRAGMA busy_timeout = 1")
    with pytest.raises(StoreError, match="try again"):
        client.remove([item(7)])
    other.close()
    assert client.remove([item(7)]) == 0
    assert item(7).encode() not in raw(folder)


def test_also_while_another_process_syncs(client: Client, proxy: FakeProxy, world: World) -> None:
    """It waits for no sync, and no sync for it: from here on it is in nothing that is made."""

    def before(call: str) -> None:
        if call == "manifest":
            with world.open(client._folder) as other:
                assert other.remove([item(3), item(7)]) == 2

    proxy.before = before
    assert client.sync(proxy).outcome == "sent"
    assert client.touched() == [item(20)]


def test_the_catalogue_asks_nobody(client: Client, proxy: FakeProxy, world: World) -> None:
    with pytest.raises(StoreError, match="sync first"):
        client.catalogue()
    client.sync(proxy)
    proxy.calls.clear()
    assert client.catalogue() == world.catalogue.items
    assert proxy.calls == []
