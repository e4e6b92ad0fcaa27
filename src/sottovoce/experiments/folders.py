"""Folders for everything that an experiment makes."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_folder(wanted: Path | None, name: str) -> Iterator[Path]:
    """The folder that was asked for, which must be empty or new; else one that is removed again."""
    if wanted is None:
        try:
            made = tempfile.TemporaryDirectory(prefix=f"sottovoce-{name}-")
        except OSError as error:
            raise SettingsError(f"no temporary folder can be made: {reason(error)}") from error
        with made as temporary:
            yield Path(temporary)
        return
    if wanted.exists() and not wanted.is_dir():
        raise SettingsError(f"{wanted} is not a folder")
    if wanted.exists() and any(wanted.iterdir()):
        raise SettingsError(f"{wanted} is not empty: name a new folder")
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"{wanted} cannot be made: {reason(error)}") from error
    yield wanted
