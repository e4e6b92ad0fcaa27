"""The server's database in SQLite or PostgreSQL, and its backup."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from sottovoce.errors import LostError, SettingsError, StoreError
from sottovoce.server.schema import check_version, create_tables, has_tables, schema_version
from sottovoce.server.transaction import Transaction
from sottovoce.storage.database import (
    FileIdentity,
    convert_sqlite_errors,
    create_private,
    empty_log,
    prepare,
)

# How long a writer waits for another one, with SQLite.
BUSY_TIMEOUT_SECONDS = 30
# How long to wait for a connection, with PostgreSQL.
CONNECT_TIMEOUT_SECONDS = 10
# Connections besides those that SQLAlchemy keeps open. There are more than the server has threads,
# so that no thread waits for a connection.
MAX_EXTRA_CONNECTIONS = 40
_CONNECTION_PRAGMAS = (
    "foreign_keys = ON",
    # Keep temporary data out of files, which would never be scrubbed.
    "temp_store = MEMORY",
)
# Cause of an error and what to do about it, by a part of the database's message.
_ADVICE_BY_MESSAGE = {
    "disk is full": "the disk is full: make room",
    "no space left": "the disk is full: make room",
    "readonly": "the database is read-only: mend the permissions, or write to the primary",
    "read-only": "the database is read-only: mend the permissions, or write to the primary",
    "locked": "another program holds the database: wait until it is done, or end that program",
    "foreign key": "rows that belong together are not all there: restore a backup",
    "unable to open": "the database cannot be opened: make its folder, or mend the permissions",
    "not a database": "this file is not a database, or is damaged: restore a backup",
    "malformed": "the database is damaged: restore a backup",
    "connection": "the database cannot be reached: make sure that it runs",
    "column": "the database is of another version: install the version of sottovoce that wrote it",
    "no such table": "the database is not set up: `sottovoce server init` does it",
    "does not exist": "the database is not set up, or has another name: `sottovoce server init`",
    "already exists": "the database has tables of another program: name an empty one",
}
# Parts of messages that mean that the data is lost.
_LOST_MESSAGES = ("not a database", "malformed")


def parse_database_url(text: str, base: Path) -> str:
    """Return a database URL with its driver, and with the full path of an SQLite file.

    Args:
        text: The URL in the settings.
        base: The folder to which the path of an SQLite file is relative.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        # The message does not quote the URL, which may contain a password.
        raise SettingsError(
            "database must be a URL such as sqlite:///server.sqlite or postgresql://user@host/name"
        ) from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    if url.drivername != "sqlite":
        raise SettingsError(f"database must be sqlite or postgresql, not {url.drivername!r:.80}")
    if not url.database or url.database == ":memory:":
        raise SettingsError("database: an SQLite database needs a file: sqlite:///server.sqlite")
    return url.set(database=str(base / url.database)).render_as_string()


def open_engine(url: str) -> Engine:
    """Return an engine for a database. It connects when it is first used."""
    common = {"hide_parameters": True, "max_overflow": MAX_EXTRA_CONNECTIONS}
    if not url.startswith("sqlite"):
        return create_engine(
            url,
            # The database may have been restarted since the last use of a connection.
            pool_pre_ping=True,
            # A statement must see what others committed while it waited for a lock.
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS},
            **common,
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}, **common)

    @event.listens_for(engine, "do_connect")
    def check_file(_: object, __: object, arguments: list[Any], ___: object) -> None:
        # SQLite would create a missing file.
        check_exists(Path(arguments[0]))

    @event.listens_for(engine, "connect")
    def prepare_connection(connection: Any, _: object) -> None:
        prepare(connection, *_CONNECTION_PRAGMAS, wait=BUSY_TIMEOUT_SECONDS)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: a transaction that has read may fail to get it later.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def check_exists(path: Path) -> None:
    """Raise a `SettingsError` if an SQLite database does not exist."""
    # With an empty database the server would begin another training.
    if not path.exists():
        raise SettingsError(
            f"{path}: no such database; mount its disk, or correct `database` in the settings. "
            "A new server begins with `sottovoce server init`"
        )


