"""Worlds that are closed when the test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.protocol import SignedManifest
from tests.proxy.world import MakeWorld, World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    """The first epoch is mirrored and open: four reports a batch, three people at least."""
    made: list[World] = []

    def make(first: SignedManifest | None = None, **changes: object) -> World:
        made.append(World(tmp_path / f"proxy-{len(made)}", first, **changes))
        made[-1].proxy.tick()
        return made[-1]

    yield make
    for world in made:
        world.store.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()
