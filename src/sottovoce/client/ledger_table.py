"""The ledger as rows of a table in `client.db`.

Each row has the hash of its record (`sottovoce.privacy.ledger`), and the table `about` has the hash
of the last one. So a row that was changed or removed is noticed, and then nothing is reported.
"""

from dataclasses import fields
from typing import Any

from sottovoce.errors import LedgerError, SettingsError
from sottovoce.privacy import Charge, Entry, Ledger, Limit
from sottovoce.storage.database import Database

_CHARGE_FIELDS = [field.name for field in fields(Charge)]
# The columns of a charge, in the order of its fields.
CHARGE_COLUMNS = ", ".join(_CHARGE_FIELDS)
# One statement, because another process may append while we read.
_SELECT_RECORDS = (
    f"SELECT (SELECT head FROM about), record, hash, {CHARGE_COLUMNS} FROM ledger ORDER BY record"  # noqa: S608 - names of our own
)


def read_ledger(db: Database) -> Ledger:
    """Read all records and verify each of them.

    Raises:
        LedgerError: A record or the hash of the last one is not what was written.
    """
    try:
        rows = db.rows(_SELECT_RECORDS)
        first = _parse_content(rows[0][3:]) if rows else None
        if not isinstance(first, Limit):
            raise ValueError("it does not begin with a limit")
        ledger = Ledger(first.epsilon)
        for row in rows[1:]:
            ledger.add(_parse_content(row[3:]))
        for entry, row in zip(ledger.entries, rows, strict=True):
            if (entry.record, entry.hash) != row[1:3]:
                raise ValueError(f"record {entry.record} is not the one that was written")
        if ledger.head != rows[-1][0]:
            raise ValueError("its last record is not the one that was written last")
        return ledger
    # A damaged row may also have values of wrong types.
    except (LedgerError, SettingsError, TypeError, ValueError) as error:
        # Never a `BudgetExceededError`, which would mean that only the limit is reached.
        raise LedgerError(
            f"{db.path}: the ledger is damaged: {error}; what was spent is not known, so "
            "nothing may be reported until it is restored"
        ) from error


def append_entry(db: Database, entry: Entry) -> None:
    """Append a record within the caller's transaction."""
    # Of these columns a limit fills only epsilon.
    columns = [getattr(entry.content, name, None) for name in _CHARGE_FIELDS]
    places = ", ".join("?" * (2 + len(columns)))
    db.rows(
        f"INSERT INTO ledger (record, hash, {CHARGE_COLUMNS}) VALUES ({places})",  # noqa: S608 - names of our own
        *(entry.record, entry.hash, *columns),
    )
    db.rows("UPDATE about SET head = ?", entry.hash)


def _parse_content(columns: tuple[Any, ...]) -> Charge | Limit:
    values = dict(zip(_CHARGE_FIELDS, columns, strict=True))
    return Limit(values["epsilon"]) if values["training"] is None else Charge(**values)
