"""SQLite files: private, durable, of one version, and errors that say what to do."""

import sqlite3
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.errors import StoreError
from sottovoce.storage.database import (
    _ADVICE_BY_ERROR,
    SCHEMA_VERSION,
    Database,
    exclusive_lock,
)

TABLES = ("CREATE TABLE things (name TEXT PRIMARY KEY) STRICT",)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def open_database(path: Path) -> Database:
    return Database(path, TABLES)


def read_names(path: Path) -> list[str]:
    """Return the names that another connection sees."""
    with closing(sqlite3.connect(path)) as other:
        return [name for (name,) in other.execute("SELECT name FROM things ORDER BY name")]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_only_the_owner_can_read_a_database(path: Path) -> None:
    with closing(open_database(path)):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("a.db", "a.db-shm", "a.db-wal"), 0o600)


@pytest.mark.parametrize(
    ("pragma", "value"),
    [("journal_mode", "wal"), ("synchronous", 2), ("secure_delete", 1), ("trusted_schema", 0)],
)
def test_every_connection_sets_the_pragmas(path: Path, pragma: str, value: object) -> None:
    with closing(open_database(path)) as database:
        assert database.row(f"PRAGMA {pragma}") == (value,)


# Transactions.


def add_and_fail(database: Database, error: type[BaseException]) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO things VALUES ('a')")
        if error is StoreError:
            connection.execute("INSERT INTO things VALUES ('a')")
        raise error


@pytest.mark.parametrize("error", [StoreError, ValueError, KeyboardInterrupt])
def test_error_rolls_a_transaction_back(path: Path, error: type[BaseException]) -> None:
    with closing(open_database(path)) as database:
        with pytest.raises(error, match="things" if error is StoreError else None):
            add_and_fail(database, error)
        with database.transaction():
            database.rows("INSERT INTO things VALUES ('c')")
        assert read_names(path) == ["c"]


def test_transaction_locks_before_it_reads(path: Path) -> None:
    """Check that nobody can write between its reading and its writing."""
    with (
        closing(open_database(path)) as one,
        closing(Database(path, TABLES, wait=0.01)) as other,
    ):
        with one.transaction():
            one.rows("SELECT * FROM things")
            with pytest.raises(StoreError), other.transaction():
                pytest.fail("nobody else is let in")
        with other.transaction():
            pass


# Versions.


def test_tables_are_created_once_and_keep_their_rows(path: Path) -> None:
    with closing(open_database(path)) as database:
        database.rows("INSERT INTO things VALUES ('a')")
    open_database(path).close()
    assert read_names(path) == ["a"]


def test_failed_creation_changes_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match="nonsense"):
        Database(path, (*TABLES, "nonsense"))
    with closing(Database(path, (), create=False)) as database:
        assert database.version == 0
        assert database.rows("SELECT name FROM sqlite_schema") == []


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, -1])
def test_file_of_unknown_version_is_refused_unchanged(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreError):
        open_database(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_many_connections_open_a_new_file_at_once(path: Path) -> None:
    def work(_: int) -> int:
        with closing(open_database(path)) as database:
            return database.version

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [SCHEMA_VERSION] * 8


# Failures.


def fill(database: Database) -> None:
    database.rows("PRAGMA max_page_count = 1")
    database.add_all("INSERT INTO things VALUES (?)", [(f"{n:099d}",) for n in range(999)])


def freeze(database: Database) -> None:
    database.rows("PRAGMA query_only = ON")
    with database.transaction():
        database.rows("INSERT INTO things VALUES ('a')")


@pytest.mark.parametrize(("work", "code"), [(fill, "SQLITE_FULL"), (freeze, "SQLITE_READONLY")])
def test_error_advises_what_to_do_about_the_disk(
    path: Path, work: Callable[[Database], None], code: str
) -> None:
    with closing(open_database(path)) as database:
        with pytest.raises(StoreError, match=rf"a\.db.*; {_ADVICE_BY_ERROR[code]}$"):
            work(database)
        assert database.rows("SELECT count(*) FROM sqlite_schema") == [(2,)]


# What was deleted.


def test_scrub_removes_deleted_data(path: Path) -> None:
    with closing(open_database(path)) as database:
        database.rows("INSERT INTO things VALUES ('a secret')")
        database.rows("DELETE FROM things")
        assert b"a secret" in read_disk(path)
        database.empty_log()
        assert b"a secret" not in read_disk(path)


def test_scrub_fails_while_another_connection_reads(path: Path) -> None:
    with closing(open_database(path)) as database, closing(sqlite3.connect(path)) as reader:
        database.rows("INSERT INTO things VALUES ('a')")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM things").fetchall()
        database.rows("DELETE FROM things")
        database.rows("PRAGMA busy_timeout = 1")
        with pytest.raises(StoreError):
            database.empty_log()
        reader.rollback()
        database.empty_log()


def read_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def is_free(path: Path) -> bool:
    try:
        with exclusive_lock(path, "somebody is here"):
            return True
    except StoreError as error:
        return str(error) != f"{path.parent}: somebody is here"


def test_lock_is_held_during_the_block(path: Path) -> None:
    with exclusive_lock(path, "taken"):
        assert not is_free(path)
        assert not is_free(path)  # having asked lets nothing go
    assert is_free(path)
    with pytest.raises(ZeroDivisionError), exclusive_lock(path, "taken"):
        raise ZeroDivisionError
    assert is_free(path)
