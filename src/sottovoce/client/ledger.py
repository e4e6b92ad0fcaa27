"""The ledger's table: read back and checked, appended to in a transaction of the caller's.

Each row has the hash of its record (`sottovoce.privacy.ledger`), and the table `about` that of the
last one: a row that was changed, or is missing anywhere, is noticed, and then nothing is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import LedgerError, SettingsError
from sottovoce.privacy import Charge, Ledger, Limit

if TYPE_CHECKING:
    from typing import Any

    from sottovoce.privacy import Entry
    from sottovoce.storage import Database

# In one statement: another process may append while we read.
_RECORDS = (
    "SELECT (SELECT head FROM about), record, hash,"
    " epsilon, training, epoch, purpose, mechanism, reports, loud_fraction, clients"
    " FROM ledger ORDER BY record"
)
_APPEND = (
    "INSERT INTO ledger"
    " (record, hash, epsilon, training, epoch, purpose, mechanism, reports, loud_fraction, clients)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class LedgerReader:
    """Reads the table of one database: always all rows, but each record is proved once.

    A device asks several times in a sync, for years: chaining every record again would cost more
    than anything else it does.
    """

    def __init__(self, db: Database):
        self._db = db
        self._rows: list[Any] = []
        self._proved: Ledger | None = None

    def read(self) -> Ledger:
        """All that was ever recorded; a `LedgerError` if it is not whole."""
        try:
            return self._proved_from(self._db.rows(_RECORDS))
        except (LedgerError, SettingsError, TypeError, ValueError) as error:  # no longer our types
            # Not a `BudgetExceededError`, whatever was found: that would be the limit's plain end.
            raise LedgerError(
                f"{self._db.path}: the ledger is damaged: {error}; what was spent is not known, so "
                "nothing may be reported until it is restored"
            ) from error

    def _proved_from(self, found: list[Any]) -> Ledger:
        head, rows = found[-1][0] if found else None, [row[1:] for row in found]
        known = len(self._rows)
        if self._proved is None or rows[:known] != self._rows:
            known, ledger = 1, _begun(rows)
        else:
            ledger = self._proved.copy()
        for _, _, *columns in rows[known:]:
            ledger.add(_what(*columns))
        for entry, row in zip(ledger.entries, rows, strict=True):
            if (entry.record, entry.hash) != row[:2]:
                raise LedgerError(f"record {entry.record} is not the one that was written")
        if ledger.head != head:
            raise LedgerError("its last record is not the one that was written last")
        self._rows, self._proved = rows, ledger.copy()
        return ledger


def append_entry(db: Database, entry: Entry) -> None:
    db.rows(_APPEND, entry.record, entry.hash, *_columns(entry.what))
    db.rows("UPDATE about SET head = ?", entry.hash)


def _begun(rows: list[Any]) -> Ledger:
    """With the first record alone."""
    first = _what(*rows[0][2:]) if rows else None
    if not isinstance(first, Limit):
        raise LedgerError("it does not begin with a limit")
    return Ledger(first.epsilon)


def _columns(what: Charge | Limit) -> tuple[object, ...]:
    if isinstance(what, Limit):
        return what.epsilon, *[None] * 7
    named = what.training, what.epoch, what.purpose, what.mechanism
    return what.epsilon, *named, what.reports, what.loud_fraction, what.clients


def _what(epsilon: float, *charged: Any) -> Charge | Limit:
    training, epoch, purpose, mechanism, *hidden = charged
    if training is None:
        return Limit(epsilon)
    return Charge(training, epoch, purpose, mechanism, epsilon, *hidden)
