"""Reading a log back: what it says, whether it holds together, whether its end is missing."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.errors import BudgetExceededError, LedgerError
from sottovoce.privacy.ledger.records import (
    FORMAT,
    HASH,
    LONGEST,
    NOT_OURS,
    Charge,
    Entry,
    Head,
    Limit,
    decoded,
    rounded_up,
    whole,
)

if TYPE_CHECKING:
    from pathlib import Path


class History:
    """What the records add up to. Reading and writing go through the same rules."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.spent = Fraction(0)
        self.size = 0
        self._limits: list[Entry] = []
        self._by_purpose: dict[bytes, Entry] = {}

    @property
    def limit_entry(self) -> Entry:
        """The limit that holds now."""
        return self._limits[-1]

    @property
    def limit(self) -> float:
        """How much may be spent in all."""
        return self.limit_entry.what.epsilon

    @property
    def head(self) -> Head:
        """The end, as a witness would have it."""
        return Head(len(self.entries), self.entries[-1].hash)

    def contains(self, head: Head) -> bool:
        """Whether that was once its end."""
        if not 1 <= head.records <= len(self.entries):
            return False
        return self.entries[head.records - 1].hash == head.hash

    def same(self, charge: Charge) -> Entry | None:
        """The earlier entry of this very charge."""
        earlier = self._by_purpose.get(charge.purpose)
        if earlier is not None and earlier.what != charge:
            raise LedgerError(
                f"purpose {charge.purpose.hex()} was charged for {earlier.what}, now for {charge}; "
                "a batch that was randomised anew needs a purpose of its own"
            )
        return earlier

    def entry(self, what: Charge | Limit) -> Entry:
        """The next entry, if the rules allow it; it is not yet part of the history."""
        if isinstance(what, Charge):
            self._check(what)
        previous = self.entries[-1].hash if self.entries else FORMAT
        return Entry(len(self.entries) + 1, what, previous)

    def add(self, entry: Entry) -> None:
        """The next record."""
        self.entries.append(entry)
        self.size += len(entry.line)
        if isinstance(entry.what, Limit):
            self._limits.append(entry)
        else:
            self._by_purpose[entry.what.purpose] = entry
            self.spent += entry.what.cost

    def _check(self, charge: Charge) -> None:
        if not self._limits:
            raise LedgerError("a log begins with its limit")
        if charge.purpose in self._by_purpose:
            raise LedgerError(f"purpose {charge.purpose.hex()} is charged twice")
        excess = self.spent + charge.cost - Fraction(self.limit)
        if excess > 0:
            raise BudgetExceededError(
                f"epsilon {rounded_up(charge.cost)} on top of {rounded_up(self.spent)} spent goes "
                f"{rounded_up(excess)} beyond the lifetime limit of {self.limit}; "
                "nothing may be reported, recommending goes on"
            )


def read_log(file: io.FileIO) -> tuple[History, bool]:
    """Its records, and whether a torn one lies behind them."""
    history = History()
    reader = io.BufferedReader(file)
    try:
        while line := reader.readline(LONGEST + 1):
            if not line.endswith(b"\n") and len(line) <= LONGEST:
                return history, True
            history.add(_decode(line, history))
    finally:
        reader.detach()
    return history, False


def _decode(line: bytes, history: History) -> Entry:
    number = len(history.entries) + 1
    try:
        entry = history.entry(decoded(json.loads(line)))
    except NOT_OURS as error:
        raise LedgerError(f"record {number} is damaged: {error}") from error
    except LedgerError as error:
        raise LedgerError(f"record {number} cannot stand: {error}") from error
    if entry.line != line:
        raise LedgerError(f"record {number} is damaged or does not follow the one before")
    return entry


def read_head(path: Path) -> Head | None:
    """The witness, or None where there is none."""
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(content)
        head = Head(whole("records", fields["records"], least=1), fields["hash"])
        known = head.line == content and HASH.fullmatch(head.hash)
    except NOT_OURS as error:
        raise LedgerError(f"{path.name} is damaged: {error}") from error
    if not known:
        raise LedgerError(f"{path.name} is damaged")
    return head


def judge(history: History, head: Head | None, *, torn: bool) -> None:
    """Refuse everything that no crash can leave; the module's docstring has the argument."""
    found = len(history.entries)
    if found == 0:
        raise LedgerError("the log is empty; restore it")
    if head is None:
        if found > 1 or torn:
            raise LedgerError("the log's head is missing, so its end cannot be trusted; restore it")
        return
    if head.records > found:
        raise LedgerError(f"the log was shortened: {found} records of {head.records}; restore it")
    if not history.contains(head):
        raise LedgerError(f"record {head.records} is not the one that the head knows; restore both")
    if found - head.records + torn > 1:
        raise LedgerError(f"the head is old: it counts {head.records} records of {found}")


def head_of(log: Path) -> Path:
    """Where a log's witness is."""
    return log.with_name(log.name + ".head")
