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
    """As `tmp_path`, but quick. No test here cuts the power: what a kill leaves is the same."""
    base = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sottovoce-live-", dir=base) as made:
        yield Path(made)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made
