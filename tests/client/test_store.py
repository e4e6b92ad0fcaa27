"""The folder: private, durable, refused when it is not what it must be, and forgettable."""

from __future__ import annotations

import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from sottovoce.client import Client
from sottovoce.errors import SettingsError, StoreError
from tests.client.world import COST, FakeProxy, World, charges, item, pause_once_made, sha

ENDS = ("", "-shm", "-wal")


def raw(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_everything_is_the_owners_alone(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    databases = {f"client.{name}{end}" for name in ("db", "history.db") for end in ENDS}
    assert set(modes) == databases | {"client.lock", "client.sending.lock"}
    assert set(modes.values()) == {0o600}, modes


def test_nothing_private_goes_into_a_temporary_file(client: Client) -> None:
    for database in (client._store._db, client._store.history._db):
        assert database.row("PRAGMA temp_store") == (2,)


def test_an_item_and_its_place_in_the_order_are_kept_and_no_time(client: Client) -> None:
    def kept() -> list[tuple[str, int]]:
        return client._store.history._db.rows("SELECT * FROM interactions")

    assert kept() == [(item(3), 1), (item(7), 1), (item(20), 1)]
    assert client.record([item(20), item(4)]) == 1
    assert kept() == [(item(3), 1), (item(4), 2), (item(7), 1), (item(20), 2)]


def test_no_trace_of_earlier_moments_is_left_after_forgetting(client: Client) -> None:
    for _ in range(5):
        client.record([item(9)])
    client.forget()
    client.record([item(2)])
    assert client._store.history.touched() == {item(2): 1}


# Creating and opening.


def test_a_folder_has_one_client(client: Client, world: World, folder: Path) -> None:
    with pytest.raises(StoreError, match="already"):
        world.create(folder)
    assert client.status().interactions == 3


def test_a_client_needs_a_folder_of_its_own(world: World, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    mode = tmp_path.stat().st_mode
    with pytest.raises(StoreError, match=r"letter\.txt"):
        world.create(tmp_path)
    assert tmp_path.stat().st_mode == mode
    with pytest.raises(StoreError):
        world.create(tmp_path / "letter.txt")


@pytest.mark.parametrize(
    "changes",
    [
        {"verification_key": b"short"},
        {"limit": -1.0},
        {"limit": float("nan")},
        {"proxy_url": "http://proxy.example"},
    ],
)
def test_what_cannot_work_is_refused_at_the_start(folder: Path, changes: dict[str, object]) -> None:
    settings: dict[str, object] = {
        "proxy_url": "https://proxy.example",
        "verification_key": bytes(32),
        "limit": 5.0,
    }
    with pytest.raises(SettingsError):
        Client.create(folder, **{**settings, **changes})  # type: ignore[arg-type]
    assert not (folder / "client.db").exists()


def test_opening_what_is_not_there_makes_nothing(folder: Path) -> None:
    with pytest.raises(StoreError, match="no client"):
        Client.open(folder)
    assert not folder.exists()


def test_creating_that_was_cut_short_says_so(folder: Path) -> None:
    folder.mkdir()
    (folder / "client.db").touch()
    with pytest.raises(StoreError, match="begin it again"):
        Client.open(folder)


def test_a_spoilt_file_is_fetched_again(client: Client, proxy: FakeProxy, world: World) -> None:
    client.sync(proxy)
    client._store._db.rows("UPDATE files SET content = zeroblob(9)")
    with pytest.raises(StoreError, match="sync first"):
        client.recommend()
    client.sync(proxy)
    assert client.recommend()


# A disk that is full, or only for reading.


def test_a_full_disk_sends_nothing_it_could_not_note(tmp_path: Path) -> None:
    """Every size at which the disk can be full: an error of ours, and no damage."""
    learnt: set[int | None] = set()
    for room in range(100):
        world = World(reports=300)  # a batch of several pages
        proxy, folder = FakeProxy(world), tmp_path / str(room)
        with world.create(folder, limit=1e4) as client:
            if not sync_with(room, client, proxy):
                break
            assert proxy.received == []
            learnt.add(client.status().epoch)
            assert client._store._db.rows("PRAGMA integrity_check") == [("ok",)]
            client._store._db.rows("PRAGMA max_page_count = 1000000")
            assert client.sync(proxy).outcome == "sent"
        assert [charge.purpose for charge in charges(folder)] == [sha(proxy.received[0])]
    assert learnt == {None, 1}  # full while learning, and full while keeping the batch


def sync_with(pages: int, client: Client, proxy: FakeProxy) -> bool:
    """Whether the disk, with room for so many more pages, was full."""
    rows = client._store._db.rows
    rows(f"PRAGMA max_page_count = {rows('PRAGMA page_count')[0][0] + pages}")
    try:
        client.sync(proxy)
    except StoreError:
        return True
    return False


def test_a_database_only_for_reading_sends_nothing(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    proxy.next_epoch()
    databases = client._store._db, client._store.history._db
    for database in databases:
        database.rows("PRAGMA query_only = ON")
    for attempt in (
        lambda: client.sync(proxy),
        lambda: client.record([item(9)]),
        lambda: client.pause(),
        lambda: client.forget(),
    ):
        with pytest.raises(StoreError, match="readonly"):
            attempt()
    assert len(proxy.received) == 1
    assert len(charges(folder)) == 1
    assert client.recommend(1)
    for database in databases:
        database.rows("PRAGMA query_only = OFF")
    assert client.sync(proxy).outcome == "sent"


def test_a_folder_that_went_away_is_an_error_of_ours(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder) as client:
        folder.rename(folder.with_name("moved"))
        with pytest.raises(StoreError):
            client.sync(proxy)
    assert proxy.calls == []


# Forgetting.


def test_forgetting_leaves_no_trace_of_an_item(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.record([f"a-very-private-thing-{n}" for n in range(2000)])
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    waiting = client._store.waiting()
    assert waiting is not None
    model = world.files[proxy.signed.manifest.model]
    before = raw(folder)
    traces = [b"a-very-private", b"secret-item", b"Title 4", waiting.batch[56:100], model[200:260]]
    assert all(trace in before for trace in traces)
    client.forget()
    after = raw(folder)
    assert not any(trace in after for trace in traces)
    client.close()
    assert not any(trace in raw(folder) for trace in traces)
    with world.create(folder.with_name("new")):
        pass
    for name in ("client.db", "client.history.db"):  # nor of how much there was
        new = (folder.with_name("new") / name).stat().st_size
        assert (folder / name).stat().st_size == new


def test_what_was_spent_stays_spent_and_what_was_agreed_stays_agreed(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    client.pause()
    client.forget()
    status = client.status()
    assert (status.interactions, status.batches, status.epoch) == (0, {}, 1)
    assert (status.spent, status.paused) == (COST, True)
    assert status.terms == world.terms()
    with pytest.raises(StoreError, match="sync first"):
        client.recommend()
    client.pause(on=False)
    assert client.sync(proxy).outcome == "already charged"
    assert client.recommend(1)
    assert len(proxy.received) == len(charges(folder)) == 1


@pytest.mark.parametrize(
    ("name", "table"), [("client.db", "ledger"), ("client.history.db", "interactions")]
)
def test_forgetting_says_when_another_reader_keeps_traces(
    client: Client, folder: Path, name: str, table: str
) -> None:
    other = sqlite3.connect(folder / name, isolation_level=None)
    other.execute("BEGIN")
    other.execute(f"SELECT count(*) FROM {table}").fetchall()
    for database in (client._store._db, client._store.history._db):
        database.rows("PRAGMA busy_timeout = 1")
    with pytest.raises(StoreError):
        client.forget()
    other.close()
    client.forget()
    assert b"secret-item" not in raw(folder)


# Status.


def test_status_before_and_after_a_sync(client: Client, proxy: FakeProxy, world: World) -> None:
    client.record(["unheard of", item(3)])
    before = client.status()
    assert (before.epoch, before.epochs, before.known) == (None, 0, 0)
    assert (before.spent, before.remaining, before.limit) == (0.0, 100.0, 100.0)
    client.sync(proxy)
    after = client.status()
    assert (after.interactions, after.known, after.unknown) == (4, 3, ("unheard of",))
    assert (after.epoch, after.epochs, after.terms) == (1, 1, world.terms())
    assert (after.spent, after.problem, after.proxy_url) == (COST, None, "https://proxy.example")
