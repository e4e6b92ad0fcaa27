"""What was spent: charged in one step with the batch, within the limit, never forgotten."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.client.store import ClientStore, Waiting, append_entry
from sottovoce.errors import LedgerError, StoreError
from sottovoce.privacy import Charge, Entry, Ledger, Limit
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

if TYPE_CHECKING:
    from sottovoce.client import Client


def table(folder: Path) -> list[Any]:
    """The ledger and the outbox, read as anybody could."""
    with closing(sqlite3.connect(folder / "client.db")) as db:
        rows = db.execute("SELECT * FROM ledger ORDER BY record").fetchall()
        return rows + db.execute("SELECT * FROM outbox").fetchall()


def waiting(epoch: int, epsilon: float = EPSILON, content: bytes = b"a batch") -> Waiting:
    charge = Charge(bytes(16), epoch, sha(content), "loudest", epsilon, 1, 0.1, 9)
    return Waiting(charge, 0.0, 9 * DAY, batch=content)


# Batch and charge.


def test_batch_and_charge_are_on_disk_before_the_pause(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    def look(_: float) -> None:
        assert proxy.received == []
        with world.open(folder) as other:
            status = other.status()
        if proxy.calls.count("manifest") == 2:  # the second pause, after the batch was made
            assert (status.batches, status.spent) == ({"charged": 1}, COST)
            looked.append(charges(folder)[0].purpose)

    looked: list[bytes] = []
    client.sync(proxy, sleep=look, jitter=600)
    assert set(looked) == {sha(proxy.received[0])}


@pytest.mark.parametrize("table_name", ["ledger", "outbox"])
def test_a_batch_is_kept_with_its_charge_or_not_at_all(
    client: Client, proxy: FakeProxy, folder: Path, table_name: str
) -> None:
    """Whichever of the two cannot be written, the other is not."""
    before = table(folder)
    refuse = f"BEFORE INSERT ON {table_name} BEGIN SELECT RAISE(ABORT, 'no room'); END"
    client._store._db.rows(f"CREATE TRIGGER full {refuse}")
    with pytest.raises(StoreError, match="no room"):
        client.sync(proxy)
    assert (table(folder), proxy.received) == (before, [])
    client._store._db.rows("DROP TRIGGER full")
    assert client.sync(proxy).outcome == "sent"


def test_an_epoch_never_gets_a_second_batch_or_charge(
    client: Client, proxy: FakeProxy, folder: Path
) -> None:
    """The last line of defence: the tables themselves refuse it, whatever a caller tries."""
    client.sync(proxy)
    before = table(folder)
    for _ in range(2):
        with pytest.raises(StoreError, match="UNIQUE"):
            client._store.keep(waiting(epoch=1), client._store.generation)
        assert table(folder)[:2] == before[:2]
        client.forget()
    assert client.sync(proxy).outcome == "already charged"


def test_a_batch_that_is_not_the_one_charged_is_not_sent(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.pause(on=False)
    client._store._db.rows("UPDATE outbox SET batch = zeroblob(264)")
    with pytest.raises(LedgerError, match="not the one that was charged"):
        client.sync(proxy)
    assert proxy.received == []
    proxy.next_epoch()
    synced = client.sync(proxy)
    assert (synced.outcome, synced.lost, synced.spent) == ("sent", 1, 2 * COST)


# The limit.


def test_at_the_limit_reporting_stops_and_recommending_goes_on(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, limit=COST + 1) as client:
        assert client.sync(proxy).outcome == "sent"
        proxy.next_epoch()
        for _ in range(2):
            synced = client.sync(proxy)
            assert (synced.outcome, synced.spent, synced.remaining) == ("limit reached", COST, 1.0)
        assert client.status().batches == {"sent": 1}
        assert client.recommend(3)
    assert len(proxy.received) == len(charges(folder)) == 1


def test_another_limit_lets_it_report_and_is_on_the_record(
    world: World, proxy: FakeProxy, folder: Path
) -> None:
    with world.create(folder, limit=0) as client:
        assert client.sync(proxy).outcome == "limit reached"
        client.set_limit(COST)
        assert client.sync(proxy).outcome == "sent"
        limits = [entry.what for entry in client._store.ledger().entries[:2]]
        assert limits == [Limit(0), Limit(COST)]
        client.set_limit(COST)
        assert len(client._store.ledger().entries) == 3


def test_the_limit_is_exact(world: World, folder: Path) -> None:
    """Ten times the float 0.1 is more than 1.0, though a sum of floats would say less."""
    with world.create(folder, limit=1.0) as client:
        store = client._store
        kept = [store.keep(waiting(n, 0.1, bytes([n])), store.generation) for n in range(10)]
        assert kept == ["kept"] * 9 + ["limit reached"]
        status = client.status()
        assert (status.spent, status.remaining) == (0.9000000000000001, 0.09999999999999995)
        client.set_limit(math.nextafter(1.0, 2))
        assert store.keep(waiting(10, 0.1, b"ten"), store.generation) == "kept"


# A ledger that is not whole.

DAMAGES = {
    "an amount": "UPDATE ledger SET epsilon = epsilon - 0.5 WHERE record = 2",
    "a number of reports": "UPDATE ledger SET reports = 1 WHERE record = 3",
    "an epoch": "UPDATE ledger SET epoch = 77 WHERE record = 2",
    "a training": "UPDATE ledger SET training = zeroblob(16) WHERE record = 2",
    "a mechanism": "UPDATE ledger SET mechanism = 'x' WHERE record = 2",
    "no mechanism": "UPDATE ledger SET mechanism = '' WHERE record = 2",
    "a batch": "UPDATE ledger SET purpose = zeroblob(32) WHERE record = 2",
    "a short name": "UPDATE ledger SET purpose = zeroblob(5) WHERE record = 2",
    "the limit": "UPDATE ledger SET epsilon = 1e6 WHERE record = 1",
    "a limit too low": "UPDATE ledger SET epsilon = 1 WHERE record = 1",
    "a hash": "UPDATE ledger SET hash = hash || '0' WHERE record = 3",
    "the last record": "DELETE FROM ledger WHERE record = 3",
    "a record between": "DELETE FROM ledger WHERE record = 2",
    "the first record": "DELETE FROM ledger WHERE record = 1",
    "all charges": "DELETE FROM ledger WHERE record > 1",
    "all records": "DELETE FROM ledger",
    "a kind": "UPDATE ledger SET reports = NULL WHERE record = 2",
    "another kind": "UPDATE ledger SET purpose = NULL WHERE record = 2",
    "the order": "UPDATE ledger SET record = 9 WHERE record = 2",
    "the numbers": "UPDATE ledger SET record = record + 10",
    "one more record": "INSERT INTO ledger (record, epsilon, hash)"
    " SELECT 4, 99, hash FROM ledger WHERE record = 3",
    "a crowd": "UPDATE ledger SET clients = 1000000 WHERE record = 2",
    "a share": "UPDATE ledger SET loud_fraction = 0.01 WHERE record = 2",
    "the pinned end": "UPDATE about SET head = (SELECT hash FROM ledger WHERE record = 2)",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_ledger_stops_reporting_and_nothing_else(
    client: Client, proxy: FakeProxy, world: World, folder: Path, damage: str
) -> None:
    client.sync(proxy)
    proxy.next_epoch()
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)  # one waits
    client.pause(on=False)
    client._store._db.rows("PRAGMA ignore_check_constraints = ON")  # as a failing disk does
    client._store._db.rows(damage)
    client._store._db.rows("PRAGMA ignore_check_constraints = OFF")
    before = table(folder)
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        client.sync(proxy)  # while the batch that waits is in time
    proxy.next_epoch()
    for attempt in (lambda: client.sync(proxy), lambda: client.set_limit(1e9)):
        with pytest.raises(LedgerError, match="the ledger is damaged"):
            attempt()
    with pytest.raises(LedgerError, match="the ledger is damaged"):
        client._store.keep(waiting(3), client._store.generation)
    assert len(proxy.received) == 1
    assert table(folder) == before
    status = client.status()
    assert (status.spent, status.remaining, status.limit, status.epoch) == (None, None, None, 3)
    assert "the ledger is damaged" in str(status.problem)
    assert client.recommend(1)


def test_records_that_break_the_rules_are_refused_though_their_hashes_hold(
    world: World, folder: Path
) -> None:
    """Beyond the limit of its time: damage, not the limit's plain end."""
    with world.create(folder, limit=5) as client:
        other = Ledger(5)
        other.set_limit(50)
        entry = other.charge(Charge(bytes(16), 1, bytes(32), "loudest", EPSILON, REPORTS, 0.1, 9))
        store = client._store
        store._db.rows("DELETE FROM ledger")
        for each in (Ledger(5).entries[0], entry):
            append_entry(store._db, each)
        with pytest.raises(LedgerError, match=r"is damaged.*beyond the lifetime limit"):
            store.keep(waiting(2), store.generation)


