"""The items that the owner touched, in a database of their own.

A large import holds the write lock of its file for a time that depends on the history. A sync only
reads this file, which waits for no writer, and writes to another one.
"""

from collections.abc import Iterable
from pathlib import Path

from sottovoce.core.bounds import MAX_HISTORY_ITEMS
from sottovoce.storage.database import Database

# Pragmas of both databases of a client: nothing private may reach a folder for temporary files.
CLIENT_PRAGMAS = ("temp_store = MEMORY",)

_TABLES = (
    # Recommending needs the order of the items, so `moment` counts calls and is no time.
    """CREATE TABLE interactions (
        item TEXT PRIMARY KEY,
        moment INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID""",
)


class History:
    """The database of touched items; the file is created if it does not exist."""

    def __init__(self, path: Path):
        self._db = Database(path, _TABLES, CLIENT_PRAGMAS, stays=True)

    def close(self) -> None:
        self._db.close()

    def check_file(self) -> None:
        """Raise a `LostError` if the file was removed or replaced."""
        self._db.check_file()

    def add(self, moments: Iterable[Iterable[str]]) -> int:
        """Add the items of some moments, the earliest first, and return how many are new.

        A known item moves to its latest moment. Beyond `MAX_HISTORY_ITEMS` the earliest items are
        dropped, and of one moment the last by name.
        """
        with self._db.transaction():
            before = self._count()
            # Numbers continue from the items that are there, so that `clear` leaves no trace.
            (last,) = self._db.row("SELECT coalesce(max(moment), 0) FROM interactions")
            self._db.add_all(
                "INSERT INTO interactions (item, moment) VALUES (?, ?)"
                " ON CONFLICT (item) DO UPDATE SET moment = excluded.moment",
                [
                    (item, moment)
                    for moment, items in enumerate(moments, start=last + 1)
                    for item in items
                ],
            )
            new = self._count() - before
            self._db.rows(
                "DELETE FROM interactions WHERE item IN ("
                " SELECT item FROM interactions ORDER BY moment DESC, item LIMIT -1 OFFSET ?"
                ")",
                MAX_HISTORY_ITEMS,
            )
            return new

    def remove(self, items: Iterable[str]) -> int:
        """Remove items as if they had never been added, and return how many were there."""
        with self._db.transaction():
            before = self._count()
            self._db.add_all("DELETE FROM interactions WHERE item = ?", [(item,) for item in items])
            # A gap between moments would tell that something was removed.
            self._db.rows(
                "UPDATE interactions SET moment = place FROM ("
                " SELECT item AS name, dense_rank() OVER (ORDER BY moment) AS place"
                " FROM interactions"
                ") WHERE item = name"
            )
            removed = before - self._count()
        self.scrub()
        return removed

    def clear(self) -> None:
        """Delete all items; their traces in the file remain until `scrub`."""
        self._db.write("DELETE FROM interactions")

    def scrub(self) -> None:
        """Remove the traces of deleted items from the file."""
        self._db.scrub()

    def get_moments(self) -> dict[str, int]:
        """Return the moment of each item, in the order of the items' names; later is larger."""
        return dict(self._db.rows("SELECT item, moment FROM interactions ORDER BY item"))

    def list_items(self) -> list[str]:
        """Return all items in the order of their names."""
        return list(self.get_moments())

    def _count(self) -> int:
        return int(self._db.row("SELECT count(*) FROM interactions")[0])
