"""The database with the items that the owner touched.

It is a file of its own, because a large import holds a file's write lock for a time that depends on
the history. A sync must not wait for that lock: it only reads this file, and readers do not wait
for writers. It writes to `client.db`.
"""

from collections.abc import Iterable
from pathlib import Path

from sottovoce.core.bounds import MAX_HISTORY_ITEMS
from sottovoce.storage.database import Database

# Pragmas of both databases of a client. SQLite keeps temporary tables in memory, so that no private
# data is written to the system's folder for temporary files.
CLIENT_PRAGMAS = ("temp_store = MEMORY",)

_TABLES = (
    # `moment` is not a time: recommending needs only the order of the items, so it is a counter.
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
        """Add items, grouped by moment with the earliest first, and return how many are new.

        An item that is already in the history moves to its latest moment. If there are more than
        `MAX_HISTORY_ITEMS` items, the earliest are dropped; of items of the same moment, those are
        dropped whose ids sort last.
        """
        with self._db.transaction():
            before = self._count()
            # The counter continues from the largest stored moment and is stored nowhere else, so
            # that `clear` leaves no trace of it.
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
            # Number the moments again: a gap would reveal that something was removed.
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
        """Delete all items; their bytes may remain in the file until `scrub` is called."""
        self._db.write("DELETE FROM interactions")

    def scrub(self) -> None:
        """Remove the bytes of deleted items from the file."""
        self._db.scrub()

    def get_moments(self) -> dict[str, int]:
        """Return the moment of each item, sorted by item; a later moment is a larger number."""
        return dict(self._db.rows("SELECT item, moment FROM interactions ORDER BY item"))

    def list_items(self) -> list[str]:
        """Return the ids of all items, sorted."""
        return list(self.get_moments())

    def _count(self) -> int:
        return int(self._db.row("SELECT count(*) FROM interactions")[0])
