"""A database, opened the way that the server relies on: SQLite or PostgreSQL, and a copy of it."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from math import nan
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from sottovoce.errors import LostError, SettingsError, StoreError
from sottovoce.server.schema import (
    MIGRATIONS,
    Migration,
    check_version,
    migrate,
    schema_version,
)
from sottovoce.server.transaction import Transaction
from sottovoce.storage.database import (
    FileIdentity,
    convert_sqlite_errors,
    create_private,
    empty_log,
    prepare,
)

BUSY_TIMEOUT_SECONDS = 30
"""How long a writer waits for another one, on SQLite."""
CONNECT_TIMEOUT_SECONDS = 10
MAX_EXTRA_CONNECTIONS = 40
"""More than there are threads that ask: none waits for a connection."""

_PRAGMAS = (
    "foreign_keys = ON",
    "temp_store = MEMORY",  # nothing spills into a file that nobody scrubs
)


def parse_database_url(given: str, base: Path) -> str:
    """In full: the driver named, the path of an SQLite file relative to `base`."""
    try:
        url = make_url(given)
    except (ArgumentError, ValueError) as error:
        # Not the URL itself: a password may stand in it.
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
    """Nothing is connected to before it is used."""
    common = {"hide_parameters": True, "max_overflow": MAX_EXTRA_CONNECTIONS}
    if not url.startswith("sqlite"):
        return create_engine(
            url,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS},
            **common,
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}, **common)
    event.listen(engine, "do_connect", _check_file)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _check_file(_: object, __: object, arguments: list[Any], ___: object) -> None:
    """Keep SQLite from creating the file."""
    check_exists(Path(arguments[0]))


def check_exists(path: Path) -> None:
    """Refuse an SQLite database that is not there: an empty one would begin another training."""
    if not path.exists():
        raise SettingsError(
            f"{path}: no such database; mount its disk, or correct `database` in the settings. "
            "A new server begins with `sottovoce server init`"
        )


def _prepare(connection: Any, _: object) -> None:
    prepare(connection, *_PRAGMAS, wait=BUSY_TIMEOUT_SECONDS)


def _begin(connection: Connection) -> None:
    """A writer takes the lock at once: one that first reads could not be sure to get it later."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class ServerStore:
    """One database. Safe to use from many threads; any number of stores may share a database."""

    def __init__(self, url: str):
        self._engine = open_engine(url)
        self._path = Path(make_url(url).database or "") if url.startswith("sqlite") else None
        self._file = None if self._path is None else FileIdentity(self._path)
        self._where = f"{self._path or self._engine.url.render_as_string()}: "

    def create(self) -> None:
        """Create the tables, and the file of an SQLite database, unless they are there."""
        if self._path is not None:
            create_private(self._path)
        with self._begun(writes=True) as connection:
            migrate(connection, MIGRATIONS)

    def migrate(self, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Bring the schema up to date; workers that start at once do it one after the other.

        Raises:
            SettingsError: The database is not there, or has no tables of ours.
        """
        with self._begun(writes=True) as connection:
            if not inspect(connection).has_table(schema_version.name):
                raise SettingsError(
                    f"{self._where}no sottovoce server has its tables here; correct `database` in "
                    "the settings. A new server begins with `sottovoce server init`"
                )
            migrate(connection, migrations)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._begun(writes=False) as connection:
            yield Transaction(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """All of it is durable when the block has ended, or nothing of it happened."""
        with self._begun(writes=True) as connection:
            yield Transaction(connection)

    @contextmanager
    def _begun(self, *, writes: bool) -> Iterator[Connection]:
        if self._file is not None:
            self._file.check()
        with _database_errors(self._where), self._engine.connect() as connection:
            connection.execution_options(writes=writes)
            with connection.begin():
                yield connection

    def scrub(self) -> bool:
        """Take deleted keys out of the files; False if a reader is in the way: try again.

        SQLite zeroes deleted rows itself (`secure_delete`); the write-ahead log is emptied here.
        PostgreSQL rewrites the table of keys. Blocks that these files give back may stay on the
        disk, with the wrapped key. PostgreSQL's own write-ahead log and archives of that keep the
        wrapped key for as long as they are kept: without the keys file it opens nothing.
        """
        with _database_errors(self._where):
            if self._engine.dialect.name == "postgresql":
                autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
                with autocommit.connect() as connection:
                    connection.exec_driver_sql("VACUUM FULL epoch_keys")
                return True
            # Not through SQLAlchemy, which would begin a transaction first.
            with closing(self._engine.raw_connection()) as pooled:
                return empty_log(cast("sqlite3.Connection", pooled.driver_connection))

    def check_writable(self) -> None:
        """Whether it can be written to now: something harmless is, or no full disk would show."""
        with self._begun(writes=True) as connection:
            check_version(connection)
            if self._engine.dialect.name == "sqlite":
                # Writes its page in any case; a row that stays as it is would not be written.
                connection.exec_driver_sql("PRAGMA user_version = 0")
            same = {"version": schema_version.c.version}
            connection.execute(schema_version.update().values(same))

    def get_free_bytes(self) -> float:
        """Where the file lies; NaN if the database is none."""
        return nan if self._path is None else float(shutil.disk_usage(self._path.parent).free)

    def close(self) -> None:
        self._engine.dispose()
        if self._file is not None:
            self._file.forget()


def back_up(database: str, target: Path, *, with_key: bool = False) -> None:
    """Copy a server's SQLite database while the server runs: a private file, whole or not there.

    A plain copy of the file would miss what is still in the write-ahead log; SQLite's own backup
    does not, and the workers go on meanwhile. An epoch's key is deleted when it is applied, which
    a backup would undo: so the copy has no keys, unless that is asked for.
    """
    url = make_url(database)
    if url.drivername != "sqlite":
        raise SettingsError(
            "this is for SQLite. For PostgreSQL: pg_dump --format=custom "
            "--exclude-table-data=epoch_keys --file=FILE DATABASE"
        )
    source = Path(url.database or "")
    check_exists(source)
    if target.exists():
        raise SettingsError(f"{target}: exists already: name another, or move it away")
    unfinished = target.with_name(target.name + ".unfinished")
    with ExitStack() as undo, convert_sqlite_errors(unfinished):
        unfinished.unlink(missing_ok=True)
        create_private(unfinished)
        undo.callback(unfinished.unlink, missing_ok=True)
        _copy(source, unfinished, with_key=with_key)
        unfinished.rename(target)


def _copy(source: Path, target: Path, *, with_key: bool) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as ours,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        ours.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        copy.execute("PRAGMA secure_delete = ON")
        if not with_key:
            copy.execute("DELETE FROM epoch_keys")
        copy.execute("VACUUM")


@contextmanager
def _database_errors(where: str) -> Iterator[None]:
    """Whatever the database says becomes a `StoreError` that says what to do; nothing leaks."""
    try:
        yield
    except DBAPIError as error:
        raise _explained(where, str(error.orig)) from error
    except SQLAlchemyError as error:
        raise StoreError(f"the database cannot be used: {type(error).__name__}") from error
    except sqlite3.Error as error:
        raise _explained(where, str(error)) from error


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
    "column": "the database is of another version: `sottovoce server run` brings it up to date",
    "no such table": "the database is not set up: `sottovoce server init` does it",
    "does not exist": "the database is not set up, or has another name: `sottovoce server init`",
    "already exists": "the database has tables of another program: name an empty one",
}


_LOST = ("not a database", "malformed")


def _explained(where: str, message: str) -> StoreError:
    lowered = message.lower()
    cause = next(
        (text for sign, text in _ADVICE_BY_MESSAGE.items() if sign in lowered),
        "the database failed",
    )
    kind = LostError if any(sign in lowered for sign in _LOST) else StoreError
    return kind(f"{where}{cause} ({message.splitlines()[0] if message else 'no more is known'})")
