"""Charges: what one costs, what becomes of it, what is shown, and the bytes of the chain."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any, NamedTuple

CHAIN = "sottovoce-ledger-1"
"""What stands before the first record."""


class Charge(NamedTuple):
    training: str
    epoch: int
    purpose: str
    mechanism: str
    epsilon: float
    reports: int
    loud_fraction: float
    clients: int

    @property
    def amount(self) -> Fraction:
        return Fraction(self.epsilon) * self.reports


def spent(charges: Iterable[Charge]) -> Fraction:
    return sum((charge.amount for charge in charges), Fraction(0))


def decide(limit: float, charges: Sequence[Charge], charge: Charge) -> str:
    """What becomes of a charge."""
    for old in charges:
        if old.purpose == charge.purpose:
            return "known" if old == charge else "contradicted"
    return "charged" if fits(limit, charges, charge.amount) else "refused"


def fits(limit: float, charges: Iterable[Charge], amount: Fraction) -> bool:
    return spent(charges) + amount <= Fraction(limit)


def shown(limit: float, charges: Iterable[Charge]) -> tuple[float, float]:
    """Spent, rounded up, and the rest, rounded down."""
    amount = spent(charges)
    rest = max(Fraction(limit) - amount, Fraction(0))
    up, down = float(amount), float(rest)
    if Fraction(up) < amount:
        up = math.nextafter(up, math.inf)
    if Fraction(down) > rest:
        down = math.nextafter(down, 0.0)
    return up, down


def record(number: int, content: dict[str, Any], previous: str) -> bytes:
    """What is hashed of a limit or a charge."""
    fields = {"record": number, **content, "previous": previous}
    return json.dumps(fields, separators=(",", ":")).encode("ascii")[:-1]


def name(hashed: bytes) -> str:
    return sha256(hashed).hexdigest()
