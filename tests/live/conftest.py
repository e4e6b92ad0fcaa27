"""Folders in memory where there are any: these tests sync thousands of small files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEMORY_FOLDER = Path("/dev/shm")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Yield a folder as `tmp_path` does, in memory where possible.

    No test here cuts the power, and a kill leaves the same files in memory.
    """
    base = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sottovoce-live-", dir=base) as path:
        yield Path(path)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path
