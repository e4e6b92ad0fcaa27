"""The folder of a client: it is private, durable and checked; and the ledger in it."""

import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sottovoce.client import Client
from sottovoce.client.ledger_table import append_entry
from sottovoce.client.store import UnsentBatch
from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError, StoreError
from sottovoce.privacy import Charge, Ledger, Limit
from sottovoce.protocol.tokens import Token
from tests.client.world import (
    COST,
    DAY,
    EPSILON,
    REPORTS,
    FakeProxy,
    World,
    charges,
    pause_once_made,
    sha,
)

ENDS = ("", "-shm", "-wal")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_only_the_owner_can_read_any_file(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    databases = {f"client.{name}{end}" for name in ("db", "history.db") for end in ENDS}
    assert set(modes) == databases | {"client.lock", "client.sending.lock"}
    assert set(modes.values()) == {0o600}, modes


def test_sqlite_writes_no_temporary_files(client: Client) -> None:
    for database in (client._store._db, client._store.history._db):
        assert database.row("PRAGMA temp_store") == (2,)


# Creating and opening.
def test_a_folder_has_one_client(client: Client, world: World, folder: Path) -> None:
    with pytest.raises(StoreError, match=str(folder)):
        world.create(folder)
    assert client.get_status().interactions == 3


def test_folder_with_other_files_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    mode = tmp_path.stat().st_mode
    for place in (tmp_path, tmp_path / "letter.txt"):
        with pytest.raises(StoreError, match=r"letter\.txt"):
            world.create(place)
    assert tmp_path.stat().st_mode == mode


@pytest.mark.parametrize(
    "changes",
    [
        {"verification_key": b"short"},
        {"limit": -1.0},
        {"limit": float("nan")},
        {"proxy_url": "http://proxy.example"},
    ],
)
def test_invalid_arguments_are_refused_when_a_client_is_created(
    folder: Path, changes: dict[str, object]
) -> None:
    settings: dict[str, object] = {
        "proxy_url": "https://proxy.example",
        "verification_key": bytes(32),
        "limit": 5.0,
    }
    with pytest.raises(SettingsError):
        Client.create(folder, **{**settings, **changes})  # type: ignore[arg-type]
    assert not (folder / "client.db").exists()


def test_opening_a_missing_folder_creates_nothing(folder: Path) -> None:
    with pytest.raises(StoreError):
        Client.open(folder)
    assert not folder.exists()
    folder.mkdir()
    (folder / "client.db").touch()  # creating was cut short
    with pytest.raises(StoreError):
        Client.open(folder)


def test_damaged_file_is_fetched_again(client: Client, proxy: FakeProxy, world: World) -> None:
    client.sync(proxy)
    client._store._db.rows("UPDATE files SET content = zeroblob(9)")
    with pytest.raises(StoreError):
        client.recommend()
    client.sync(proxy)
    assert client.recommend()


# A disk that is full, or only for reading.
def test_full_disk_sends_nothing_that_was_not_recorded(tmp_path: Path) -> None:
    """Try every size at which the disk can be full: the error is ours, and nothing is damaged."""
    learnt: set[int | None] = set()
    for room in range(100):
        world = World(reports=300)  # a batch of several pages
        proxy, folder = FakeProxy(world), tmp_path / str(room)
        with world.create(folder, limit=1e4) as client:
            if not sync_with(room, client, proxy):
                break
            assert proxy.received == []
            learnt.add(client.get_status().epoch)
            assert client._store._db.rows("PRAGMA integrity_check") == [("ok",)]
            client._store._db.rows("PRAGMA max_page_count = 1000000")
            assert client.sync(proxy).outcome == "sent"
        assert [charge.purpose for charge in charges(folder)] == [sha(proxy.received[0])]
    assert learnt == {None, 1}  # full while learning, and full while keeping the batch


def sync_with(pages: int, client: Client, proxy: FakeProxy) -> bool:
    """Return whether the disk, with room for this many more pages, was full."""
    rows = client._store._db.rows
    rows(f"PRAGMA max_page_count = {rows('PRAGMA page_count')[0][0] + pages}")
    try:
        client.sync(proxy)
    except StoreError:
        return True
    return False


def read_tables(folder: Path) -> list[Any]:
    """Return the ledger and the outbox, read as anybody could."""
    with closing(sqlite3.connect(folder / "client.db")) as db:
        rows = db.execute("SELECT * FROM ledger ORDER BY record").fetchall()
        return rows + db.execute("SELECT * FROM outbox").fetchall()


def make_batch(epoch: int, epsilon: float = EPSILON, content: bytes = b"a batch") -> UnsentBatch:
    charge = Charge(bytes(16), epoch, sha(content), "loudest", epsilon, 1, 0.1, 9, 0)
    return UnsentBatch(charge, 0.0, 9 * DAY, batch=content)


def test_tables_refuse_a_second_batch_or_charge_of_an_epoch(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    # The tables themselves refuse it, if all code before them failed.
    client.sync(proxy)
    before = read_tables(folder)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"ledger\.epoch"):
            client._store.save_batch(make_batch(epoch=1), client._store.generation)
        assert read_tables(folder)[:2] == before[:2]
        client.forget()
    assert client.sync(proxy).outcome == "already charged"


def test_batch_that_differs_from_its_charge_is_not_sent(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.pause(on=False)
    client._store._db.rows("UPDATE outbox SET batch = zeroblob(264)")
    with pytest.raises(LedgerError, match=r"\b1\b"):
        client.sync(proxy)
    assert proxy.received == []
    proxy.next_epoch()
    synced = client.sync(proxy)
    assert (synced.outcome, synced.abandoned_epoch, synced.spent) == ("sent", 1, 2 * COST)


# The limit.
def test_reporting_stops_at_the_limit_until_it_is_raised(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, limit=COST + 1) as client:
        assert client.sync(proxy).outcome == "sent"
        proxy.next_epoch()
        for _ in range(2):
            synced = client.sync(proxy)
            assert (synced.outcome, synced.spent, synced.remaining) == ("limit reached", COST, 1.0)
        assert client.recommend(3)
        assert len(proxy.received) == len(charges(folder)) == 1
        for _ in range(2):
            client.set_limit(2 * COST)  # on the record once
        assert client.sync(proxy).outcome == "sent"
        contents = [entry.content for entry in client._store.read_ledger().entries]
        assert contents[::2] == [Limit(COST + 1), Limit(2 * COST)]
        before = read_tables(folder)
        late = make_batch(epoch=9, epsilon=1.0)  # the limit was lowered while it was made
        assert client._store.save_batch(late, client._store.generation) == "limit reached"
        assert read_tables(folder) == before


# A ledger that is not whole.
DAMAGES = {
    "an amount": "UPDATE ledger SET epsilon = epsilon - 0.5 WHERE record = 2",
    "the limit": "UPDATE ledger SET epsilon = 1e6 WHERE record = 1",
    "a hash": "UPDATE ledger SET hash = hash || '0' WHERE record = 3",
    "the last record": "DELETE FROM ledger WHERE record = 3",
    "a record between": "DELETE FROM ledger WHERE record = 2",
    "the first record": "DELETE FROM ledger WHERE record = 1",
    "all records": "DELETE FROM ledger",
    "a kind": "UPDATE ledger SET reports = NULL WHERE record = 2",
    "the order": "UPDATE ledger SET record = 9 WHERE record = 2",
    "one more record": "INSERT INTO ledger (record, epsilon, hash)"
    " SELECT 4, 99, hash FROM ledger WHERE record = 3",
    "a share": "UPDATE ledger SET loud_fraction = 0.01 WHERE record = 2",
    "the pinned end": "UPDATE settings SET head = (SELECT hash FROM ledger WHERE record = 2)",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_ledger_stops_only_reporting(
    client: Client, proxy: FakeProxy, world: World, folder: Path, damage: str
) -> None:
    client.sync(proxy)
    proxy.next_epoch()
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)  # one waits
    client.pause(on=False)
    client._store._db.rows("PRAGMA ignore_check_constraints = ON")  # as a failing disk does
    client._store._db.rows(damage)
    client._store._db.rows("PRAGMA ignore_check_constraints = OFF")
    before = read_tables(folder)
    with pytest.raises(LedgerError):
        client.sync(proxy)  # while the batch that waits is in time
    proxy.next_epoch()
    for attempt in (
        lambda: client.sync(proxy),
        lambda: client.set_limit(1e9),
        lambda: client._store.save_batch(make_batch(3), client._store.generation),
        lambda: client.compute_outlook(world.terms()),
    ):
        with pytest.raises(LedgerError):
            attempt()
    assert len(proxy.received) == 1
    assert read_tables(folder) == before
    status = client.get_status()
    assert (status.spent, status.remaining, status.limit, status.epoch) == (None, None, None, 3)
    assert status.problem
    assert client.recommend(1)
    client.forget()
    assert (client.get_status().interactions, client.get_status().spent) == (0, None)


def test_records_beyond_the_limit_are_refused_despite_valid_hashes(
    world: World, folder: Path
) -> None:
    # A charge beyond the limit of its time is damage, not the usual end at the limit.
    with world.create(folder, limit=5) as client:
        other = Ledger(5)
        other.set_limit(50)
        kind = (EPSILON, REPORTS, 0.1, 9, 0)
        entry = other.charge(Charge(bytes(16), 1, bytes(32), "loudest", *kind))
        store = client._store
        store._db.rows("DELETE FROM ledger")
        for stored in (Ledger(5).entries[0], entry):
            append_entry(store._db, stored)
        with pytest.raises(LedgerError) as caught:
            store.save_batch(make_batch(2), store.generation)
        assert type(caught.value) is LedgerError
        assert isinstance(caught.value.__cause__, BudgetExceededError)


def test_reader_sees_a_consistent_snapshot(client: Client, world: World, folder: Path) -> None:
    """Add a record in another process after every statement; the reader reports no damage."""
    with world.open(folder) as other:
        store, limit = other._store, [100.0]
        rows = store._db.rows

        def interrupted(statement: str, *values: object) -> list[Any]:
            result = rows(statement, *values)
            limit[0] += 1
            client.set_limit(limit[0])
            return result

        store._db.rows = interrupted  # type: ignore[method-assign]
        assert other.get_status().problem is None
    assert limit[0] > 101


def test_token_of_another_key_is_not_used(client: Client) -> None:
    # The proxy would refuse the batch after it was paid for.
    token = Token(bytes(range(16)), bytes(range(64)))
    client._store.save_token_decision(2, takes_part=True)
    client._store.save_token(2, sha(b"its key"), token)
    assert client._store.get_token(2, sha(b"its key")) == token
    assert client._store.get_token(2, sha(b"another key")) is None
    assert client._store.get_token(3, sha(b"its key")) is None
