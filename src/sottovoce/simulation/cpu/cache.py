"""Compiled loops that are older than the code in them are dropped.

numba keeps a compiled loop as long as the file of the loop stays the same; it does not look at the
files of the kernels that are compiled into it.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from sottovoce.storage.files import write_atomically

PACKAGE = Path(__file__).parents[2]
COMPILED_IN = ("core", "simulation")
"""Constants of all of these are frozen into a loop."""


def drop_stale(*loops: Any) -> None:
    """Forget what was compiled of these loops from other sources than today's."""
    digest = _digest().encode()
    for loop in loops:
        folder = Path(loop.stats.cache_path)
        stamp = folder / f"{loop.__name__}.sources"
        with suppress(OSError):  # a cache that cannot be written is not used either
            if not stamp.exists() or stamp.read_bytes() != digest:
                for compiled in folder.glob(f"*.{loop.__name__}-*.nb[ic]"):
                    compiled.unlink(missing_ok=True)
                write_atomically(stamp, digest)


def _digest() -> str:
    """Of all sources that can be compiled into a loop."""
    digest = hashlib.sha256()
    for place in COMPILED_IN:
        for source in sorted((PACKAGE / place).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()
