"""The store: databases that are full, damaged, missing or copied."""

import sqlite3
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from subprocess import run
from typing import Any

import anyio
import numpy as np
import pytest
from sqlalchemy import event, inspect, make_url, text

from sottovoce.core import count_reports, sum_signs
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol import Chunk, SignedManifest
from sottovoce.protocol.contact import CROWD_ENOUGH, CROWD_NONE
from sottovoce.server import ServerStore, build_app
from sottovoce.server.schema import epoch_keys
from sottovoce.server.store import _ADVICE_BY_MESSAGE, back_up, parse_database_url
from sottovoce.training import NameCounts, Settings
from tests.asgi import ask
from tests.crash import Life, PowerCut, make_server_mortal
from tests.lacking import leave_out
from tests.sampling import choose
from tests.server import postgres
from tests.server.world import (
    ITEMS,
    NAMING,
    TRAINING,
    MakeWorld,
    NewUrl,
    World,
    make_auth_headers,
    seal,
    split_chunks,
)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE schema_version (version INTEGER)", "INSERT INTO schema_version VALUES (9)"],
        ["CREATE TABLE schema_version (version INTEGER)"],
        ["CREATE TABLE files (name INTEGER)"],
    ],
    ids=["another version", "no version", "another program"],
)
def test_an_unknown_database_is_refused_and_not_changed(url: str, statements: list[str]) -> None:
    store = ServerStore(url)
    if store._path is not None:
        store._path.touch()
    with store._engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    before = inspect(store._engine).get_table_names()
    for change in (store.create, store.check_tables):
        with pytest.raises((StoreError, SettingsError)):
            change()
    assert inspect(store._engine).get_table_names() == before
    store.close()


def make_full(store: ServerStore, pages: int) -> None:
    """Limit the database to this number of further pages."""

    def limit(connection: Any, _: object) -> None:
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={used + pages}")

    store.close()
    event.listen(store._engine, "connect", limit)


async def put(app: Any, chunk: Chunk) -> int:
    path = f"/v2/epochs/{chunk.epoch}/chunks/{chunk.name}"
    return (await ask(app, "PUT", path, chunk.encode(), make_auth_headers("east"))).status


@pytest.mark.parametrize("pages", [0, 1])
def test_a_full_disk_counts_a_chunk_or_nothing(
    make_world: MakeWorld, sqlite_url: str, pages: int
) -> None:
    world = make_world(sqlite_url)
    signed = world.close_epoch()
    reports = world.draw_reports(2200)
    # Its keys need some pages.
    chunk = world.make_chunk(signed, reports)
    full = world.add_worker()
    make_full(full.store, pages)
    app = build_app(full.server, full.settings)
    with pytest.raises(StoreError, match=_ADVICE_BY_MESSAGE["disk is full"]):
        full.send("east", chunk)
    assert anyio.run(put, app, chunk) == 503
    assert world.get_counts(1) == (0, 0, 0, 0)
    assert not world.get_sums(1).any()
    assert world.send("east", chunk) is True
    assert np.array_equal(world.get_sums(1), sum_signs(reports, world.n_directions))


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////nowhere/at/all/server.sqlite",
        "postgresql+psycopg://postgres@/postgres?host=/nowhere/at/all",
    ],
)
def test_a_database_that_cannot_be_reached_is_a_store_error(url: str) -> None:
    store = ServerStore(url)
    with pytest.raises(StoreError, match="/nowhere/at/all"):
        store.create()
    store.close()


def test_a_server_never_begins_with_an_empty_database(
    make_world: MakeWorld, new_url: NewUrl
) -> None:
    # A path may be misspelt, or its disk not mounted. Another training would begin there.
    world, empty = make_world(new_url()), new_url()
    world.server.tick()
    worker = world.add_worker(database=empty)
    path = worker.store._path
    for check in (worker.server.tick, worker.store.check_tables):
        with pytest.raises(SettingsError, match=r"/\w.*`sottovoce server init`"):
            check()
    assert path is None or not path.exists()
    if path is not None:
        path.touch()
        with pytest.raises(SettingsError, match=f"{path}.*`sottovoce server init`"):
            worker.server.tick()
    worker.store.create()
    # A power cut ended `init` before it had begun the service.
    with pytest.raises(StoreError, match="`sottovoce server init`"):
        worker.server.tick()


