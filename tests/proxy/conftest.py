"""A world for every test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Epoch 1 is mirrored and open: four reports a batch, three people at least."""
    made = World(tmp_path / "proxy")
    made.proxy.tick()
    yield made
    made.store.close()
