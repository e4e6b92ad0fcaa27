"""What every connection to SQLite is told first, and the write-ahead log."""

from __future__ import annotations

import sqlite3
import time

PRAGMAS = (
    "synchronous = FULL",  # a commit that returned survives a power cut
    "secure_delete = ON",  # what is deleted is overwritten with zeros
    "trusted_schema = OFF",  # a file that was tampered with calls no function of ours
)


def prepare(connection: sqlite3.Connection, *more: str, wait: float = 5.0) -> None:
    """Set up a connection; `more` are pragmas of its role, done first."""
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in more:
        connection.execute(f"PRAGMA {pragma}")
    _use_log(connection, wait)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def empty_log(connection: sqlite3.Connection) -> bool:
    """Take everything out of the write-ahead log; False if somebody reads just now: try again."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def _use_log(connection: sqlite3.Connection, wait: float) -> None:
    """Readers and a writer need not wait for each other.

    Only the first connection to a new file changes it, and for that SQLite itself waits for nobody.
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