def test_a_reader_sees_one_moment(client: Client, world: World, folder: Path) -> None:
    """Another process adds a record after every statement of ours; none is taken for damage."""
    with world.open(folder) as other:
        store, limit = other._store, [100.0]
        rows = store._db.rows

        def interrupted(statement: str, *values: object) -> list[Any]:
            found = rows(statement, *values)
            limit[0] += 1
            client.set_limit(limit[0])
            return found

        store._db.rows = interrupted  # type: ignore[method-assign]
        assert other.status().problem is None
    assert limit[0] > 101


def test_each_record_is_proved_once(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved: list[object] = []
    add = Ledger.add

    def noted(ledger: Ledger, what: Charge | Limit) -> Entry:
        proved.append(what)
        return add(ledger, what)

    monkeypatch.setattr(Ledger, "add", noted)
    with world.create(folder, limit=50) as client, world.open(folder) as other:
        for limit in (60, 70, 80):
            client.set_limit(limit)
        proved.clear()
        assert other.status().limit == 80
        assert len(proved) == 3
        other.status()
        assert len(proved) == 3
        client.set_limit(90)
        proved.clear()
        assert other.status().limit == 90
        assert len(proved) == 1


def test_what_was_rolled_back_was_never_spent(world: World, folder: Path) -> None:
    with world.create(folder, limit=50) as client:
        store = client._store
        with suppress(ZeroDivisionError), store._db.transaction():
            append_entry(store._db, store.ledger().charge(waiting(1).charge))
            assert store.ledger().spent > 0
            raise ZeroDivisionError
        assert store.ledger().spent == 0
        assert store.keep(waiting(1), store.generation) == "kept"
        assert len(store.ledger().entries) == 2


@settings(max_examples=30)
@given(
    st.lists(
        st.floats(0, 1e300).map(Limit)
        | st.builds(
            Charge,
            st.binary(min_size=16, max_size=16),
            st.integers(0, 2**53 - 1),
            st.binary(min_size=32, max_size=32),
            st.sampled_from(["loudest", "m" * 32]),
            st.floats(0, 1e200, exclude_min=True),
            st.integers(1, 2**53 - 1),
            st.floats(0, 0.5, exclude_min=True),
            st.integers(1, 2**53 - 1),
        ),
        max_size=6,
        unique_by=lambda what: (what.epoch, what.purpose) if isinstance(what, Charge) else id(what),
    )
)
def test_whatever_was_recorded_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, records: list[Charge | Limit]
) -> None:
    folder = tmp_path_factory.mktemp("client")
    about: dict[str, Any] = {"proxy_url": "", "verification_key": bytes(32)}
    store, ledger = ClientStore.create(folder, limit=1.7e308, **about), Ledger(1.7e308)
    epochs = set()
    for what in records:
        if isinstance(what, Charge) and (what.epoch in epochs or what.cost > ledger.remaining):
            continue
        epochs.add(what.epoch if isinstance(what, Charge) else None)
        append_entry(store._db, ledger.add(what))
    assert store.ledger().entries == ledger.entries
    store.close()


