"""The database: durable, private, one user, honest about what it cannot do."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace

import pytest

from sottovoce.errors import SettingsError, StoreError, UnavailableError
from sottovoce.proxy import ProxyStore
from sottovoce.proxy.store import NAME, place_of
from sottovoce.storage.database import _ADVICE
from tests.proxy.world import World

COLUMNS = {
    "batches": ["place", "id", "sealed"],
    "dummies": ["part", "sealed"],
    "manifests": ["epoch", "hash", "signed", "model", "catalogue"],
    "shelves": ["place", "signed", "catalogue"],
    "token_keys": ["seed", "epoch", "issued"],
    "accounts": ["training", "pseudonym", "turns", "epoch", "blinded"],
    "files": ["sha256", "content"],
    "flushes": ["epoch", "manifest_hash", "chunks", "reports", "delivered", "settled"],
    "chunks": ["epoch", "position", "sealed"],
}
"""All that is ever written: whoever adds a column must come past here."""


def test_what_is_written_and_nothing_else(world: World) -> None:
    db = sqlite3.connect(world.folder / NAME)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {n: [row[1] for row in db.execute(f"PRAGMA table_info({n})")] for n in names}
    assert found == COLUMNS
    sent = world.send(5)
    places = {place_of(batch) for batch in sent}
    assert {place for (place,) in db.execute("SELECT rowid FROM batches")} == places
    db.close()


def test_it_is_opened_as_all_are_with_pragmas_of_its_own_in_a_folder_of_its_own(
    world: World,
) -> None:
    """What every database has: `tests/storage/test_database.py`."""
    for connection in (world.store._writer, world.store._reader):
        found = [connection.row(f"PRAGMA {name}") for name in ("secure_delete", "auto_vacuum")]
        assert found == [(1,), (2,)]
        assert connection.row("PRAGMA temp_store") == (1,)
    assert world.folder.stat().st_mode & 0o077 == 0


def test_who_reads_cannot_write(world: World) -> None:
    world.send(1)
    with pytest.raises(StoreError) as caught, world.store.read() as tables:
        tables.delete_batches()
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert caught.value.__cause__.sqlite_errorname == "SQLITE_READONLY"


def test_a_folder_has_one_proxy(world: World) -> None:
    with pytest.raises(StoreError, match=str(world.folder)):
        ProxyStore.open(world.folder)
    world.send(1)


def test_an_epoch_under_another_key_is_not_served(world: World) -> None:
    """The operator pinned another key: what the old one signed is not handed on."""
    world.settings = replace(world.settings, verification_key="00" * 32)
    with pytest.raises(SettingsError, match="verification_key"):
        world.reopen()


def full(world: World) -> None:
    (pages,) = world.store._writer.row("PRAGMA page_count")
    world.store._writer.rows(f"PRAGMA max_page_count = {pages + 3}")


def roomy(world: World) -> None:
    world.store._writer.rows("PRAGMA max_page_count = 1000000")


def read_only(world: World) -> None:
    world.store._writer.rows("PRAGMA query_only = ON")


def writable(world: World) -> None:
    world.store._writer.rows("PRAGMA query_only = OFF")


def send_for_ever(world: World) -> None:
    while True:
        world.send(1)


@pytest.mark.parametrize(
    ("spoil", "mend", "advice"),
    [(full, roomy, _ADVICE["SQLITE_FULL"]), (read_only, writable, _ADVICE["SQLITE_READONLY"])],
)
def test_a_disk_that_takes_nothing(
    world: World,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[World], None],
    mend: Callable[[World], None],
    advice: str,
) -> None:
    """Nothing is acknowledged, nor paid for any more; the log says it once, and when it is over."""
    spoil(world)
    with pytest.raises(StoreError, match=advice):
        send_for_ever(world)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            world.send(1)
        with pytest.raises(StoreError, match=advice):
            world.proxy.tick()
    with pytest.raises(UnavailableError):
        world.proxy.check()
    assert sum(advice in message for message in caplog.messages) == 1
    mend(world)
    world.proxy.tick()
    world.proxy.check()
    assert "can be written again" in caplog.text
    world.send(2)
    with world.store.read() as tables:
        assert tables.count_batches() == world.proxy.intake.waiting
