"""The table of `client.db` that stores the ledger, one record in each row.

Each row has the hash of its record (`sottovoce.privacy.ledger`). The table `about` has the hash of
the last record, in its column `head`. So `read_ledger` notices a row that was changed or removed,
and then nothing is reported.
"""

from dataclasses import fields
from typing import Any

from sottovoce.errors import LedgerError, SettingsError
from sottovoce.privacy import Charge, Entry, Ledger, Limit
from sottovoce.storage.database import Database

_CHARGE_FIELDS = [field.name for field in fields(Charge)]
# The columns of the table that store a charge, in the order of the fields of `Charge`.
CHARGE_COLUMNS = ", ".join(_CHARGE_FIELDS)
# A single statement reads the head and the records, because another process may append meanwhile.
_SELECT_RECORDS = (
    "SELECT (SELECT head FROM settings), record, hash, "  # noqa: S608 - names of our own
    f"{CHARGE_COLUMNS} FROM ledger ORDER BY record"
)


def read_ledger(db: Database) -> Ledger:
    """Read all records and verify their hashes.

    Raises:
        LedgerError: A record was changed or removed, or the hash of the last record was.
    """
    try:
        rows = db.rows(_SELECT_RECORDS)
        first = _parse_content(rows[0][3:]) if rows else None
        if not isinstance(first, Limit):
            raise ValueError("its first record must be a limit")
        ledger = Ledger(first.epsilon)
        for row in rows[1:]:
            ledger.add(_parse_content(row[3:]))
        for entry, row in zip(ledger.entries, rows, strict=True):
            if (entry.record, entry.hash) != row[1:3]:
                raise ValueError(f"record {entry.record} is not the one that was written")
        if ledger.head != rows[-1][0]:
            raise ValueError("its last record is not the one that was written last")
        return ledger
    # `TypeError`: a damaged row may have values of wrong types.
    except (LedgerError, SettingsError, TypeError, ValueError) as error:
        # A `BudgetExceededError` is converted too: the caller would take it for a limit that is
        # reached, not for damage.
        raise LedgerError(
            f"{db.path}: the ledger is damaged: {error}; what was spent is not known, so "
            "nothing may be reported until it is restored"
        ) from error


def append_entry(db: Database, entry: Entry) -> None:
    """Append a record; the caller has begun a transaction."""
    # A limit has only the field `epsilon`; its other columns are NULL.
    columns = [getattr(entry.content, name, None) for name in _CHARGE_FIELDS]
    places = ", ".join("?" * (2 + len(columns)))
    db.rows(
        f"INSERT INTO ledger (record, hash, {CHARGE_COLUMNS}) VALUES ({places})",  # noqa: S608 - names of our own
        *(entry.record, entry.hash, *columns),
    )
    db.rows("UPDATE settings SET head = ?", entry.hash)


def _parse_content(columns: tuple[Any, ...]) -> Charge | Limit:
    values = dict(zip(_CHARGE_FIELDS, columns, strict=True))
    return Limit(values["epsilon"]) if values["training"] is None else Charge(**values)
