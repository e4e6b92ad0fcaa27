"""The store: migrations, and what happens when a database cannot do what it should."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest
from sqlalchemy import Connection, event, inspect, make_url, text

from sottovoce.core import sum_signs
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol.batch import ENOUGH, NONE
from sottovoce.server import ServerStore, build_app
from sottovoce.server.store import Epoch, database_url
from sottovoce.server.store.schema import MIGRATIONS, epochs
from tests.asgi import ask
from tests.crash import Life, PowerCut, make_server_mortal
from tests.server.world import World, bearer, chunk_of, chunks_of, sealed

if TYPE_CHECKING:
    from sottovoce.protocol import Chunk, SignedManifest
    from tests.server.conftest import MakeWorld, NewUrl


def add_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE epochs ADD COLUMN remark TEXT"))


def version(store: ServerStore) -> int:
    with store._engine.connect() as connection:
        return int(connection.execute(text("SELECT version FROM schema_version")).scalar_one())


def test_rows_and_columns_agree() -> None:
    assert [column.name for column in epochs.columns] == [field.name for field in fields(Epoch)]


def test_migrations_run_once_and_keep_what_is_there(world: World) -> None:
    world.server.tick()
    before = world.server.epochs()
    longer = [*MIGRATIONS, add_column]
    world.store.migrate()
    assert version(world.store) == len(MIGRATIONS)
    world.store.migrate(longer)
    world.store.migrate(longer)
    assert version(world.store) == len(longer)
    columns = {column["name"] for column in inspect(world.store._engine).get_columns("epochs")}
    assert "remark" in columns
    assert world.server.epochs() == before
    older = world.another()
    with pytest.raises(StoreError):
        older.server.tick()
    older.close()


def test_a_migration_that_fails_leaves_everything_as_it_was(url: str) -> None:
    def fail(connection: Connection) -> None:
        add_column(connection)
        raise RuntimeError

    store = ServerStore(url)
    store.migrate()
    with pytest.raises(RuntimeError):
        store.migrate([*MIGRATIONS, fail])
    assert version(store) == len(MIGRATIONS)
    columns = {column["name"] for column in inspect(store._engine).get_columns("epochs")}
    assert "remark" not in columns
    store.close()


def test_workers_that_start_at_once_migrate_once(new_url: NewUrl) -> None:
    for _ in range(10):
        url = new_url()
        stores = [ServerStore(url) for _ in range(6)]
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(ServerStore.migrate, stores))
        assert version(stores[0]) == len(MIGRATIONS)
        for store in stores:
            store.close()


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE schema_version (version INTEGER)", "INSERT INTO schema_version VALUES (9)"],
        ["CREATE TABLE schema_version (version INTEGER)"],
        ["CREATE TABLE files (name INTEGER)"],
    ],
    ids=["a newer one", "of no version", "of another program"],
)
def test_an_unknown_database_is_refused_and_left_alone(url: str, statements: list[str]) -> None:
    store = ServerStore(url)
    with store._engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    before = inspect(store._engine).get_table_names()
    with pytest.raises(StoreError):
        store.migrate()
    assert inspect(store._engine).get_table_names() == before
    store.close()


def make_full(store: ServerStore, pages: int) -> None:
    """As if the disk had room for no more pages than now."""

    def limit(connection: Any, _: object) -> None:
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={used + pages}")

    store.close()
    event.listen(store._engine, "connect", limit)


async def put(app: Any, chunk: Chunk) -> int:
    path = f"/v2/epochs/{chunk.epoch}/chunks/{chunk.name}"
    return (await ask(app, "PUT", path, chunk.encode(), bearer("east"))).status


@pytest.mark.parametrize("pages", [0, 1])
def test_a_full_disk_counts_nothing_by_halves(
    make_world: MakeWorld, sqlite_url: str, pages: int
) -> None:
    world = make_world(sqlite_url)
    signed = world.closed()
    reports = world.reports(2200)
    chunk = chunk_of(sealed(reports, signed), signed)  # its keys need some pages
    full = world.another()
    make_full(full.store, pages)
    app = build_app(full.server, full.settings)
    with pytest.raises(StoreError, match="the disk is full: make room"):
        full.send("east", chunk)
    assert anyio.run(put, app, chunk) == 503
    assert world.counts(1) == (0, 0, 0, 0)
    assert not world.sums(1).any()
    assert world.send("east", chunk) is True
    assert np.array_equal(world.sums(1), sum_signs(reports, world.n_directions()))


def read_only(url: str) -> str:
    found = make_url(url)
    if found.drivername == "sqlite":
        return f"sqlite:///file:{found.database}?mode=ro&uri=true"
    options = f"{found.query['options']} -c default_transaction_read_only=on"
    return found.update_query_dict({"options": options}).render_as_string()


def test_a_read_only_database_counts_nothing(world: World) -> None:
    signed = world.closed()
    chunk = world.chunk(signed, 10)
    frozen = world.another(database=read_only(world.settings.database))
    app = build_app(frozen.server, frozen.settings)
    with pytest.raises(StoreError, match="read-only"):
        frozen.send("east", chunk)
    with pytest.raises(StoreError, match="read-only"):
        frozen.server.check()
    assert anyio.run(put, app, chunk) == 503
    assert frozen.signed() == world.signed(), "what was published is still served"
    assert world.counts(1) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////nowhere/at/all/server.sqlite",
        "postgresql+psycopg://postgres@/postgres?host=/nowhere/at/all",
    ],
)
def test_a_database_that_cannot_be_reached_is_a_store_error(url: str) -> None:
    store = ServerStore(url)
    with pytest.raises(StoreError, match=r"cannot be reached|No such file or directory; make"):
        store.migrate()
    store.close()


def test_a_file_that_is_no_database_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "server.sqlite"
    path.write_bytes(b"not a database, " * 100)
    store = ServerStore(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="not a database"):
        store.migrate()
    store.close()


def test_urls(tmp_path: Path) -> None:
    assert database_url("sqlite:///a.db", tmp_path) == f"sqlite:///{tmp_path / 'a.db'}"
    assert database_url("sqlite:////a.db", tmp_path) == "sqlite:////a.db"
    full = "postgresql+psycopg://me:word@host/name"
    assert database_url("postgresql://me:word@host/name", tmp_path) == full
    assert database_url(full, tmp_path) == full
    for wrong in ("mysql://host/name", "sqlite://", "sqlite:///:memory:", "a file", "", "x://:y/"):
        with pytest.raises(SettingsError, match="database"):
            database_url(wrong, tmp_path)


def journey(world: World, made: list[tuple[SignedManifest, list[Chunk]]]) -> None:
    """One epoch, begun, filled, committed and applied, by parties that repeat everything."""
    world.server.tick()
    if not made:
        signed = world.signed()
        made.append((signed, chunks_of(sealed(world.reports(40), signed), signed, 25)))
    signed, chunks = made[0]
    world.now = signed.manifest.closes
    world.tell(signed, east=ENOUGH, west=NONE)
    if world.signed().manifest.epoch == 1:
        world.apply(signed, *chunks)


@pytest.mark.slow
def test_a_crash_at_any_commit_counts_everything_once(
    make_world: MakeWorld, new_url: NewUrl
) -> None:
    for steps in count():
        world, life = make_world(new_url()), Life(steps)
        made: list[tuple[SignedManifest, list[Chunk]]] = []
        make_server_mortal(world.store, life.step)
        with suppress(PowerCut):
            journey(world, made)
        world.store.close()
        again = world.another()
        journey(again, made)
        assert again.counts(1) == (2, 40, 0, 0), steps
        assert np.array_equal(again.sums(1), sum_signs(again.reports(40), again.n_directions()))
        states = [(e.epoch, e.state, e.epochs_done) for e in again.server.epochs()]
        assert states == [(1, "applied", 0), (2, "open", 1)], steps
        assert again.signed().manifest.reports_behind == 40
        if life.left >= 0:
            break
    assert steps > 28, "so many times before or after a commit"