# Forgetting, and what cannot be seen.


def test_forgetting_keeps_what_was_spent_and_which_epochs_were_used(
    client: Client, proxy: FakeProxy, world: World, folder: Path
) -> None:
    client.sync(proxy)
    client.forget()
    synced = client.sync(proxy)
    assert (synced.outcome, synced.spent) == ("already charged", COST)
    assert "forgotten since" in synced.sentence
    proxy.next_epoch()
    client.sync(proxy, sleep=pause_once_made(client), jitter=60)
    client.forget()  # the batch that waits goes, its charge does not
    client.pause(on=False)
    assert client.sync(proxy).outcome == "already charged"
    proxy.next_epoch()
    assert client.sync(proxy).outcome == "sent"
    assert [charge.epoch for charge in charges(folder)] == [1, 2, 3]
    assert len(proxy.received) == 2


def test_a_damaged_ledger_can_be_forgotten_around(client: Client, proxy: FakeProxy) -> None:
    client.sync(proxy)
    client._store._db.rows(DAMAGES["the limit"])
    client.forget()
    status = client.status()
    assert (status.interactions, status.spent) == (0, None)


def test_a_database_set_back_as_a_whole_is_consistent_and_not_noticed(
    world: World, proxy: FakeProxy, folder: Path, tmp_path: Path
) -> None:
    """What the documentation says it cannot see; batch and charge go back together."""
    world.create(folder).close()
    (tmp_path / "copy").write_bytes((folder / "client.db").read_bytes())
    with world.open(folder) as client:
        client.sync(proxy)
    (folder / "client.db").write_bytes((tmp_path / "copy").read_bytes())
    with world.open(folder) as client:
        assert (client.status().spent, client.status().problem) == (0.0, None)
        assert client.status().batches == {}
