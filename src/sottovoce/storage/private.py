"""Files that only their owner can read."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sottovoce.errors import StoreError
from sottovoce.storage.failures import WRITABLE

if TYPE_CHECKING:
    from pathlib import Path


def make_private(path: Path) -> None:
    """An empty file to begin with, so that SQLite never makes one that others can read.

    Its log gets the same rights. A file that is there is not opened: closing it would end the locks
    that SQLite has on it in this process.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: {error}; {WRITABLE}") from error
