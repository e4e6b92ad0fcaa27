"""Folders in memory where there are any: these tests sync thousands of small files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Yield a folder as `tmp_path` does, in memory where possible.

    No test here cuts the power, and a kill leaves the same files in memory.
    """
    base = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sottovoce-live-", dir=base) as path:
        yield Path(path)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path
