"""A copy of a running server's database: whole, private, and without the key of the open epoch."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sottovoce.errors import SettingsError
from sottovoce.server import ServerStore
from sottovoce.server.store.backup import back_up

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
