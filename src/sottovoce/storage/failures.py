"""Failures of SQLite as errors of ours that say what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sottovoce.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITABLE = "make the file and its folder writable"

_ADVICE = {
    "SQLITE_FULL": "make room on the disk",
    "SQLITE_READONLY": WRITABLE,
    "SQLITE_CANTOPEN": WRITABLE,
    "SQLITE_BUSY": "another process uses it; try again",
    "SQLITE_CORRUPT": "the file is damaged: restore it, or move it away and begin anew",
    "SQLITE_NOTADB": "this is not a database: restore it, or move it away and begin anew",
    "SQLITE_IOERR": "check the disk",
}


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Whatever fails inside is a `StoreError` that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = [text for code, text in _ADVICE.items() if name.startswith(code)]
        raise StoreError("; ".join([f"{path}: {error}", *advice])) from error
