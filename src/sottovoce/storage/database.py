"""One connection to one SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sottovoce.errors import StoreError
from sottovoce.storage.failures import store_errors
from sottovoce.storage.lock import make_private
from sottovoce.storage.pragmas import empty_log, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

Migrations = tuple[tuple[str, ...], ...]
"""The statements that take a file from each version to the next."""


class Database:
    """The file is made if it is not there. Threads share it only if `shared`, one at a time."""

    def __init__(
        self,
        path: Path,
        migrations: Migrations,
        pragmas: tuple[str, ...] = (),
        *,
        wait: float = 5.0,
        shared: bool = False,
    ):
        self.path = path
        self._migrations = migrations
        make_private(path)
        with store_errors(path):
            self.connection = sqlite3.connect(
                path, isolation_level=None, timeout=wait, check_same_thread=not shared
            )
        try:
            self._refuse_newer()
            with store_errors(path):
                prepare(self.connection, *pragmas, wait=wait)
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        """How many migrations it has; 0: nothing is in it."""
        return int(self.row("PRAGMA user_version")[0])

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Run one statement; all of its rows."""
        with store_errors(self.path):
            return self.connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: object) -> Any:
        """The first row, or None."""
        found = self.rows(statement, *values)
        return found[0] if found else None

    def add_all(self, statement: str, values: list[tuple[object, ...]]) -> None:
        """Run one statement for many values; in a transaction of the caller's."""
        with store_errors(self.path):
            self.connection.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it, on disk, when the block ends; none of it after an error.

        A writer takes its lock at once: one that first reads could not be sure to get it later.
        """
        with store_errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.commit()
            except BaseException:
                if self.connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read in the block is of one moment, whatever others write meanwhile."""
        with store_errors(self.path):
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    def commit(self) -> None:
        """Returns when it would survive a power cut."""
        self.connection.execute("COMMIT")

    def upgrade(self) -> None:
        """Bring an older file up to date, all the way or not at all."""
        if self.version < len(self._migrations):
            with self.transaction():
                self.migrate()

    def migrate(self) -> None:
        """The same in a transaction of the caller's."""
        for statements in self._migrations[self.version :]:
            for statement in statements:
                self.rows(statement)
        self.rows(f"PRAGMA user_version = {len(self._migrations)}")

    def scrub(self) -> None:
        """Nothing that was deleted is left in any file."""
        self.rows("VACUUM")  # rewrites the file without it
        self.empty_log()

    def empty_log(self) -> None:
        """What was deleted is gone from the log as well; fails while somebody reads."""
        with store_errors(self.path):
            emptied = empty_log(self.connection)
        if not emptied:
            raise StoreError(f"{self.path}: in use by a reader, so traces are left; try again")

    def close(self) -> None:
        self.connection.close()

    def _refuse_newer(self) -> None:
        if self.version > len(self._migrations):
            raise StoreError(
                f"{self.path}: version {self.version}, this program knows "
                f"{len(self._migrations)}; update sottovoce"
            )
