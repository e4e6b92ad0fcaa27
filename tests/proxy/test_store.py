"""The database of a proxy: durable, private, for one process, with errors that say what to do."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.errors import SettingsError, StoreError, UnavailableError
from sottovoce.proxy import ProxyStore
from sottovoce.proxy.epoch_files import compute_place, name_batch_file
from sottovoce.proxy.store import DATABASE_FILE, count_waiting_batches
from sottovoce.storage.database import _ADVICE_BY_ERROR, Database
from tests.proxy.world import World, count_batches

COLUMNS = {
    "identity": ["name", "server"],
    "manifests": [
        *("epoch", "hash", "signed", "model", "catalogue", "model_patch", "catalogue_patch"),
    ],
    "shelves": ["place", "signed", "catalogue", "patch"],
    "token_keys": ["seed", "epoch", "issued"],
    "accounts": ["training", "pseudonym", "turns", "epoch", "blinded"],
    "files": ["sha256", "content"],
    "flushes": [
        *("epoch", "manifest_hash", "chunk_reports", "reports", "dummies", "delivered"),
        "settled",
    ],
}
SUFFIXES = ("", "-wal", "-shm")
BATCH_COLUMNS = {"batches": ["place", "id", "sealed"], "dummies": ["part", "sealed"]}
"""This lists all that is ever written: a new column must be added here."""


def test_databases_have_the_documented_columns_only(world: World) -> None:
    sent = world.send(5)
    for name, columns in ((DATABASE_FILE, COLUMNS), (name_batch_file(1), BATCH_COLUMNS)):
        with closing(sqlite3.connect(world.folder / name)) as db:
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            written = {
                table: [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                for (table,) in tables
            }
            assert written == columns
            if name != DATABASE_FILE:
                places = {place for (place,) in db.execute("SELECT rowid FROM batches")}
                assert places == {compute_place(batch) for batch in sent}
    databases = [
        f"{name}{suffix}" for name in (DATABASE_FILE, name_batch_file(1)) for suffix in SUFFIXES
    ]
    present = {path.name for path in world.folder.iterdir()}
    assert present == {*databases, "epoch-1-shuffled.bin", "proxy.lock"}


def test_only_its_owner_can_read_it(world: World) -> None:
    """Check the mode of the file. Other rules: `tests/storage/test_database.py`."""
    world.send(1)
    for path in (world.folder, *world.folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("how", ["no folder", "an empty folder"])
def test_a_path_without_a_database_is_refused_and_nothing_is_created(
    tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "proxy"
    if how == "an empty folder":
        folder.mkdir()
    with pytest.raises(StoreError, match="sottovoce proxy create-database"):
        ProxyStore.open(folder)
    assert not folder.exists() or not list(folder.iterdir())


def test_a_database_is_created_once_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = set()
    for number in range(2):
        folder = tmp_path / f"proxy-{number}"
        ProxyStore.create(folder)
        with pytest.raises(StoreError, match=DATABASE_FILE):
            ProxyStore.create(folder)
        for _ in range(2):
            with ProxyStore.open(folder) as store:
                names.add(store.name)
    assert len(names) == 2


def test_reader_cannot_write(world: World) -> None:
    world.send(1)
    with pytest.raises(StoreError) as caught, world.store.read() as tables:
        tables.settle(1)
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert caught.value.__cause__.sqlite_errorname == "SQLITE_READONLY"


def test_a_folder_has_one_proxy(world: World) -> None:
    with pytest.raises(StoreError, match=str(world.folder)):
        ProxyStore.open(world.folder)
    world.send(1)


def test_epoch_signed_by_another_key_is_not_served(world: World) -> None:
    # The operator pinned another key after the old one had signed it.
    world.settings = replace(world.settings, verification_key="00" * 32)
    with pytest.raises(SettingsError, match="verification_key"):
        world.reopen()


def fill_disk(world: World) -> None:
    for database in databases(world):
        (pages,) = database.row("PRAGMA page_count")
        database.rows(f"PRAGMA max_page_count = {pages + 3}")


def free_disk(world: World) -> None:
    for database in databases(world):
        database.rows("PRAGMA max_page_count = 1000000")


def read_only(world: World) -> None:
    for database in databases(world):
        database.rows("PRAGMA query_only = ON")


def make_writable(world: World) -> None:
    for database in databases(world):
        database.rows("PRAGMA query_only = OFF")


def databases(world: World) -> list[Database]:
    batches = world.store._files.batches
    assert batches is not None
    return [world.store._writer, batches._database]


def send_for_ever(world: World) -> None:
    while True:
        world.send(1)


@pytest.mark.parametrize(
    ("spoil", "mend", "advice"),
    [
        (fill_disk, free_disk, _ADVICE_BY_ERROR["SQLITE_FULL"]),
        (read_only, make_writable, _ADVICE_BY_ERROR["SQLITE_READONLY"]),
    ],
)
def test_disk_that_cannot_be_written(
    world: World,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[World], None],
    mend: Callable[[World], None],
    advice: str,
) -> None:
    """Acknowledge nothing, and log once that the problem begins and once that it ends."""
    spoil(world)
    with pytest.raises(StoreError, match=advice):
        send_for_ever(world)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            world.send(1)
        with pytest.raises(StoreError, match=advice):
            world.proxy.tick()
    with pytest.raises(UnavailableError):
        world.proxy.check_ready()
    assert sum(advice in message for message in caplog.messages) == 1
    mend(world)
    world.proxy.tick()
    world.proxy.check_ready()
    assert "can be written again" in caplog.text
    world.send(2)
    assert count_batches(world) == world.proxy.intake.n_waiting


def test_file_that_is_not_a_proxys_database_is_refused(tmp_path: Path) -> None:
    # It is empty, as after a kill while it was created, or of another program or version.
    (tmp_path / DATABASE_FILE).touch()
    for _ in range(2):
        with pytest.raises(StoreError, match="create-database"):
            ProxyStore.open(tmp_path)


def test_a_file_that_was_replaced_before_the_first_beat_is_noticed(world: World) -> None:
    assert world.store.find_lost_file() is None
    copy = world.folder / "copy"
    for name in (name_batch_file(1), DATABASE_FILE):
        path = world.folder / name
        shutil.copy(path, copy)
        copy.replace(path)
        assert name in (world.store.find_lost_file() or "")


@pytest.mark.parametrize("content", [None, b""])
def test_batches_are_counted_while_a_proxy_changes_its_files(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name_batch_file(1)).write_bytes(content)
    assert count_waiting_batches(tmp_path, 1) == 0
