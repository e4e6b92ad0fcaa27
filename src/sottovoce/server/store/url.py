"""Which database: SQLite for one machine, PostgreSQL for a server of many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def database_url(given: str, base: Path) -> str:
    """In full: the driver named, the path of an SQLite file relative to `base`."""
    try:
        url = make_url(given)
    except (ArgumentError, ValueError) as error:
        # Not the URL itself: a password may stand in it.
        raise SettingsError(
            "database is not a URL such as sqlite:///server.sqlite or postgresql://user@host/name"
        ) from error
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    if url.drivername != "sqlite":
        raise SettingsError(f"database must be sqlite or postgresql, not {url.drivername!r:.80}")
    if not url.database or url.database == ":memory:":
        raise SettingsError("database: an SQLite database needs a file: sqlite:///server.sqlite")
    return url.set(database=str(base / url.database)).render_as_string()
