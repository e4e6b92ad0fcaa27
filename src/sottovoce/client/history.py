"""What the owner touched, in a file of its own: writing it keeps no sync waiting.

A large import holds the write lock of its file for as long as it takes, which depends on the
history. So a sync only ever reads this one, which waits for no writer, and writes another.
"""

from collections.abc import Iterable
from pathlib import Path

from sottovoce.core.bounds import MAX_HISTORY_ITEMS
from sottovoce.storage.database import Database

PRAGMAS = ("temp_store = MEMORY",)
"""Of both databases of a client: nothing private in a folder for temporary files."""

_MIGRATIONS = (
    (
        # The items and their order, which weighs them when recommending, and no time.
        """CREATE TABLE interactions (
            item TEXT PRIMARY KEY,
            moment INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID""",
    ),
)


class History:
    def __init__(self, path: Path):
        """Made if it is not there."""
        self._db = Database(path, _MIGRATIONS, PRAGMAS)

    def close(self) -> None:
        self._db.close()

    def add(self, moments: Iterable[Iterable[str]]) -> int:
        """Items that were touched, moment after moment; how many of them are new.

        One that is known already moves to its latest moment. Moments are counted on from the last
        one that is there, so that nothing is left of them after `clear`. Beyond
        `MAX_HISTORY_ITEMS` the earliest are dropped, and of one moment the last by name.
        """
        with self._db.transaction():
            before = self._count()
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
        """As if they had never been added; how many were there.

        Moments are counted anew, since a gap would tell that something was there.
        """
        with self._db.transaction():
            before = self._count()
            self._db.add_all("DELETE FROM interactions WHERE item = ?", [(item,) for item in items])
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
        """Without traces only after `scrub`."""
        self._db.write("DELETE FROM interactions")

    def scrub(self) -> None:
        self._db.scrub()

    def get_moments(self) -> dict[str, int]:
        """All of them in the order of their names, each with its moment: a later one is larger."""
        return dict(self._db.rows("SELECT item, moment FROM interactions ORDER BY item"))

    def list_items(self) -> list[str]:
        """All of them, in the order of their names."""
        return list(self.get_moments())

    def _count(self) -> int:
        return int(self._db.row("SELECT count(*) FROM interactions")[0])
