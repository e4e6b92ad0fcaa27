"""SQLite files that are durable and private, with errors that say what to do.

Only its owner can read a file. The write-ahead log is synced at every commit, so that a committed
transaction survives a power cut and any other leaves no trace. Deleted rows are overwritten with
zeros, `empty_log` empties the log, and `scrub` also rewrites the file: after that no file contains
deleted data. The disk itself may: it overwrites neither freed blocks nor, on flash, older copies.
Only an encrypted disk protects against a reader of the raw disk.

A file with tables of another version (`PRAGMA user_version`) is refused and not changed. Every
error of SQLite becomes a `StoreError` that names the file and says what to do.

The tables and their statements belong to the package that opens the file.
"""
