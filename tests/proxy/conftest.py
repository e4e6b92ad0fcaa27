"""Worlds that are closed when the test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.protocol import SignedManifest
from tests.proxy.world import MakeWorld, World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    """Return a function that makes worlds.

    The first epoch is mirrored and open: four reports a batch, at least three people.
    """
    worlds: list[World] = []

    def make(first: SignedManifest | None = None, **changes: object) -> World:
        worlds.append(World(tmp_path / f"proxy-{len(worlds)}", first, **changes))
        worlds[-1].proxy.tick()
        return worlds[-1]

    yield make
    for world in worlds:
        world.store.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()
