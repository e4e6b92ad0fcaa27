"""The store: short transactions over one schema, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from sottovoce.errors import StoreError
from sottovoce.server.store.engine import open_engine, store_errors
from sottovoce.server.store.schema import MIGRATIONS, migrate, schema_version
from sottovoce.server.store.transaction import Transaction
from sottovoce.storage import empty_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.server.store.schema import Migration


class ServerStore:
    """One database. Safe to use from many threads; any number of stores may share a database."""

    def __init__(self, url: str):
        self._engine = open_engine(url)

    def migrate(self, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Bring the schema up to date; workers that start at once do it one after the other."""
        with store_errors(), self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                migrate(connection, migrations)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with store_errors(), self._engine.connect() as connection, connection.begin():
            yield Transaction(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """All of it is durable when the block has ended, or nothing of it happened."""
        with store_errors(), self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield Transaction(connection)

    def scrub(self) -> bool:
        """Overwrite what deleted keys left behind; False if a reader is in the way: try again.

        SQLite zeroes deleted rows itself (`secure_delete`); the write-ahead log is emptied here.
        PostgreSQL rewrites the table of keys. Its own write-ahead log and archives of that keep the
        wrapped key for as long as they are kept: without the keys file it opens nothing.
        """
        with store_errors():
            if self._engine.dialect.name == "postgresql":
                autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
                with autocommit.connect() as connection:
                    connection.exec_driver_sql("VACUUM FULL epoch_keys")
                return True
            return self._empty_log()

    def _empty_log(self) -> bool:
        """Beside SQLAlchemy, which would begin a transaction first."""
        pooled = self._engine.raw_connection()
        try:
            return empty_log(cast("sqlite3.Connection", pooled.driver_connection))
        except sqlite3.Error as error:
            raise StoreError(f"the write-ahead log cannot be emptied: {error}") from error
        finally:
            pooled.close()

    def check(self) -> None:
        """Whether it can be written to now: something harmless is, or no full disk would show."""
        with store_errors(), self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                if self._engine.dialect.name == "sqlite":
                    # Writes its page in any case; a row that stays as it is would not be written.
                    connection.exec_driver_sql("PRAGMA user_version = 0")
                same = {"version": schema_version.c.version}
                connection.execute(schema_version.update().values(same))

    def close(self) -> None:
        self._engine.dispose()
