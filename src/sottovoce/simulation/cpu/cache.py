"""A check that numba's cached loops were compiled from the present sources.

numba uses a cached loop as long as the loop's own file stays the same. It does not check the files
of the kernels that are compiled into the loop.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from sottovoce.storage.files import write_atomically

PACKAGE_FOLDER = Path(__file__).parents[2]
# Loops contain constants and functions of any file in these folders.
COMPILED_FOLDERS = ("core", "simulation")


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


def _compute_digest() -> str:
    digest = hashlib.sha256()
    for name in COMPILED_FOLDERS:
        for source in sorted((PACKAGE_FOLDER / name).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()
