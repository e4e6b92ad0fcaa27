"""The client's SQLite file: durable, private to its owner, and honest about what went wrong."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sottovoce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # a commit that returned survives a power cut
    "secure_delete = ON",  # what is deleted is overwritten
    "temp_store = MEMORY",  # nothing private in a folder for temporary files
    "trusted_schema = OFF",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE about (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            proxy_url TEXT NOT NULL,
            verification_key BLOB NOT NULL,
            paused INTEGER NOT NULL DEFAULT 0,
            head_records INTEGER NOT NULL,
            head_hash TEXT NOT NULL,
            epoch INTEGER,
            manifest_hash BLOB
        ) STRICT""",
        """CREATE TABLE terms (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            mechanism TEXT NOT NULL,
            epsilon REAL NOT NULL,
            reports INTEGER NOT NULL,
            least_clients INTEGER NOT NULL
        ) STRICT""",
        # The items and nothing else: no time, no count, and in the order of their names.
        "CREATE TABLE interactions (item TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
        """CREATE TABLE manifest (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            signed BLOB NOT NULL
        ) STRICT""",
        "CREATE TABLE files (sha256 BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT",
        """CREATE TABLE outbox (
            epoch INTEGER PRIMARY KEY,
            sha256 BLOB NOT NULL,
            mechanism TEXT NOT NULL,
            epsilon REAL NOT NULL,
            reports INTEGER NOT NULL,
            closes INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('stored', 'charged', 'sent', 'dropped')),
            batch BLOB,
            CHECK ((batch IS NULL) = (state IN ('sent', 'dropped')))
        ) STRICT""",
    ),
)
"""The statements of each version of the file; `PRAGMA user_version` counts those that it has."""


class Database:
    """One connection. Every failure of SQLite becomes a `StoreError` that names the file."""

    def __init__(self, path: Path):
        self.path = path
        with self._failing_closed():
            _make_private(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=5.0)
        try:
            with self._failing_closed():
                for pragma in _PRAGMAS:
                    self._connection.execute(f"PRAGMA {pragma}")
            self._refuse_newer()
        except BaseException:
            self._connection.close()
            raise

    @property
    def version(self) -> int:
        """How many migrations it has; 0: nothing is in it."""
        return int(self.rows("PRAGMA user_version")[0][0])

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Run one statement; all of its rows."""
        with self._failing_closed():
            return self._connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: object) -> Any:
        """The first row, or None."""
        found = self.rows(statement, *values)
        return found[0] if found else None

    def add_all(self, statement: str, values: list[tuple[object, ...]]) -> None:
        """Run one statement for many values; in a transaction of the caller's."""
        with self._failing_closed():
            self._connection.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing; on disk when it is over."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.commit()
        except BaseException:
            if self._connection.in_transaction:
                self.rows("ROLLBACK")
            raise

    def commit(self) -> None:
        """Returns when it would survive a power cut."""
        self.rows("COMMIT")

    def migrate(self) -> None:
        """Bring an older file up to date; in a transaction of the caller's."""
        for statements in MIGRATIONS[self.version :]:
            for statement in statements:
                self.rows(statement)
        self.rows(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def erase_traces(self) -> None:
        """Rewrite the file without what was deleted from it, and empty the log beside it."""
        self.rows("VACUUM")
        busy, _, _ = self.row("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreError(
                f"{self.path}: another process is reading, so traces are left; do it again"
            )

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _refuse_newer(self) -> None:
        if self.version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} is of version {self.version}, this program knows {len(MIGRATIONS)}: "
                "update sottovoce"
            )

    @contextmanager
    def _failing_closed(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: {error}; what it held before is unharmed") from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One sync at a time in a folder. SQLite's own lock: it ends with the process, however."""
    path = folder / "client.lock"
    try:
        _make_private(path)
        lock = sqlite3.connect(path, isolation_level=None, timeout=0.0)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}") from error
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreError(f"{folder}: another process is syncing; wait for its end") from error
        raise StoreError(f"{path}: {error}") from error
    try:
        yield
    finally:
        lock.close()


def _make_private(path: Path) -> None:
    """An empty file to begin with, so that SQLite never makes one that others can read.

    One that is there is not opened: closing it would end the locks that SQLite has on it, for all
    of this process.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
