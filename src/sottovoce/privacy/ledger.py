"""The ledger's rules: what a device has spent of its limit, exactly.

A ledger is a sequence of limits and charges to which records are only appended. Record 1 is a
limit; a later limit replaces it. A charge costs `epsilon * reports`. Sums are exact fractions of
the floats, so that no rounding errors add up. A charge that would exceed the limit is refused.
`purpose` names a batch: charging for the same batch again costs nothing.

Records are chained by hashes of the bytes that docs/protocol.md specifies. A reader that knows the
hash of the last record detects every record that was changed, left out or cut off. The hashes have
no key: they protect against accidents, not against the owner of the device.

This module does no input or output: `sottovoce.client.ledger_table` keeps the records.
"""

import hashlib
import json
import math
import operator
import re
from dataclasses import dataclass, field
from fractions import Fraction

from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError
from sottovoce.privacy.events import COIN_RHO

# The first record has this text in place of the hash of a previous record.
FORMAT_NAME = "sottovoce-ledger-1"
# Whole numbers in a record must be below this: some readers of JSON round larger ones.
_INTEGER_LIMIT = 2**53
_MECHANISM_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge for one batch: the epsilon of its reports, and the crowd that hides them.

    >>> Charge(bytes(16), 7, bytes(32), "loudest", 2.5, 4, 0.1, clients=100, dummies=0).cost
    Fraction(10, 1)
    """

    training: bytes
    """Id of the training, 16 bytes. A device takes part in a limited number of its epochs."""
    epoch: int
    purpose: bytes
    """Name of the batch, 32 bytes; use the SHA-256 of its sealed bytes. Sending the same bytes
    again costs nothing. A batch that is randomised again has another purpose and a new charge."""
    mechanism: str
    epsilon: float
    reports: int
    loud_fraction: float
    """rho of the terms; together with `clients` it determines the central epsilon."""
    clients: int
    """Size of the crowd that the terms enforced."""
    dummies: int
    """Number of dummies that the terms made the proxy add to the epoch."""

    def __post_init__(self) -> None:
        _set_frozen(self, "training", bytes(memoryview(self.training)))
        _set_frozen(self, "epoch", _check_int("epoch", self.epoch, minimum=0))
        _set_frozen(self, "epsilon", _check_amount("epsilon", self.epsilon))
        _set_frozen(self, "reports", _check_int("reports", self.reports, minimum=1))
        _set_frozen(self, "loud_fraction", _check_amount("loud_fraction", self.loud_fraction))
        _set_frozen(self, "clients", _check_int("clients", self.clients, minimum=1))
        _set_frozen(self, "dummies", _check_int("dummies", self.dummies, minimum=0))
        _set_frozen(self, "purpose", bytes(memoryview(self.purpose)))
        if self.epsilon == 0:
            raise SettingsError("epsilon is 0; it must be above 0")
        if not 0 < self.loud_fraction <= COIN_RHO:
            raise SettingsError(
                f"loud_fraction is {self.loud_fraction}; it must be above 0 and at most {COIN_RHO}"
            )
        if len(self.training) != 16:
            raise SettingsError(f"training is {self.training!r}; it must be 16 bytes")
        if len(self.purpose) != 32:
            raise SettingsError(f"purpose is {self.purpose!r}; it must be 32 bytes")
        if not _MECHANISM_PATTERN.fullmatch(self.mechanism):
            raise SettingsError(
                f"mechanism is {self.mechanism!r}; it must be 1 to 32 of a-z, 0-9, _ and -"
            )

    @property
    def cost(self) -> Fraction:
        """The exact product `epsilon * reports`."""
        # Not rounded to decimals: the float 0.1 is a little more than a tenth, and so is its cost.
        return Fraction(self.epsilon) * self.reports


@dataclass(frozen=True, slots=True)
class Limit:
    """A record that sets the limit for all charges after it. A limit of 0 stops all reporting."""

    epsilon: float

    def __post_init__(self) -> None:
        _set_frozen(self, "epsilon", _check_amount("limit", self.epsilon))


@dataclass(frozen=True, slots=True)
class Entry:
    """One record with its number, and the hash of the record before it."""

    record: int
    content: Charge | Limit
    previous: str
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        _set_frozen(self, "hash", hashlib.sha256(self.hash_input).hexdigest())

    @property
    def hash_input(self) -> bytes:
        """The bytes that are hashed (docs/protocol.md, section Ledger)."""
        fields = {"record": self.record, **_fields(self.content), "previous": self.previous}
        # The last byte, the closing brace, is not hashed.
        return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")[:-1]


class Ledger:
    """All records in order, and the sum of the charges.

    Records that are read from a disk are checked by the same rules as new ones.

    >>> import hashlib
    >>> ledger = Ledger(limit=50)
    >>> purpose = hashlib.sha256(b"sealed").digest()
    >>> batch = Charge(bytes(16), 1, purpose, "loudest", 2.5, 4, 0.1, clients=100, dummies=0)
    >>> once, again = ledger.charge(batch), ledger.charge(batch)
    >>> print(once is again, ledger.spent, ledger.remaining)
    True 10 40
    """

    def __init__(self, limit: float):
        self._limit = Limit(limit)
        self._charges: dict[bytes, Entry] = {}
        self.entries = [Entry(1, self._limit, FORMAT_NAME)]
        self.spent = Fraction(0)
        """The exact sum of all charges; `round_up` converts it to a float."""

    @property
    def limit(self) -> float:
        """The limit in force."""
        return self._limit.epsilon

    @property
    def remaining(self) -> Fraction:
        """The amount that may still be charged; 0 if the limit is below what is spent."""
        return max(Fraction(self.limit) - self.spent, Fraction(0))

    @property
    def head(self) -> str:
        """The hash of the last record. A copy kept elsewhere reveals a truncated ledger."""
        return self.entries[-1].hash

    @property
    def charges(self) -> list[Charge]:
        """All charges in order, including those whose batch was never sent."""
        return [entry.content for entry in self.entries if isinstance(entry.content, Charge)]

    def list_charges(self, training: bytes) -> list[Charge]:
        """Return the charges of one training."""
        return [charge for charge in self.charges if charge.training == training]

    def allows(self, cost: Fraction) -> bool:
        """Return whether this cost fits into the limit."""
        return self.spent + cost <= Fraction(self.limit)

    def charge(self, charge: Charge) -> Entry:
        """Charge for a batch. The batch must not be sent before the returned entry is on disk.

        Returns:
            The new record, or the earlier one if this batch was charged for before.

        Raises:
            BudgetExceededError: The charge does not fit into the limit.
            LedgerError: The same purpose was charged for something else.
        """
        # A batch that was charged before costs nothing more. So it is accepted even if the limit
        # was lowered in the meantime.
        earlier = self._charges.get(charge.purpose)
        if earlier is None:
            return self.add(charge)
        if earlier.content != charge:
            raise LedgerError(
                f"purpose {charge.purpose.hex()} was charged for {earlier.content}, now for "
                f"{charge}; a batch that was randomised again needs a purpose of its own"
            )
        return earlier

    def set_limit(self, limit: float) -> Entry | None:
        """Record another limit; return None if it is the current one."""
        new = Limit(limit)
        return None if new == self._limit else self.add(new)

    def add(self, content: Charge | Limit) -> Entry:
        """Append a record if the rules allow it."""
        entry = Entry(len(self.entries) + 1, content, self.head)
        if isinstance(content, Limit):
            self._limit = content
        else:
            self._check(content)
            self._charges[content.purpose] = entry
            self.spent += content.cost
        self.entries.append(entry)
        return entry

    def _check(self, charge: Charge) -> None:
        if charge.purpose in self._charges:
            raise LedgerError(f"purpose {charge.purpose.hex()} must be charged only once")
        if not self.allows(charge.cost):
            raise BudgetExceededError(
                f"batch costs epsilon {round_up(charge.cost)}, but at most "
                f"{round_down(self.remaining)} more may be spent under the limit {self.limit}; "
                "reporting stops, recommendations continue"
            )


def round_up(amount: Fraction) -> float:
    """Return the smallest float that is not below the amount.

    Ten reports of epsilon 0.1 cost more than 1.0, because the float 0.1 is more than a tenth. The
    limit that allows exactly ten of them is their sum, rounded up.

    >>> round_up(10 * Fraction(0.1))
    1.0000000000000002
    """
    try:
        nearest = float(amount)
    except OverflowError:
        return math.inf
    return nearest if nearest >= amount else math.nextafter(nearest, math.inf)


def round_down(amount: Fraction) -> float:
    """Return the largest float that is not above the amount."""
    return 0.0 - round_up(-amount)


def _fields(content: Charge | Limit) -> dict[str, object]:
    if isinstance(content, Limit):
        return {"limit": content.epsilon}
    charge = {
        "training": content.training.hex(),
        "epoch": content.epoch,
        "purpose": content.purpose.hex(),
        "mechanism": content.mechanism,
        "epsilon": content.epsilon,
        "reports": content.reports,
        "loud_fraction": content.loud_fraction,
        "clients": content.clients,
        "dummies": content.dummies,
    }
    return {"charge": charge}


def _set_frozen(frozen: object, name: str, value: object) -> None:
    object.__setattr__(frozen, name, value)


def _check_int(name: str, value: int, *, minimum: int) -> int:
    """Convert to an int that every reader of JSON reads exactly, or raise a `SettingsError`."""
    # A bool or a numpy integer must become an int, because the JSON of a record is hashed.
    number = operator.index(value)
    if not minimum <= number < _INTEGER_LIMIT:
        raise SettingsError(f"{name} is {value}; it must be at least {minimum} and below 2^53")
    return number


def _check_amount(name: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if number != value or not 0 <= number < math.inf:
        raise SettingsError(f"{name} must be a finite number of at least 0, got {value}")
    # -0.0 becomes 0.0: a database does not keep the sign of zero, but it would change the hash.
    return number + 0.0