def test_database_urls_are_completed_or_refused(tmp_path: Path) -> None:
    assert parse_database_url("sqlite:///a.db", tmp_path) == f"sqlite:///{tmp_path / 'a.db'}"
    assert parse_database_url("sqlite:////a.db", tmp_path) == "sqlite:////a.db"
    full = "postgresql+psycopg://me:word@host/name"
    assert parse_database_url("postgresql://me:word@host/name", tmp_path) == full
    assert parse_database_url(full, tmp_path) == full
    for wrong in ("mysql://host/name", "sqlite://", "sqlite:///:memory:", "a file", "", "x://:y/"):
        with pytest.raises(SettingsError, match="database"):
            parse_database_url(wrong, tmp_path)


def run_first_epoch(world: World, sent: list[tuple[SignedManifest, list[Chunk]]]) -> None:
    """Run the first epoch with proxies that repeat what they have sent."""
    world.server.tick()
    if not sent:
        signed = world.get_signed()
        sent.append((signed, split_chunks(seal(world.draw_reports(40), signed), signed, 25)))
    signed, chunks = sent[0]
    world.now = signed.manifest.closes
    world.report_crowds(signed, east=CROWD_ENOUGH, west=CROWD_NONE)
    if world.get_signed().manifest.epoch == 1:
        world.apply(signed, *chunks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("training", "times_by_day"), [(TRAINING, 1), (NAMING, 5)], ids=["taste", "names"]
)
def test_a_crash_at_any_commit_counts_everything_once(
    make_world: MakeWorld, new_url: NewUrl, training: Settings, times_by_day: int
) -> None:
    url = new_url()
    # Both databases have the same commits. An odd distance has moments before and after them.
    if url.startswith("sqlite"):
        distance = choose(by_day=3 * times_by_day, at_night=1)
    else:
        distance = choose(by_day=7 * times_by_day, at_night=3)
    for steps in count(step=distance):
        world, life = make_world(new_url(), training=training), Life(steps)
        sent: list[tuple[SignedManifest, list[Chunk]]] = []
        make_server_mortal(world.store, life.step)
        with suppress(PowerCut):
            run_first_epoch(world, sent)
        world.store.close()
        again = world.add_worker()
        run_first_epoch(again, sent)
        assert again.get_counts(1) == (2, 40, 0, 0), steps
        mechanism = again.get_signed().manifest.build()
        counts = count_reports(again.draw_reports(40), again.n_directions)
        assert np.array_equal(again.get_sums(1), mechanism.to_sums(counts))
        if training is NAMING:
            names = NameCounts.make_empty(ITEMS).add_epoch(mechanism, counts, 40, fade=0.5)
            with again.store.read() as transaction:
                assert np.array_equal(transaction.get_name_counts(2), names.table), steps
        states = [(e.epoch, e.state, e.epochs_done) for e in again.server.list_epochs()]
        assert states == [(1, "applied", 0), (2, "open", 1)], steps
        assert again.get_signed().manifest.reports_behind == 40
        if life.left >= 0:
            break
    assert steps > 28, "moments before or after a commit"


@pytest.fixture
def filled(make_world: MakeWorld, sqlite_url: str) -> World:
    """Return a worker with an applied epoch, and a closed one with a chunk."""
    world = make_world(sqlite_url)
    signed = world.close_epoch()
    world.apply(signed, world.make_chunk(signed, 10))
    world.send("east", world.make_chunk(world.close_epoch(), 5))
    return world


