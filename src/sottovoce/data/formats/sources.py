"""Where files come from: a folder or a zip archive, read alike and never unpacked to disk."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Protocol, cast

from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH = 2  # a published archive is one folder of files, or files alone


class Source(Protocol):
    """Some files by name."""

    @property
    def path(self) -> Path:
        """The folder or the archive itself."""

    def names(self) -> list[str]:
        """The names of the files, with `/` between folders; `.gz` at the end is left off."""

    def open(self, name: str) -> IO[bytes]:
        """The bytes of one file, decompressed."""


@dataclass(frozen=True)
class Folder:
    """Files in a folder, gzip-compressed or not."""

    path: Path

    def names(self) -> list[str]:
        """Every file at most two folders down."""
        found = (self.path.glob("/".join("*" * depth)) for depth in range(1, _DEPTH + 1))
        files = (file.relative_to(self.path) for level in found for file in level if file.is_file())
        return sorted(file.as_posix().removesuffix(".gz") for file in files)

    def open(self, name: str) -> IO[bytes]:
        """The plain file if it is there, else the compressed one."""
        plain = self.path / name
        return open_file(plain if plain.exists() else plain.with_name(plain.name + ".gz"))


@dataclass(frozen=True)
class Archive:
    path: Path

    def names(self) -> list[str]:
        with reading(self.path), zipfile.ZipFile(self.path) as archive:
            return [entry.filename for entry in archive.infolist() if not entry.is_dir()]

    def open(self, name: str) -> IO[bytes]:
        """The member; the archive stays open as long as the member is."""
        with reading(self.path), zipfile.ZipFile(self.path) as archive:
            return archive.open(name)


def open_file(path: Path) -> IO[bytes]:
    """A file's bytes; a name that ends in `.gz` is decompressed."""
    with reading(path):
        if path.suffix == ".gz":
            return cast("IO[bytes]", gzip.open(path, "rb"))
        return path.open("rb")


def find(source: Source, filename: str) -> str | None:
    """The file of that name that lies least deep, or None."""
    matches = [name for name in source.names() if PurePosixPath(name).name == filename]
    return min(matches, key=lambda name: (name.count("/"), name), default=None)


def label(source: Source, name: str) -> str:
    return str(source.path / name)


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turns what can go wrong while reading bytes into a `DataError` that names the file."""
    try:
        yield
    except zipfile.BadZipFile as error:
        raise DataError(f"damaged, truncated or not a zip archive ({error})", path=path) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot be read: {reason}", path=path) from error
    except (RuntimeError, NotImplementedError) as error:  # zipfile: encrypted, or odd compression
        raise DataError(f"cannot be decompressed: {error}", path=path) from error
