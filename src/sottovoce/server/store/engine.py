"""A database opened the way that the server relies on, and its errors in our words."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sottovoce.errors import StoreError
from sottovoce.storage import make_private, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

BUSY_SECONDS = 30
"""How long a writer waits for another one, on SQLite."""
CONNECT_SECONDS = 10
MOST_CONNECTIONS = 40
"""More than there are threads that ask: none waits for a connection."""

_PRAGMAS = (
    "foreign_keys = ON",
    "temp_store = MEMORY",  # nothing spills into a file that nobody scrubs
)


def open_engine(url: str) -> Engine:
    """Nothing is connected to before it is used."""
    common = {"hide_parameters": True, "max_overflow": MOST_CONNECTIONS}
    if not url.startswith("sqlite"):
        return create_engine(
            url,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": CONNECT_SECONDS},
            **common,
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, **common)
    event.listen(engine, "do_connect", _make_private)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _make_private(_: object, __: object, arguments: list[Any], ___: object) -> None:
    """SQLite would make a file that others can read; what a URI names is there already."""
    if arguments[0] != ":memory:" and not arguments[0].startswith("file:"):
        make_private(Path(arguments[0]))


def _prepare(connection: Any, _: object) -> None:
    prepare(connection, *_PRAGMAS, wait=BUSY_SECONDS)


def _begin(connection: Connection) -> None:
    """A writer takes the lock at once: one that first reads could not be sure to get it later."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def store_errors() -> Iterator[None]:
    """Whatever the database says becomes a `StoreError` that says what to do; nothing leaks."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(_explained(str(error.orig))) from error
    except SQLAlchemyError as error:
        raise StoreError(f"the database cannot be used: {type(error).__name__}") from error


_CAUSES = {
    "disk is full": "the disk is full: make room",
    "no space left": "the disk is full: make room",
    "readonly": "the database is read-only: mend the permissions, or write to the primary",
    "read-only": "the database is read-only: mend the permissions, or write to the primary",
    "locked": f"another writer held the database for {BUSY_SECONDS} seconds",
    "unable to open": "the database file cannot be opened: check the folder and its permissions",
    "not a database": "this file is not a database, or is damaged: restore a backup",
    "malformed": "the database is damaged: restore a backup",
    "connection": "the database cannot be reached",
    "column": "the database is of another version: `sottovoce server run` brings it up to date",
    "no such table": "the database is not set up: `sottovoce server run` does it",
    "does not exist": "the database is not set up, or its name is wrong",
}


def _explained(message: str) -> str:
    lowered = message.lower()
    cause = next((text for sign, text in _CAUSES.items() if sign in lowered), "the database failed")
    return f"{cause} ({message.splitlines()[0] if message else 'no more is known'})"
