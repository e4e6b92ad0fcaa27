"""The proxy's memory: one SQLite file, one writer, nothing acknowledged that could be lost.

Write-ahead log, synced at every commit (`synchronous=FULL`); deleted rows are overwritten with
zeros (`secure_delete`), and `scrub` empties the log as well, so that what was deleted is gone from
the folder and not only from the tables.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Self

from sottovoce.errors import StoreError
from sottovoce.proxy.schema import MIGRATIONS
from sottovoce.proxy.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("sottovoce")

NAME = "proxy.sqlite3"
LOCK = "proxy.lock"
_ADVICE = {
    "SQLITE_FULL": "make room on the disk",
    "SQLITE_READONLY": "let the proxy write to its folder",
    "SQLITE_CANTOPEN": "let the proxy write to its folder",
    "SQLITE_BUSY": "another process uses it; a folder has one proxy",
    "SQLITE_CORRUPT": "move it away and start anew; what waits in it is lost",
    "SQLITE_NOTADB": "move it away and start anew; it is no database",
    "SQLITE_IOERR": "look after the disk",
}


class Store:
    """The tables behind locks: one connection writes, another reads while it does."""

    def __init__(
        self,
        path: Path,
        lock: sqlite3.Connection,
        writer: sqlite3.Connection,
        reader: sqlite3.Connection,
    ):
        self._path = path
        self._lock = lock
        self._writer = writer
        self._reader = reader
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self.failing = False
        """Whether the last write failed: the disk is full, say."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The store of this folder, made if there is none; refused while another has it."""
        path = folder / NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its log the same rights as the database. One that is there is not
            # opened: closing it would end the locks that SQLite has on it in this process.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise StoreError(f"{path}: {error}; let the proxy write to its folder") from error
        with _as_store_errors(path), ExitStack() as opened:
            lock = opened.enter_context(closing(_connected(folder / LOCK)))
            lock.execute("BEGIN EXCLUSIVE")  # never ended: a lock that dies with the process
            _migrate(path)
            writer = opened.enter_context(closing(_prepared(path)))
            reader = opened.enter_context(closing(_prepared(path)))
            reader.execute("PRAGMA query_only = ON")
            store = cls(path, lock, writer, reader)
            store.scrub()  # a crash may have come between a flush and its scrubbing
            opened.pop_all()
        return store

    @contextmanager
    def write(self) -> Iterator[Tables]:
        """One transaction: all of it, on disk, when the block ends; none of it after an error."""
        with self._writing, self._watching():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield Tables(self._writer)
                self._commit()
            except BaseException:
                if self._writer.in_transaction:
                    with suppress(sqlite3.Error):
                        self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[Tables]:
        """What was committed last; does not wait for a writer."""
        with self._reading, _as_store_errors(self._path):
            yield Tables(self._reader)

    def scrub(self) -> None:
        """Empty the log and give free pages back: what was deleted is then gone from the folder."""
        with self._writing, self._watching():
            self._writer.executescript("PRAGMA incremental_vacuum")  # `execute` gives back one page
            with self._reading:  # while somebody reads, the log cannot be emptied
                busy, *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StoreError(f"{self._path}: in use; {_ADVICE['SQLITE_BUSY']}")

    def probe(self) -> None:
        """Write something harmless, to learn whether that works again."""
        with self.write() as tables:
            tables.touch(len(MIGRATIONS))

    def close(self) -> None:
        """Let another process have it."""
        for connection in (self._reader, self._writer, self._lock):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _commit(self) -> None:
        self._writer.execute("COMMIT")

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Say once that writing fails, and once that it works again; never for each request."""
        try:
            with _as_store_errors(self._path):
                yield
        except StoreError as error:
            if not self.failing:
                log.error("%s; nothing is acknowledged until that is mended", error)
            self.failing = True
            raise
        if self.failing:
            log.warning("%s: can be written again", self._path)
        self.failing = False


@contextmanager
def _as_store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = next((text for code, text in _ADVICE.items() if name.startswith(code)), "")
        raise StoreError(f"{path}: {error}" + (f"; {advice}" if advice else "")) from error


def _connected(path: Path) -> sqlite3.Connection:
    """Shared between threads, behind the store's locks; transactions are begun by hand."""
    return sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)


def _prepared(path: Path) -> sqlite3.Connection:
    db = _connected(path)
    for setting in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "temp_store = FILE",
        "trusted_schema = OFF",
    ):
        db.execute(f"PRAGMA {setting}").fetchall()
    return db


def _migrate(path: Path) -> None:
    """Bring the tables up to date; a database that knows more than we do is left alone."""
    with closing(_connected(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(
                f"{path}: version {version}, this program knows {len(MIGRATIONS)}; use a newer one"
            )
        if version == 0:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can be chosen before the first table
        for number in range(version, len(MIGRATIONS)):
            db.executescript(
                f"BEGIN; {MIGRATIONS[number]} PRAGMA user_version = {number + 1}; COMMIT;"
            )
