"""Files that are whole or not there."""

import os
import secrets
import sys
from pathlib import Path

from sottovoce.errors import SettingsError


def write_new(path: Path, content: bytes) -> None:
    """A file that only its owner can read from the first moment; on the disk when this returns."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: exists already: name another, or move it away") from error
    try:
        _write(handle, content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """All of it or nothing, even when the power goes.

    A private file is for its owner alone; any other has the mode that the umask gives. A link
    stays one: its target is replaced. A pipe or a terminal is written to and never replaced, and
    so is `/dev/stdout`, which may be redirected to a file.
    """
    if path == Path("/dev/stdout"):
        if sys.stdout is None:  # closed by the process that started us
            raise OSError("standard output is closed")
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif path.is_fifo() or path.is_char_device():
        path.write_bytes(content)
    elif path.exists() and not path.is_file():
        raise FileExistsError("this is not a file")
    else:
        _replace(Path(os.path.realpath(path)), content, 0o600 if private else 0o666)


def _replace(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        _write(handle, content)
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Its new name is on the disk too; elsewhere than on POSIX a folder cannot be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
