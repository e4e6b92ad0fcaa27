"""A database of an earlier version goes on where it was.

`upgrades/version2.json` has the rows of a real one: two epochs applied, a third closed and half
handed in. It was written by the last commit with schema version 2, on SQLite; the others likewise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sqlalchemy import MetaData

from sottovoce.errors import StoreError
from sottovoce.server import Keys, ServerStore
from sottovoce.server.status import ServerStatus
from sottovoce.server.store.schema import MIGRATIONS, TOO_OLD
from tests.server.changes import change_catalogue, with_titles
from tests.server.test_catalogues import catalogue, model
from tests.server.world import World, make_settings

if TYPE_CHECKING:
    from tests.server.conftest import MakeWorld

ROWS = Path(__file__).parent / "upgrades"
KEYS = Keys(bytes(range(32)), bytes(range(32, 64)))


def fill(url: str, version: int) -> None:
    """As that version had left it."""
    store = ServerStore(url)
    store.migrate(MIGRATIONS[: version - TOO_OLD])
    tables = MetaData()
    with store._engine.begin() as connection:
        tables.reflect(connection)
        for name, rows in json.loads((ROWS / f"version{version}.json").read_text()).items():
            connection.execute(tables.tables[name].delete())
            for row in rows:
                connection.execute(tables.tables[name].insert().values(**_decoded(row)))
    store.close()


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for k, v in row.items()}


@pytest.fixture(params=[2, 3])
def world(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> World:
    fill(url, request.param)
    return World(make_settings(tmp_path, url), KEYS)


def test_a_service_goes_on_after_an_upgrade(world: World) -> None:
    world.server.prepare()
    first, second, third = world.server.epochs()
    assert [each.state for each in (first, second, third)] == ["applied", "applied", "closed"]
    signed = world.signed()
    assert signed.manifest.epoch == 3
    assert world.counts(3)[1] == 30
    world.now = (third.closed_at or 0) + world.settings.grace_seconds
    V = model(world, signed)
    world.server.tick()
    after = world.signed()
    assert after.manifest.epoch == 4
    assert after.manifest.terms == signed.manifest.terms
    assert after.manifest.reports_behind == 30
    assert not np.array_equal(model(world, after), V)
    change_catalogue(world.store, lambda known: with_titles(known, {"film-1": "Renamed"}))
    world.server.tick()
    assert catalogue(world, world.signed()).items[1].title == "Renamed"
    assert world.signed().manifest.catalogue_version == 2
    with world.store.read() as transaction:
        service = transaction.service()
    assert service is not None
    assert service.newest_key == service.verification_key == KEYS.verification_key
    world.close()


def test_who_only_looks_says_that_a_database_is_of_another_version(
    url: str, tmp_path: Path
) -> None:
    fill(url, 3)
    store = ServerStore(url)
    with pytest.raises(StoreError, match="another version: `sottovoce server run`"):
        ServerStatus.read(store, make_settings(tmp_path, url), 0.0)
    store.close()


def test_before_its_first_epoch_there_is_nothing_to_keep(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    store = ServerStore(sqlite_url)
    store.migrate(MIGRATIONS[:1])
    store.close()
    world = make_world(sqlite_url)
    world.server.tick()
    assert world.signed().manifest.epoch == 1
