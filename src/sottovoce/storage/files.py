"""Write files atomically, and files that only their owner can read."""

import os
import secrets
import sys
from pathlib import Path

from sottovoce.errors import SettingsError

# Bytes that should always be free on a disk, for the logs of databases and for models.
MIN_FREE_BYTES = 100_000_000


def describe_full_disk(free_bytes: int | None) -> str | None:
    """Return a message if the disk is nearly full, else None.

    Args:
        free_bytes: Free bytes on the disk; None if unknown.
    """
    if free_bytes is None or free_bytes >= MIN_FREE_BYTES:
        return None
    return f"less than {MIN_FREE_BYTES / 1e6:.0f} MB are free on the disk; make room"


def read_secret(path: Path, max_bytes: int) -> bytes:
    """Read at most `max_bytes` of a file that only its owner may read.

    Raises:
        SettingsError: Other users may read the file too.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        mode, content = os.fstat(file.fileno()).st_mode, file.read(max_bytes)
    if os.name == "posix" and mode & 0o077:
        raise SettingsError(
            f"{path}: others may read this secret (mode {mode & 0o777:o}); run chmod 600, and "
            "replace the secret if somebody may have read it"
        )
    return content


def write_new(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, and sync it to the disk.

    Raises:
        SettingsError: The file exists.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingsError(f"{path}: exists already: name another, or move it away") from error
    try:
        _write_synced(handle, content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file so that it has the old or the new content, even after a power cut.

    If the path is a symbolic link, its target is replaced. A pipe, a terminal and `/dev/stdout` are
    written to and not replaced.

    Args:
        path: The file.
        content: Its new content.
        private: Whether only the owner may read the file; otherwise the umask decides.
    """
    if path == Path("/dev/stdout"):
        if sys.stdout is None:  # closed by the parent process
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
        _write_synced(handle, content)
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_synced(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder to the disk, so that new or renamed files in it survive a power cut."""
    # Only POSIX systems can open a folder.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
