"""The one way to open SQLite: durable, private to its owner, clear about what went wrong.

A file is created readable by its owner alone. It has a write-ahead log that is synced at every
commit: what was committed survives a power cut, what was not leaves nothing behind. Deleted rows
are overwritten with zeros, and `empty_log` empties the log as well, so what was deleted is gone
from the disk and not only from the tables. `PRAGMA user_version` counts the migrations that a file
has had; a file with more than this program knows is refused untouched. Every failure of SQLite is a
`StoreError` that names the file and says what to do.

The tables and their statements belong to the package that opens the file.
"""