class ServerStore:
    """One database. Safe to use from many threads; any number of stores may share a database."""

    def __init__(self, url: str):
        self._engine = open_engine(url)
        self._path = Path(make_url(url).database or "") if url.startswith("sqlite") else None
        self._file = None if self._path is None else FileIdentity(self._path)
        self._where = f"{self._path or self._engine.url.render_as_string()}: "

    def create(self) -> None:
        """Create the tables, and the file of an SQLite database, unless they exist."""
        if self._path is not None:
            create_private(self._path)
        with self._begin(writes=True) as connection:
            create_tables(connection)

    def check_tables(self) -> None:
        """Check that a server of this version has its tables here.

        Raises:
            SettingsError: The database does not exist, or has no tables of a server.
            StoreError: The tables have another version.
        """
        with self._begin(writes=False) as connection:
            if not has_tables(connection):
                raise SettingsError(
                    f"{self._where}no sottovoce server has its tables here; correct `database` in "
                    "the settings. A new server begins with `sottovoce server init`"
                )
            check_version(connection)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Begin a transaction that only reads."""
        with self._begin(writes=False) as connection:
            yield Transaction(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Begin a transaction. It is committed when the block ends, or undone after an error."""
        with self._begin(writes=True) as connection:
            yield Transaction(connection)

    @contextmanager
    def _begin(self, *, writes: bool) -> Iterator[Connection]:
        if self._file is not None:
            self._file.check()
        with _convert_errors(self._where), self._engine.connect() as connection:
            connection.execution_options(writes=writes)
            with connection.begin():
                yield connection

    def scrub(self) -> bool:
        """Remove deleted keys from the database files; return False if a reader is in the way.

        SQLite overwrites deleted rows with zeros (`secure_delete`), and this method empties its
        write-ahead log. With PostgreSQL, this method rewrites the table of keys.

        Disk blocks that these files no longer use may still contain a wrapped key. PostgreSQL's
        write-ahead log and its archives contain it for as long as they exist. Without the keys
        file, a wrapped key opens nothing.
        """
        with _convert_errors(self._where):
            if self._engine.dialect.name == "postgresql":
                autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
                with autocommit.connect() as connection:
                    connection.exec_driver_sql("VACUUM FULL epoch_keys")
                return True
            # SQLAlchemy's own connection would begin a transaction first.
            with closing(self._engine.raw_connection()) as pooled:
                return empty_log(cast("sqlite3.Connection", pooled.driver_connection))

    def check_writable(self) -> None:
        """Raise a `StoreError` if nothing can be written, for example because the disk is full."""
        with self._begin(writes=True) as connection:
            check_version(connection)
            if self._engine.dialect.name == "sqlite":
                # This statement always writes a page, but SQLite writes no row that stays the same.
                connection.exec_driver_sql("PRAGMA user_version = 0")
            same = {"version": schema_version.c.version}
            connection.execute(schema_version.update().values(same))

    def get_free_bytes(self) -> int | None:
        """Return the free bytes on the disk of the file; None if the database is not a file."""
        return None if self._path is None else shutil.disk_usage(self._path.parent).free

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()
        if self._file is not None:
            self._file.forget()


def back_up(database: str, target: Path, *, with_key: bool = False) -> None:
    """Copy a server's SQLite database while the server runs, into a new private file.

    Args:
        database: URL of the database.
        target: The new file. It is created only if the whole backup succeeds.
        with_key: Whether to include the wrapped key of the current epoch. It then exists for as
            long as the backup.
    """
    url = make_url(database)
    if url.drivername != "sqlite":
        raise SettingsError(
            "this command is for SQLite. For PostgreSQL: pg_dump --format=custom "
            "--exclude-table-data=epoch_keys --file=FILE DATABASE"
        )
    source = Path(url.database or "")
    check_exists(source)
    if target.exists():
        raise SettingsError(
            f"{target}: this file exists already: name another one, or move it away"
        )
    # The copy gets its name when it is complete.
    unfinished = target.with_name(target.name + ".unfinished")
    with ExitStack() as undo, convert_sqlite_errors(unfinished):
        unfinished.unlink(missing_ok=True)
        create_private(unfinished)
        undo.callback(unfinished.unlink, missing_ok=True)
        source_url = f"{source.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(source_url, uri=True)) as original,
            closing(sqlite3.connect(unfinished, isolation_level=None)) as copy,
        ):
            # A plain copy of the file would miss what is still in the write-ahead log.
            original.backup(copy)
            # Store the copy in a single file, without a write-ahead log.
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.execute("PRAGMA secure_delete = ON")
            # The server deletes a key when the epoch is applied, but cannot delete it from backups.
            if not with_key:
                copy.execute("DELETE FROM epoch_keys")
            copy.execute("VACUUM")
        unfinished.rename(target)


@contextmanager
def _convert_errors(where: str) -> Iterator[None]:
    """Convert errors of the database to a `StoreError` without statements or parameters."""
    try:
        yield
    except DBAPIError as error:
        raise _explain(where, str(error.orig)) from error
    except SQLAlchemyError as error:
        raise StoreError(f"the database cannot be used: {type(error).__name__}") from error
    except sqlite3.Error as error:
        raise _explain(where, str(error)) from error


def _explain(where: str, message: str) -> StoreError:
    lowered = message.lower()
    cause = next(
        (text for sign, text in _ADVICE_BY_MESSAGE.items() if sign in lowered),
        "the database failed",
    )
    kind = LostError if any(sign in lowered for sign in _LOST_MESSAGES) else StoreError
    return kind(f"{where}{cause} ({message.splitlines()[0] if message else 'no more is known'})")
