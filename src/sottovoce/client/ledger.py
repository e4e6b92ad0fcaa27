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
    " epsilon, training, epoch, at, purpose, mechanism, reports FROM ledger ORDER BY record"
)
_APPEND = (
    "INSERT INTO ledger"
    " (record, hash, epsilon, training, epoch, at, purpose, mechanism, reports)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def read_ledger(db: Database) -> Ledger:
    """All that was ever recorded; a `LedgerError` if it is not whole."""
    try:
        return _read_all(db.rows(_RECORDS))
    except (LedgerError, SettingsError, TypeError, ValueError) as error:  # no longer our types
        # Not a `BudgetExceededError`, whatever was found: that would be the limit's plain end.
        raise LedgerError(
            f"{db.path}: the ledger is damaged: {error}; what was spent is not known, so nothing "
            "may be reported until it is restored"
        ) from error


def append_entry(db: Database, entry: Entry) -> None:
    db.rows(_APPEND, entry.record, entry.hash, *_columns(entry.what))
    db.rows("UPDATE about SET head = ?", entry.hash)


def _read_all(rows: list[Any]) -> Ledger:
    records = [_what(*columns) for _, _, _, *columns in rows]
    if not records or not isinstance(records[0], Limit):
        raise LedgerError("it does not begin with a limit")
    ledger = Ledger(records[0].epsilon)
    for record in records[1:]:
        ledger.add(record)
    for entry, (_, number, known, *_) in zip(ledger.entries, rows, strict=True):
        if (entry.record, entry.hash) != (number, known):
            raise LedgerError(f"record {entry.record} is not the one that was written")
    if ledger.head != rows[-1][0]:
        raise LedgerError("its last record is not the one that was written last")
    return ledger


def _columns(what: Charge | Limit) -> tuple[object, ...]:
    if isinstance(what, Limit):
        return what.epsilon, None, None, None, None, None, None
    charged = what.training, what.epoch, what.at, what.purpose, what.mechanism, what.reports
    return what.epsilon, *charged


def _what(epsilon: float, *charged: Any) -> Charge | Limit:
    training, epoch, at, purpose, mechanism, reports = charged
    if training is None:
        return Limit(epsilon)
    return Charge(training, epoch, at, purpose, mechanism, epsilon, reports)
