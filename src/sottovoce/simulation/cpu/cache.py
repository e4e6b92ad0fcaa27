"""A check that numba's cached loops were compiled from the present sources.

numba uses a cached loop as long as the loop's own file stays the same. It does not check the files
of the kernels that are compiled into the loop.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sottovoce.storage.files import write_atomically

PACKAGE_FOLDER = Path(__file__).parents[2]
# Loops contain constants and functions of any file in these folders.
COMPILED_FOLDERS = ("core", "simulation")
# Mechanisms whose loops have run in this process.
LOADED_LOOPS: set[str] = set()


def drop_stale(*loops: Any) -> None:
    """Delete the cached code of these loops if it was compiled from other sources."""
    digest = _compute_digest().encode()
    for loop in loops:
        folder = Path(loop.stats.cache_path)
        stamp = folder / f"{loop.__name__}.sources"
        # An error may be ignored: numba does not use a cache that cannot be written.
        with suppress(OSError):
            if not stamp.exists() or stamp.read_bytes() != digest:
                for compiled in folder.glob(f"*.{loop.__name__}-*.nb[ic]"):
                    compiled.unlink(missing_ok=True)
                write_atomically(stamp, digest)


def mark_loaded(mechanism: str, loop: Any) -> None:
    """Note that a mechanism's loop has run, so that later processes know that it is cached."""
    if mechanism in LOADED_LOOPS:
        return
    LOADED_LOOPS.add(mechanism)
    with suppress(OSError):
        stamp = Path(loop.stats.cache_path) / _get_stamp_name(mechanism)
        write_atomically(stamp, _compute_digest().encode())


def is_cached(mechanism: str) -> bool:
    """Return whether numba's cache has the loop of a mechanism, without importing numba."""
    digest = _compute_digest()
    for folder in _list_cache_folders():
        with suppress(OSError):
            if (folder / _get_stamp_name(mechanism)).read_text("utf-8") == digest:
                return True
    return False


def _get_stamp_name(mechanism: str) -> str:
    return f"{mechanism}.loaded"


def _list_cache_folders() -> Iterator[Path]:
    """Yield the folders where numba may have cached the loops of this package."""
    yield Path(__file__).parent / "__pycache__"
    # Numba makes a folder for each package in these. It uses the second one if the package's own
    # folder cannot be written.
    shared = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME", "~/.cache")
    for path in (shared[0], f"{shared[1]}/numba"):
        if path:
            with suppress(OSError, RuntimeError):
                yield from Path(path).expanduser().glob("*")


def _compute_digest() -> str:
    digest = hashlib.sha256()
    for name in COMPILED_FOLDERS:
        for source in sorted((PACKAGE_FOLDER / name).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()
