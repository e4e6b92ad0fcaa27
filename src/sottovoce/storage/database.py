"""Connections to SQLite files: opening, locking, tables, and errors."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sottovoce.errors import LostError, StoreError, get_reason

# `PRAGMA user_version` of all databases. Increase it when a table of any database changes.
SCHEMA_VERSION = 2
CONNECTION_PRAGMAS = (
    # A commit that has returned survives a power cut.
    "synchronous = FULL",
    # Deleted rows are overwritten with zeros in the file. When SQLite moves rows between pages it
    # may leave copies, which only `Database.scrub` removes.
    "secure_delete = ON",
    # A manipulated file cannot call functions of this program.
    "trusted_schema = OFF",
)
_MAKE_WRITABLE = "make the file and its folder writable"
# What to do about an error of SQLite whose name begins with the key.
_ADVICE_BY_ERROR = {
    "SQLITE_FULL": "make room on the disk",
    "SQLITE_READONLY": _MAKE_WRITABLE,
    "SQLITE_CANTOPEN": _MAKE_WRITABLE,
    "SQLITE_BUSY": "another program holds it: wait until it is done, or end that program",
    "SQLITE_CORRUPT": "the file is damaged: restore it, or move it away and begin with a new one",
    "SQLITE_NOTADB": "this is not a database: restore it, or move it away and begin with a new one",
    "SQLITE_IOERR": "make sure of the disk",
}
# Names of errors after which the data is lost.
_LOST_ERRORS = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def check_schema_version(version: int, name: object) -> None:
    """Raise a `StoreError` unless the version is `SCHEMA_VERSION`, or 0 (a new database).

    Args:
        version: `PRAGMA user_version` of the database.
        name: What the error names, such as the path.
    """
    if version not in (0, SCHEMA_VERSION):
        raise StoreError(
            f"{name}: schema version {version}, this program knows {SCHEMA_VERSION}; "
            "install the version of sottovoce that wrote it, or a later one"
        )


class Database:
    """A connection to an SQLite file, which is created if it does not exist.

    Args:
        path: The file.
        tables: The statements that create the tables.
        pragmas: Pragmas for this database, which are set before those of all databases.
        wait: Seconds to wait for the lock of another connection.
        shared: Whether several threads may use the connection. They must take turns.
        create: Whether to create the tables now if the file is new.
        stays: Whether to refuse to write after the file was removed or replaced.
    """

    def __init__(
        self,
        path: Path,
        tables: Sequence[str],
        pragmas: Sequence[str] = (),
        *,
        wait: float = 5.0,
        shared: bool = False,
        create: bool = True,
        stays: bool = False,
    ):
        self.path = path
        self._tables = tables
        self._file_identity = FileIdentity(path) if stays else None
        create_private(path)
        with convert_sqlite_errors(path):
            self.connection = sqlite3.connect(path, timeout=wait, check_same_thread=not shared)
        try:
            # Refuse an unknown version before anything in the file is changed.
            check_schema_version(self.version, path)
            with convert_sqlite_errors(path):
                prepare(self.connection, *pragmas, wait=wait)
            self.check_file()
            if create and not self.version:
                with self.transaction():
                    self.create_tables()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        return int(self.row("PRAGMA user_version")[0])

    def rows(self, statement: str, *values: object) -> list[Any]:
        with convert_sqlite_errors(self.path):
            return self.connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: object) -> Any:
        rows = self.rows(statement, *values)
        return rows[0] if rows else None

    def add_all(self, statement: str, values: list[tuple[object, ...]]) -> None:
        """Run a statement for each row of values, within the caller's transaction."""
        with convert_sqlite_errors(self.path):
            self.connection.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the changes of the block when it ends; roll back after an error."""
        with convert_sqlite_errors(self.path):
            # Take the write lock now: a transaction that has begun by reading may not get it later.
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                self.check_file()
                yield self.connection
                self.commit()
            except BaseException:
                if self.connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")
                raise

    def check_file(self) -> None:
        """Raise a `LostError` if the file was removed or replaced. Without `stays`, do nothing."""
        if self._file_identity is not None:
            self._file_identity.check()

    def write(self, statement: str, *values: object) -> None:
        with self.transaction():
            self.rows(statement, *values)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the block read one state of the database, even if others write in the meantime."""
        with convert_sqlite_errors(self.path):
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    def commit(self) -> None:
        """Commit the transaction. Its data survives a power cut when this returns."""
        self.connection.execute("COMMIT")

    def create_tables(self) -> None:
        """Create the tables if the file has none, within the caller's transaction."""
        # Another connection may have created the tables since this one was opened.
        if self.version:
            return
        for statement in self._tables:
            self.rows(statement)
        self.rows(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def scrub(self) -> None:
        """Remove deleted data from the file and its log. Freed blocks of the disk may keep it."""
        self.rows("VACUUM")
        self.empty_log()

    def empty_log(self) -> None:
        """Remove deleted data from the log.

        Raises:
            StoreError: The log cannot be emptied because another connection is reading.
        """
        with convert_sqlite_errors(self.path):
            is_empty = empty_log(self.connection)
        if not is_empty:
            raise StoreError(f"{self.path}: in use by a reader, so traces are left; try again")

    def close(self) -> None:
        self.connection.close()


def prepare(connection: sqlite3.Connection, *pragmas: str, wait: float = 5.0) -> None:
    """Set up a connection: set `pragmas`, enable the write-ahead log, set `CONNECTION_PRAGMAS`.

    Args:
        connection: The connection.
        pragmas: Pragmas for this database only.
        wait: Seconds to wait for the lock of another connection.
    """
    # Keep Python from beginning transactions by itself.
    connection.isolation_level = None
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")
    _enable_log(connection, wait)
    for pragma in CONNECTION_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _enable_log(connection: sqlite3.Connection, wait: float) -> None:
    """Switch to a write-ahead log, so that readers and a writer do not wait for each other."""
    # Only the first connection to a new file changes the mode. SQLite does not wait for a lock
    # then, so retry.
    deadline = time.monotonic() + wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def empty_log(connection: sqlite3.Connection) -> bool:
    """Empty the write-ahead log; return False if a reader prevents it."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


@contextmanager
def exclusive_lock(path: Path, message: str, *, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock during the block. It is also released if the process ends.

    Args:
        path: The file of the lock, which stays empty.
        message: Text of the error if the lock is held already.
        wait: Seconds to wait for the lock.

    Raises:
        StoreError: The lock is held by another process, or elsewhere in this one.
    """
    # The lock is one of SQLite, which works on every system, and also within a process.
    create_private(path)
    with convert_sqlite_errors(path):
        lock = sqlite3.connect(path, isolation_level=None, timeout=wait, check_same_thread=False)
    with closing(lock):
        with convert_sqlite_errors(path):
            try:
                lock.execute("PRAGMA journal_mode = MEMORY")
                lock.execute("BEGIN EXCLUSIVE")
                # On a file that cannot be written, BEGIN EXCLUSIVE succeeds without a lock, but
                # this statement fails. It is never committed.
                lock.execute("PRAGMA user_version = 1")
            except sqlite3.Error as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise StoreError(f"{path.parent}: {message}") from error
                raise
        yield


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists.

    SQLite itself would create a file that others can read. SQLite gives the log of a database the
    same mode as the database.
    """
    try:
        # Do not open an existing file: closing it would release the locks that SQLite holds on it
        # in this process.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: {get_reason(error)}; {_MAKE_WRITABLE}") from error


class FileIdentity:
    """Detects that a file was removed or replaced while it is open.

    A process that has such a file open can continue to write to it, but the data is lost.
    """

    def __init__(self, path: Path):
        self._path = path
        self._inode: int | None = None

    def forget(self) -> None:
        """Forget the file. Call this after it was closed, when another file may replace it."""
        self._inode = None

    def check(self) -> None:
        """Raise a `LostError` if the file was removed or replaced since the first check.

        If the file did not exist at the first check, it may be created afterwards.
        """
        inode = self._path.stat().st_ino if self._path.exists() else None
        if self._inode not in (None, inode):
            raise LostError(
                f"{self._path}: removed or replaced while this process has it open; restore a "
                "backup if there is one, and restart it"
            )
        self._inode = inode


@contextmanager
def convert_sqlite_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite in the block to a `StoreError` that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = [text for code, text in _ADVICE_BY_ERROR.items() if name.startswith(code)]
        error_class = LostError if name.startswith(_LOST_ERRORS) else StoreError
        raise error_class("; ".join([f"{path}: {error}", *advice])) from error
