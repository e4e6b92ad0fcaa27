"""What the log and the head are made of: amounts, charges, limits, lines."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sottovoce.errors import SettingsError

FORMAT = "sottovoce-ledger-1"
"""Stands where the first record has no previous hash."""


LONGEST = 512
"""No line of a log is longer: what is, is not a torn record either."""


_MOST = 2**53
"""Whole numbers stay below, so that every JSON reader agrees about them."""


_MECHANISM = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


HASH = re.compile(r"[0-9a-f]{64}")


NOT_OURS = (KeyError, TypeError, ValueError, RecursionError)
"""What reading foreign bytes as JSON and as our fields can raise."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of one batch: `reports` of `epsilon` each.

    >>> Charge(epoch=7, purpose=bytes(32), mechanism="loudest", epsilon=2.5, reports=4).cost
    Fraction(10, 1)
    """

    epoch: int
    purpose: bytes
    """32 bytes that name the batch, best the SHA-256 of its sealed bytes: the same bytes again cost
    nothing, and the same data randomised anew is another purpose, so it is charged anew."""
    mechanism: str
    epsilon: float
    reports: int

    def __post_init__(self) -> None:
        _set(self, "epoch", whole("epoch", self.epoch, least=0))
        _set(self, "epsilon", _amount("epsilon", self.epsilon))
        _set(self, "reports", whole("reports", self.reports, least=1))
        _set(self, "purpose", bytes(memoryview(self.purpose)))
        if self.epsilon == 0:
            raise SettingsError("epsilon is 0; it must be above 0")
        if len(self.purpose) != 32:
            raise SettingsError(f"purpose is {self.purpose!r}; it must be 32 bytes")
        if not _MECHANISM.fullmatch(self.mechanism):
            raise SettingsError(
                f"mechanism is {self.mechanism!r}; it must be 1 to 32 of a-z, 0-9, _ and -"
            )

    @property
    def cost(self) -> Fraction:
        """`epsilon * reports`, exactly: of the float itself, not of the decimal it was typed as."""
        return Fraction(self.epsilon) * self.reports


@dataclass(frozen=True, slots=True)
class Limit:
    """The lifetime limit from here on. Zero stops all reporting."""

    epsilon: float

    def __post_init__(self) -> None:
        _set(self, "epsilon", _amount("limit", self.epsilon))


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the log, chained to the one before."""

    record: int
    what: Charge | Limit
    previous: str
    hash: str = field(init=False)
    line: bytes = field(init=False, repr=False)
    """The record as it stands in the log."""

    def __post_init__(self) -> None:
        fields = {"record": self.record, **_fields(self.what), "previous": self.previous}
        hashed = _json(fields)[:-1]
        _set(self, "hash", hashlib.sha256(hashed).hexdigest())
        _set(self, "line", hashed + f',"hash":"{self.hash}"}}\n'.encode("ascii"))


@dataclass(frozen=True, slots=True)
class Head:
    """Witnesses the end of a log: it has at least so many records, and the last has this hash."""

    records: int
    hash: str

    @property
    def line(self) -> bytes:
        """The head as it stands in its file."""
        return _json({"records": self.records, "hash": self.hash}) + b"\n"


def rounded_up(amount: Fraction) -> float:
    """The least float that is not below the amount: to show it, or to make a limit of it.

    Ten reports of 0.1 cost more than 1.0, because the float 0.1 is more than a tenth. The limit
    that allows exactly ten is the sum, rounded up.

    >>> rounded_up(10 * Fraction(0.1))
    1.0000000000000002
    """
    try:
        nearest = float(amount)
    except OverflowError:
        return math.inf
    return nearest if nearest >= amount else math.nextafter(nearest, math.inf)


def decoded(fields: dict[str, Any]) -> Charge | Limit:
    """What a record's fields say."""
    if "limit" in fields:
        return Limit(fields["limit"])
    charge = fields["charge"]
    return Charge(**{**charge, "purpose": bytes.fromhex(charge["purpose"])})


def _fields(what: Charge | Limit) -> dict[str, object]:
    if isinstance(what, Limit):
        return {"limit": what.epsilon}
    charge = {
        "epoch": what.epoch,
        "purpose": what.purpose.hex(),
        "mechanism": what.mechanism,
        "epsilon": what.epsilon,
        "reports": what.reports,
    }
    return {"charge": charge}


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")


def _set(frozen: object, name: str, value: object) -> None:
    object.__setattr__(frozen, name, value)


def whole(name: str, value: int, *, least: int) -> int:
    """The number itself, if every reader of JSON would agree about it."""
    number = operator.index(value)  # an int exactly: a bool would be written as one
    if not least <= number < _MOST:
        raise SettingsError(f"{name} is {value}; it must be at least {least} and below 2^53")
    return number


def _amount(name: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if number != value or not 0 <= number < math.inf:
        raise SettingsError(f"{name} is {value}; it must be a finite float64 of at least 0")
    return number
