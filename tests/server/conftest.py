"""Every test of the store and the server runs on SQLite and on a real PostgreSQL."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.lacking import leave_out
from tests.server import postgres
from tests.server.world import MakeWorld, NewUrl, World, make_settings

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    try:
        context = postgres.running()
        url = context.__enter__()
    except OSError as error:
        leave_out(f"the server on PostgreSQL ({error})")
    try:
        yield url
    finally:
        context.__exit__(None, None, None)


def _new_schema(server: str) -> str:
    """A schema of its own: as good as a database of its own, and at once there."""
    name = f"test_{next(_numbers)}"
    url = make_url(server)
    with psycopg.connect(
        host=str(url.query["host"]), user=url.username, dbname=url.database, autocommit=True
    ) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return url.update_query_dict({"options": f"-csearch_path={name}"}).render_as_string()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    return _new_schema(postgres_server)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'server.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """Makes databases that are empty."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'{next(_numbers)}.sqlite'}"
    server: str = request.getfixturevalue("postgres_server")
    return lambda: _new_schema(server)


@pytest.fixture
def url(new_url: NewUrl) -> str:
    """A database that is empty."""
    return new_url()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    """Worlds that are closed when the test is over."""
    made: list[World] = []

    def make(url: str, **changes: object) -> World:
        is_new = all(url != world.settings.database for world in made)
        make_one = World.begin if is_new else World
        made.append(make_one(make_settings(tmp_path, url, **changes)))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world: MakeWorld, url: str) -> World:
    return make_world(url)
