"""A copy of a server's SQLite database, made while the server runs.

A plain copy of the file would miss what is still in the write-ahead log; SQLite's own backup does
not, and the workers go on meanwhile. Keys of epochs are destroyed when an epoch is applied, which a
backup would undo: so it has none, unless that is asked for.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from sqlalchemy import make_url

from sottovoce.errors import SettingsError
from sottovoce.storage import make_private, store_errors

UNFINISHED = ".unfinished"


def back_up(database: str, target: Path, *, with_key: bool = False) -> None:
    """A new file, for its owner's eyes, whole or not there."""
    url = make_url(database)
    if url.drivername != "sqlite":
        raise SettingsError(
            "this is for SQLite. For PostgreSQL: pg_dump --format=custom "
            "--exclude-table-data=epoch_keys --file=FILE DATABASE"
        )
    source = Path(url.database or "")
    if not source.exists():
        raise SettingsError(f"{source}: there is no such database")
    if target.exists():
        raise SettingsError(f"{target}: exists already; nothing is overwritten")
    unfinished = target.with_name(target.name + UNFINISHED)
    with ExitStack() as undo, store_errors(unfinished):
        unfinished.unlink(missing_ok=True)
        make_private(unfinished)
        undo.callback(unfinished.unlink, missing_ok=True)
        _copy(source, unfinished, with_key=with_key)
        unfinished.rename(target)


def _copy(source: Path, target: Path, *, with_key: bool) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as ours,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        ours.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        copy.execute("PRAGMA secure_delete = ON")
        if not with_key:
            copy.execute("DELETE FROM epoch_keys")
        copy.execute("VACUUM")
