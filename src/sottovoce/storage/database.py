"""A connection to an SQLite file: how it is opened, locked and brought up to date, how it fails."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sottovoce.errors import LostError, StoreError, reason

Migration = TypeVar("Migration")

PRAGMAS = (
    "synchronous = FULL",  # a commit that returned survives a power cut
    "secure_delete = ON",  # what is deleted is overwritten with zeros
    "trusted_schema = OFF",  # a file that was tampered with calls no function of ours
)
_WRITABLE = "make the file and its folder writable"
_ADVICE = {
    "SQLITE_FULL": "make room on the disk",
    "SQLITE_READONLY": _WRITABLE,
    "SQLITE_CANTOPEN": _WRITABLE,
    "SQLITE_BUSY": "another program holds it: wait until it is done, or end that program",
    "SQLITE_CORRUPT": "the file is damaged: restore it, or move it away and begin with a new one",
    "SQLITE_NOTADB": "this is not a database: restore it, or move it away and begin with a new one",
    "SQLITE_IOERR": "make sure of the disk",
}
_LOST = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def pending(version: int, migrations: Sequence[Migration], name: object) -> Sequence[Migration]:
    """The migrations that a database still lacks; one of an unknown version is refused.

    Its version is the number of migrations that it has had. To change a schema, append a migration;
    never change one that was published.
    """
    if not 0 <= version <= len(migrations):
        raise StoreError(
            f"{name}: schema version {version}, this program knows {len(migrations)}; "
            "install the version of sottovoce that wrote it, or a later one"
        )
    return migrations[version:]


class Database:
    """The file is made if it is not there. Threads share it only if `shared`, one at a time."""

    def __init__(
        self,
        path: Path,
        migrations: Sequence[tuple[str, ...]],
        pragmas: Sequence[str] = (),
        *,
        wait: float = 5.0,
        shared: bool = False,
        upgrade: bool = True,
    ):
        """A migration is some statements. `pragmas` are those of the file's role."""
        self.path = path
        self._migrations = migrations
        make_private(path)
        with store_errors(path):
            self.connection = sqlite3.connect(path, timeout=wait, check_same_thread=not shared)
        try:
            self._pending()  # before anything in the file is changed
            with store_errors(path):
                prepare(self.connection, *pragmas, wait=wait)
            if upgrade:
                self.upgrade()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        return int(self.row("PRAGMA user_version")[0])

    def rows(self, statement: str, *values: object) -> list[Any]:
        with store_errors(self.path):
            return self.connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: object) -> Any:
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

    def write(self, statement: str, *values: object) -> None:
        with self.transaction():
            self.rows(statement, *values)

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
        if self._pending():
            with self.transaction():
                self.migrate()

    def migrate(self) -> None:
        """The same in a transaction of the caller's."""
        for statements in self._pending():
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

    def _pending(self) -> Sequence[tuple[str, ...]]:
        return pending(self.version, self._migrations, self.path)


def prepare(connection: sqlite3.Connection, *more: str, wait: float = 5.0) -> None:
    """Set up a connection; `more` are pragmas of its role, done first."""
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in more:
        connection.execute(f"PRAGMA {pragma}")
    _use_log(connection, wait)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _use_log(connection: sqlite3.Connection, wait: float) -> None:
    """Readers and a writer need not wait for each other.

    Only the first connection to a new file changes it, and for that SQLite itself does not wait
    until the file is free.
    """
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
    """Take everything out of the write-ahead log; False if somebody reads just now: try again."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


@contextmanager
def exclusive_lock(path: Path, taken: str, *, wait: float = 0.0) -> Iterator[None]:
    """Held for the block and never longer than the process lives; `taken` is said to the others.

    SQLite's own lock on a file that stays empty: it works on every system, also within a process.
    """
    make_private(path)
    with store_errors(path):
        lock = sqlite3.connect(path, isolation_level=None, timeout=wait, check_same_thread=False)
    with closing(lock):
        with store_errors(path):
            try:
                lock.execute("PRAGMA journal_mode = MEMORY")
                lock.execute("BEGIN EXCLUSIVE")
                # On a file that cannot be written that locks nothing, but this fails. Never
                # committed.
                lock.execute("PRAGMA user_version = 1")
            except sqlite3.Error as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise StoreError(f"{path.parent}: {taken}") from error
                raise
        yield


def make_private(path: Path) -> None:
    """An empty file to begin with, so that SQLite never makes one that others can read.

    Its log gets the same rights. A file that is there is not opened: closing it would end the locks
    that SQLite has on it in this process.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: {reason(error)}; {_WRITABLE}") from error


class SameFile:
    """Whether a file is still the one that it was.

    One that was removed or replaced is written on by those who have it open, and ends with them.
    """

    def __init__(self, path: Path):
        self._path = path
        self._number: int | None = None

    def forget(self) -> None:
        """It is closed: another may take its place."""
        self._number = None

    def check(self) -> None:
        """`LostError` if it is not; one that is not there yet may come."""
        number = self._path.stat().st_ino if self._path.exists() else None
        if self._number not in (None, number):
            raise LostError(
                f"{self._path}: gone, or replaced, while this process has it open; restore a "
                "backup if there is one, and restart it"
            )
        self._number = number


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Whatever fails inside is a `StoreError` that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = [text for code, text in _ADVICE.items() if name.startswith(code)]
        kind = LostError if name.startswith(_LOST) else StoreError
        raise kind("; ".join([f"{path}: {error}", *advice])) from error
