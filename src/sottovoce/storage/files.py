"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from sottovoce.errors import SettingsError

_REFUSED = {stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a disk"}


def write_new(path: Path, content: bytes) -> None:
    """A file that only its owner can read from the first moment; on the disk when this returns."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: exists already; nothing is overwritten") from error
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """All of it or nothing, even when the power goes.

    A private file is for its owner alone; any other has the mode that the umask gives. A link
    stays one: its target is replaced. A pipe or a terminal is written to and never replaced.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    if found is not None and (stream := _standard_stream(found)) is not None:
        _write_out(os.dup(stream), content)
    elif found is None or stat.S_ISREG(found.st_mode):
        _replace(Path(os.path.realpath(path)), content, 0o600 if private else 0o666)
    elif stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode):
        _write_out(os.open(path, os.O_WRONLY), content)
    else:
        kind = _REFUSED.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(f"this is {kind}, not a file")


def _standard_stream(found: os.stat_result) -> int | None:
    """Output or errors of this process, if that is what was found: `/dev/stdout`, redirected."""
    for stream in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(found, os.fstat(stream)):
                return stream
    return None


def _write_out(handle: int, content: bytes) -> None:
    for printed in (sys.stdout, sys.stderr):
        printed.flush()
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _replace(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Its new name is on the disk too; elsewhere than on POSIX a folder cannot be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
