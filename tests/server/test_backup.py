"""A copy of a running server's database: whole, private, and without the key of the open epoch."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from subprocess import run
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url

from sottovoce.errors import SettingsError
from sottovoce.server import ServerStore
from sottovoce.server.store import back_up
from tests.lacking import leave_out
from tests.server import postgres

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import MakeWorld
    from tests.server.world import World


@pytest.fixture
def world(make_world: MakeWorld, sqlite_url: str) -> World:
    """One epoch is over, another is closed with a chunk counted; all of it is in the log."""
    world = make_world(sqlite_url)
    signed = world.closed()
    world.apply(signed, world.chunk(signed, 10))
    world.send("east", world.chunk(world.closed(), 5))
    return world


@pytest.mark.parametrize("with_key", [False, True])
def test_all_that_was_committed_and_the_key_only_if_asked_for(
    tmp_path: Path, world: World, with_key: bool
) -> None:
    copy = tmp_path / "copy.sqlite"
    with world.store.write() as transaction:  # a worker is writing meanwhile
        wrapped = transaction.wrapped_key(2)
        back_up(world.settings.database, copy, with_key=with_key)
    assert wrapped is not None
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("copy.sqlite?*"))
    assert (wrapped in copy.read_bytes()) == with_key
    with closing(ServerStore(f"sqlite:///{copy}")) as store, store.read() as transaction:
        assert transaction.all_epochs() == world.server.epochs()
        assert (transaction.wrapped_key(2) == wrapped) == with_key
        assert len(transaction.chunk_names(2)) == 1


def test_nothing_is_overwritten_and_nothing_half_is_left(tmp_path: Path, world: World) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    with pytest.raises(SettingsError, match="nothing is overwritten"):
        back_up(world.settings.database, mine)
    assert mine.read_text() == "mine"
    with pytest.raises(SettingsError, match="no such database"):
        back_up(f"sqlite:///{tmp_path / 'missing.sqlite'}", tmp_path / "new")
    with pytest.raises(SettingsError, match=r"pg_dump .*--exclude-table-data=epoch_keys"):
        back_up("postgresql+psycopg://sottovoce@db.example/sottovoce", tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(Exception, match="epoch_keys"):
        back_up(f"sqlite:///{tmp_path / 'other.sqlite'}", tmp_path / "new")
    assert not list(tmp_path.glob("new*"))


def test_the_same_for_postgresql(
    tmp_path: Path, make_world: MakeWorld, postgres_server: str, postgres_url: str
) -> None:
    """With `pg_dump` as docs/operations.md has it, and put back into an empty schema."""
    programs = next((each for each in postgres.programs() if (each / "pg_dump").exists()), None)
    if programs is None:
        leave_out("pg_dump and pg_restore")
    world, dump = make_world(postgres_url), tmp_path / "monday.dump"
    signed = world.closed()
    world.apply(signed, world.chunk(signed, 10))
    before, url = world.server.epochs(), make_url(postgres_server)
    schema = str(make_url(postgres_url).query["options"]).rpartition("=")[2]
    where = ["--host", str(url.query["host"]), "--username", str(url.username)]
    kept = ["--format=custom", "--exclude-table-data=*.epoch_keys", f"--schema={schema}"]
    name = str(url.database)
    run([programs / "pg_dump", *where, *kept, f"--file={dump}", name], check=True)
    with world.store.write() as transaction:
        assert transaction.wrapped_key(2) is not None
        transaction._connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    run([programs / "pg_restore", *where, f"--dbname={name}", dump], check=True)
    with closing(ServerStore(postgres_url)) as store, store.read() as transaction:
        assert transaction.all_epochs() == before
        assert transaction.wrapped_key(2) is None
