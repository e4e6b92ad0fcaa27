from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.client import Client
from tests.client.world import FakeProxy, World, item


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def proxy(world: World) -> FakeProxy:
    return FakeProxy(world)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "client"


@pytest.fixture
def client(world: World, folder: Path) -> Iterator[Client]:
    with world.create(folder) as created:
        created.record([item(3), item(7), item(20)])
        yield created
