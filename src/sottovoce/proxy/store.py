"""The proxy's memory: one SQLite file, one writer, nothing acknowledged that could be lost."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Self

from sottovoce.errors import StoreError, reason
from sottovoce.proxy.schema import MIGRATIONS, PRAGMAS
from sottovoce.proxy.tables import Tables
from sottovoce.storage import Database, exclusive_lock, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("sottovoce")

NAME = "proxy.sqlite3"
LOCK = "proxy.lock"


class ProxyStore:
    """The tables behind locks: one connection writes, another reads while it does."""

    def __init__(self, writer: Database, reader: Database):
        self._path = writer.path
        self._writer = writer
        self._reader = reader
        self._held = ExitStack()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self.failing = False
        """Whether the last write failed: the disk is full, say."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The store of this folder, made if there is none; refused while another has it."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{folder}: {reason(error)}; let the proxy write to its folder"
            ) from error
        with ExitStack() as opened:
            taken = "another process uses it; a folder has one proxy"
            opened.enter_context(exclusive_lock(folder / LOCK, taken, wait=1.0))
            writer, reader = (
                opened.enter_context(closing(_opened(folder / NAME))) for _ in range(2)
            )
            writer.upgrade()
            reader.rows("PRAGMA query_only = ON")
            store = cls(writer, reader)
            store.scrub()  # a crash may have come between a flush and its scrubbing
            store._held = opened.pop_all()
        return store

    @contextmanager
    def write(self) -> Iterator[Tables]:
        """One transaction: all of it, on disk, when the block ends; none of it after an error."""
        with self._writing, self._watching(), self._writer.transaction() as db:
            yield Tables(db)

    @contextmanager
    def read(self) -> Iterator[Tables]:
        """What was committed last; does not wait for a writer."""
        with self._reading, store_errors(self._path):
            yield Tables(self._reader.connection)

    def scrub(self) -> None:
        """Empty the log and give free pages back: what was deleted is then gone from the folder."""
        with self._writing, self._watching(), store_errors(self._path):
            # Not `execute`, which gives back one page.
            self._writer.connection.executescript("PRAGMA incremental_vacuum")
            with self._reading:  # while somebody reads, the log cannot be emptied
                self._writer.empty_log()

    def probe(self) -> None:
        """Write something harmless, to learn whether that works again."""
        with self.write() as tables:
            tables.touch(len(MIGRATIONS))

    def free_bytes(self) -> int:
        """On the disk."""
        return shutil.disk_usage(self._path.parent).free

    def close(self) -> None:
        """Let another process have it."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Say once that writing fails, and once that it works again; never for each request."""
        try:
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
def looking(folder: Path) -> Iterator[Tables]:
    """What was committed last, for whoever looks from outside while a proxy runs or not.

    Takes no lock, writes nothing and makes no database. Be quick: while somebody reads, a running
    proxy cannot empty its log.
    """
    path = folder / NAME
    if not path.exists():
        raise StoreError(f"{path}: there is no such database; `sottovoce proxy run` makes it")
    with (
        store_errors(path),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db,
    ):
        db.isolation_level = None
        db.execute("BEGIN")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version != len(MIGRATIONS):
            raise StoreError(f"{path}: version {version}, this program knows {len(MIGRATIONS)}")
        yield Tables(db)


def _opened(path: Path) -> Database:
    """Shared between threads, behind the store's locks."""
    return Database(path, MIGRATIONS, PRAGMAS, wait=1.0, shared=True)
