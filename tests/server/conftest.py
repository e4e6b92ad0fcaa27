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
        context = postgres.run_postgres()
        url = context.__enter__()
    except OSError as error:
        leave_out(f"the server on PostgreSQL ({error})")
    try:
        yield url
    finally:
        context.__exit__(None, None, None)


def _new_schema(server: str) -> str:
    """Create a schema of its own, which is faster than a database."""
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
    """Return a function that makes empty databases."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'{next(_numbers)}.sqlite'}"
    server: str = request.getfixturevalue("postgres_server")
    return lambda: _new_schema(server)


@pytest.fixture
def url(new_url: NewUrl) -> str:
    """Return the URL of an empty database."""
    return new_url()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    """Return a function that makes workers, which are closed after the test."""
    worlds: list[World] = []

    def make(url: str, **changes: object) -> World:
        is_new = all(url != world.settings.database for world in worlds)
        make_one = World.begin if is_new else World
        worlds.append(make_one(make_settings(tmp_path, url, **changes)))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: MakeWorld, url: str) -> World:
    return make_world(url)
