"""The file system, as the ledger uses it: every step that a crash can come before or after."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import LedgerError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator


class Disk:
    """The few things done to files, in one place so that tests can crash between any two."""

    def write(self, file: io.FileIO, content: bytes) -> None:
        """All of it, at the file's position."""
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]

    def truncate(self, file: io.FileIO, size: int) -> None:
        """Drop what lies beyond."""
        file.truncate(size)

    def sync(self, file: io.FileIO) -> None:
        """Return when the content would survive a power cut."""
        os.fsync(file.fileno())

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in it would survive a power cut."""
        if sys.platform == "win32":
            return  # A folder cannot be opened there, and NTFS keeps a journal of its names.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, source: Path, target: Path) -> None:
        """Rename in one step over whatever is there."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name; fails if something has it."""
        target.hardlink_to(source)

    def remove(self, path: Path) -> None:
        """Forget a name."""
        path.unlink()


DISK = Disk()


def open_locked(path: Path) -> io.FileIO:
    """The log, open for reading and appending, and ours alone."""
    if not path.exists():
        raise LedgerError(
            "there is no ledger; if this device has reported before, what it spent is not known, "
            "so restore the file; create one only for a device that never reported"
        )
    if not path.is_file():  # a pipe would make the reader wait for ever
        raise LedgerError("this is not a file")
    file = path.open("r+b", buffering=0)
    try:
        _lock(file)
    except OSError as error:
        file.close()
        raise LedgerError(
            f"in use by another process or object, or this file system cannot lock ({error}); "
            "one ledger has one writer"
        ) from error
    return file


def _lock(file: io.FileIO) -> None:
    """Until the file is closed or the process dies; raises an OSError at once if it is taken."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**40)  # Locks bind readers there: lock a byte that no record will ever reach.
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def place(path: Path, content: bytes, disk: Disk) -> None:
    """A new file, whole or not at all, and never in the place of another."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            disk.write(file, content)
            disk.sync(file)
        disk.link(Path(name), path)
    finally:
        disk.remove(Path(name))
    disk.sync_folder(path.parent)


@contextmanager
def failing_closed(path: Path) -> Iterator[None]:
    """Every failure becomes a `LedgerError` that names the file."""
    try:
        yield
    except FileExistsError as error:
        raise LedgerError(f"{path}: there is a ledger already; open it") from error
    except OSError as error:
        raise LedgerError(
            f"{path}: {error}; nothing may be reported until that is mended"
        ) from error
    except LedgerError as error:
        raise LedgerError(f"{path}: {error}") from error


def real(path: Path | str) -> Path:
    """One log has one head, by whatever links it is reached."""
    return Path(os.path.realpath(path))
