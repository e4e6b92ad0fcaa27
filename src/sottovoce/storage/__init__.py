"""The one way to open SQLite: durable, private to its owner, clear about what went wrong.

A file is created for its owner's eyes alone. Write-ahead log, synced at every commit: what was
committed survives a power cut, what was not leaves nothing behind. Deleted rows are overwritten
with zeros, and `empty_log` empties the log as well, so that what was deleted is gone from the disk
and not only from the tables. `PRAGMA user_version` counts the migrations that a file has; one that
has more than this program knows is refused untouched. Every failure of SQLite is a `StoreError`
that names the file and says what to do.

The tables and their statements belong to whoever opens the file.
"""

from sottovoce.storage.database import Database, Migrations
from sottovoce.storage.failures import store_errors
from sottovoce.storage.lock import exclusive_lock, make_private
from sottovoce.storage.pragmas import empty_log, prepare

__all__ = [
    "Database",
    "Migrations",
    "empty_log",
    "exclusive_lock",
    "make_private",
    "prepare",
    "store_errors",
]
