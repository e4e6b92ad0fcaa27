"""Files of data: the endings of their names, how to open them, and errors that name the file."""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from sottovoce.errors import DataError, get_reason

# Endings of file names, by format.
TEXT_SUFFIXES = (".csv", ".tsv", ".inter", ".csv.gz", ".tsv.gz", ".inter.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
MATRIX_SUFFIX = ".npz"


@contextmanager
def convert_read_errors(path: Path | str) -> Iterator[None]:
    """Convert I/O and decompression errors to a `DataError` that names the file."""
    try:
        yield
    except zipfile.BadZipFile as error:
        raise DataError(f"damaged, truncated or not a zip archive ({error})", path=path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {get_reason(error)}", path=path) from error
    # zipfile raises these for encrypted members and for unknown compression methods.
    except (RuntimeError, NotImplementedError) as error:
        raise DataError(f"cannot be decompressed: {error}", path=path) from error


def open_file(path: Path | zipfile.Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressing it if its name ends in `.gz`."""
    with convert_read_errors(str(path)):
        if isinstance(path, Path) and path.suffix == ".gz":
            return cast("IO[bytes]", gzip.open(path))
        return path.open("rb")


def derive_name(path: Path) -> str:
    """Derive the name of a data set from its file or folder: `ml-1m` from `/data/ml-1m.zip`."""
    name = path.resolve().name.removesuffix(".gz")
    return name if path.is_dir() else name.rsplit(".", 1)[0]


def get_first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
