"""One process at a time, and files that only their owner can read."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from sottovoce.errors import StoreError, reason
from sottovoce.storage.failures import WRITABLE, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
            _take(lock, f"{path.parent}: {taken}")
        yield


def _take(lock: sqlite3.Connection, taken: str) -> None:
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")
        lock.execute("BEGIN EXCLUSIVE")
        # On a file that cannot be written that locks nothing, but this fails. Never committed.
        lock.execute("PRAGMA user_version = 1")
    except sqlite3.Error as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise StoreError(taken) from error


def make_private(path: Path) -> None:
    """An empty file to begin with, so that SQLite never makes one that others can read.

    Its log gets the same rights. A file that is there is not opened: closing it would end the locks
    that SQLite has on it in this process.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: {reason(error)}; {WRITABLE}") from error