@pytest.mark.parametrize("with_key", [False, True])
def test_a_backup_has_all_commits_and_the_key_only_if_asked_for(
    tmp_path: Path, filled: World, with_key: bool
) -> None:
    copy = tmp_path / "copy.sqlite"
    # A worker is writing meanwhile.
    with filled.store.write() as transaction:
        wrapped = transaction.find_wrapped_key(2)
        back_up(filled.settings.database, copy, with_key=with_key)
    assert wrapped is not None
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("copy.sqlite?*"))
    assert (wrapped in copy.read_bytes()) == with_key
    with closing(ServerStore(f"sqlite:///{copy}")) as store, store.read() as transaction:
        assert transaction.list_epochs() == filled.server.list_epochs()
        assert (transaction.find_wrapped_key(2) == wrapped) == with_key
        assert len(transaction.list_chunk_names(2)) == 1


def test_a_backup_that_fails_leaves_no_file_and_overwrites_none(
    tmp_path: Path, filled: World
) -> None:
    existing = tmp_path / "existing"
    existing.write_text("content")
    with pytest.raises(SettingsError, match=str(existing)):
        back_up(filled.settings.database, existing)
    assert existing.read_text() == "content"
    with pytest.raises(SettingsError, match=r"missing\.sqlite"):
        back_up(f"sqlite:///{tmp_path / 'missing.sqlite'}", tmp_path / "new")
    with pytest.raises(SettingsError, match=r"pg_dump .*--exclude-table-data=epoch_keys"):
        back_up("postgresql+psycopg://sottovoce@db.example/sottovoce", tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="epoch_keys"):
        back_up(f"sqlite:///{tmp_path / 'other.sqlite'}", tmp_path / "new")
    assert not list(tmp_path.glob("new*"))


def test_postgresql_rewrites_the_table_of_keys(make_world: MakeWorld, postgres_url: str) -> None:
    # A plain VACUUM leaves the bytes of deleted rows in the file.
    world, key = make_world(postgres_url), b"a key that is destroyed" * 2
    world.server.tick()
    numbers = range(100, 104)
    with world.store.write() as transaction:
        for number in numbers:
            transaction._insert(epoch_keys, epoch=number, wrapped=key)
    with world.store.write() as transaction:
        transaction._connection.execute(epoch_keys.delete().where(epoch_keys.c.epoch >= numbers[0]))

    def has_key() -> bool:
        with world.store.write() as transaction:
            connection = transaction._connection
            connection.exec_driver_sql("CHECKPOINT")
            read = "SELECT pg_read_binary_file(pg_relation_filepath('epoch_keys'))"
            return key in bytes(connection.exec_driver_sql(read).scalar_one())

    assert has_key()
    world.store.scrub()
    assert not has_key()


def test_pg_dump_makes_a_backup_without_the_key(
    tmp_path: Path, make_world: MakeWorld, postgres_server: str, postgres_url: str
) -> None:
    # The options are those of docs/operators.md. The copy is restored into an empty schema.
    folders = [folder for folder in postgres.find_programs() if (folder / "pg_dump").exists()]
    if not folders:
        leave_out("pg_dump and pg_restore")
    programs, world = folders[0], make_world(postgres_url)
    dump = tmp_path / "monday.dump"
    signed = world.close_epoch()
    world.apply(signed, world.make_chunk(signed, 10))
    before, url = world.server.list_epochs(), make_url(postgres_server)
    schema = str(make_url(postgres_url).query["options"]).rpartition("=")[2]
    options = ["--host", str(url.query["host"]), "--username", str(url.username)]
    dump_options = ["--format=custom", "--exclude-table-data=*.epoch_keys", f"--schema={schema}"]
    name = str(url.database)
    run([programs / "pg_dump", *options, *dump_options, f"--file={dump}", name], check=True)
    with world.store.write() as transaction:
        assert transaction.find_wrapped_key(2) is not None
        transaction._connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    run([programs / "pg_restore", *options, f"--dbname={name}", dump], check=True)
    with closing(ServerStore(postgres_url)) as store, store.read() as transaction:
        assert transaction.list_epochs() == before
        assert transaction.find_wrapped_key(2) is None
