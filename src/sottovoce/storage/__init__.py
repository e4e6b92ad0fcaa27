"""SQLite files that are durable and private, with errors that say what to do.

A file can be read only by its owner. Every commit waits until the write-ahead log is on the disk,
so a committed transaction survives a power cut. An interrupted transaction is rolled back.

Deleted rows are overwritten with zeros, `empty_log` empties the log, and `scrub` also rewrites the
file. After `scrub` no file contains deleted data. The disk may still contain it in freed blocks or,
on flash memory, in older copies of blocks. Only an encrypted disk protects against somebody who
reads the raw disk.

A database whose tables have another version (`PRAGMA user_version`) than those of this program is
refused and not changed. Every error of SQLite becomes a `StoreError` that names the file and says
what to do.

The tables and their statements belong to the package that opens the file.
"""
