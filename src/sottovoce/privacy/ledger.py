"""The ledger's rules: what a device has spent of its limit, exactly.

A ledger is a sequence of records, only ever appended to: limits and charges. Record 1 is a limit; a
later limit replaces it from there on. A charge costs `epsilon * reports`; sums are exact fractions
of the floats themselves, so nothing drifts or is rounded down. A charge that would go beyond the
limit is refused. `purpose` names a batch: the same charge again is no second one.

Records are chained by hashes, over the bytes that docs/protocol.md gives. Whoever keeps the hash of
the last record sees a record that was changed, left out or cut off. The hashes are not keyed: they
guard against accidents, not against the owner of the device.

Nothing is read or written here: `sottovoce.client.store` keeps the records in a table.
"""

import hashlib
import json
import math
import operator
import re
from dataclasses import dataclass, field
from fractions import Fraction

from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError
from sottovoce.privacy.events import SIGN

FORMAT = "sottovoce-ledger-1"
"""Stands where the first record has no previous hash."""

_MOST = 2**53
"""Whole numbers stay below, so that every JSON reader agrees about them."""

_MECHANISM = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of one batch: `reports` of `epsilon` each, and what hides them in a crowd.

    >>> Charge(bytes(16), 7, bytes(32), "loudest", 2.5, 4, 0.1, clients=100, dummies=0).cost
    Fraction(10, 1)
    """

    training: bytes
    """The 16 bytes that name the training: its epochs in a lifetime are counted by it."""
    epoch: int
    purpose: bytes
    """32 bytes that name the batch, best the SHA-256 of its sealed bytes: the same bytes again cost
    nothing, and the same data randomised anew is another purpose, so it is charged anew."""
    mechanism: str
    epsilon: float
    reports: int
    loud_fraction: float
    """rho of the terms in force, at most; with `clients` it decides what the server learns."""
    clients: int
    """The crowd that these terms enforced."""
    dummies: int
    """What these terms made the proxy add to the epoch."""

    def __post_init__(self) -> None:
        _set(self, "training", bytes(memoryview(self.training)))
        _set(self, "epoch", _whole("epoch", self.epoch, least=0))
        _set(self, "epsilon", _amount("epsilon", self.epsilon))
        _set(self, "reports", _whole("reports", self.reports, least=1))
        _set(self, "loud_fraction", _amount("loud_fraction", self.loud_fraction))
        _set(self, "clients", _whole("clients", self.clients, least=1))
        _set(self, "dummies", _whole("dummies", self.dummies, least=0))
        _set(self, "purpose", bytes(memoryview(self.purpose)))
        if self.epsilon == 0:
            raise SettingsError("epsilon is 0; it must be above 0")
        if not 0 < self.loud_fraction <= SIGN:
            raise SettingsError(
                f"loud_fraction is {self.loud_fraction}; it must be above 0 and at most {SIGN}"
            )
        if len(self.training) != 16:
            raise SettingsError(f"training is {self.training!r}; it must be 16 bytes")
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
    """The limit from here on. Zero stops all reporting."""

    epsilon: float

    def __post_init__(self) -> None:
        _set(self, "epsilon", _amount("limit", self.epsilon))


@dataclass(frozen=True, slots=True)
class Entry:
    """One record, chained to the one before."""

    record: int
    what: Charge | Limit
    previous: str
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        _set(self, "hash", hashlib.sha256(self.hashed).hexdigest())

    @property
    def hashed(self) -> bytes:
        """As docs/protocol.md has it."""
        fields = {"record": self.record, **_fields(self.what), "previous": self.previous}
        return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")[:-1]


class Ledger:
    """Records in order and what they add up to. Reading and adding go through the same rules.

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
        self.entries = [Entry(1, self._limit, FORMAT)]
        self.spent = Fraction(0)
        """Everything charged so far, exactly; `rounded_up` makes a float of it."""

    @property
    def limit(self) -> float:
        """The limit in force."""
        return self._limit.epsilon

    @property
    def remaining(self) -> Fraction:
        """What may still be charged; never below 0, also when the limit was lowered."""
        return max(Fraction(self.limit) - self.spent, Fraction(0))

    @property
    def head(self) -> str:
        """The hash of the last record: kept apart, it shows that none is missing at the end."""
        return self.entries[-1].hash

    @property
    def charges(self) -> list[Charge]:
        """In order, whatever became of the batches."""
        return [entry.what for entry in self.entries if isinstance(entry.what, Charge)]

    def charges_of(self, training: bytes) -> list[Charge]:
        """What was charged for one training."""
        return [charge for charge in self.charges if charge.training == training]

    def allows(self, cost: Fraction) -> bool:
        """Whether the limit leaves room for this."""
        return self.spent + cost <= Fraction(self.limit)

    def charge(self, charge: Charge) -> Entry:
        """The price of a batch. The batch may leave when this is on disk, not before.

        The same charge again adds nothing and returns the earlier record, also beyond a limit that
        was lowered since: it is spent already. The same purpose for anything else is an error.
        """
        earlier = self._charges.get(charge.purpose)
        if earlier is None:
            return self.add(charge)
        if earlier.what != charge:
            raise LedgerError(
                f"purpose {charge.purpose.hex()} was charged for {earlier.what}, now for {charge}; "
                "a batch that was randomised again needs a purpose of its own"
            )
        return earlier

    def set_limit(self, limit: float) -> Entry | None:
        """Raise or lower the limit, on the record; None if it is that already."""
        wanted = Limit(limit)
        return None if wanted == self._limit else self.add(wanted)

    def add(self, what: Charge | Limit) -> Entry:
        """The next record, if the rules allow it."""
        entry = Entry(len(self.entries) + 1, what, self.head)
        if isinstance(what, Limit):
            self._limit = what
        else:
            self._check(what)
            self._charges[what.purpose] = entry
            self.spent += what.cost
        self.entries.append(entry)
        return entry

    def _check(self, charge: Charge) -> None:
        if charge.purpose in self._charges:
            raise LedgerError(f"purpose {charge.purpose.hex()} must be charged once")
        excess = self.spent + charge.cost - Fraction(self.limit)
        if excess > 0:
            raise BudgetExceededError(
                f"epsilon {rounded_up(charge.cost)} on top of {rounded_up(self.spent)} spent must "
                f"not exceed the limit of {self.limit}, and does by {rounded_up(excess)}; "
                "nothing may be reported, recommending goes on"
            )


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


def rounded_down(amount: Fraction) -> float:
    """The largest float that is not above the amount: what is left is never overstated."""
    return 0.0 - rounded_up(-amount)


def _fields(what: Charge | Limit) -> dict[str, object]:
    if isinstance(what, Limit):
        return {"limit": what.epsilon}
    charge = {
        "training": what.training.hex(),
        "epoch": what.epoch,
        "purpose": what.purpose.hex(),
        "mechanism": what.mechanism,
        "epsilon": what.epsilon,
        "reports": what.reports,
        "loud_fraction": what.loud_fraction,
        "clients": what.clients,
        "dummies": what.dummies,
    }
    return {"charge": charge}


def _set(frozen: object, name: str, value: object) -> None:
    object.__setattr__(frozen, name, value)


def _whole(name: str, value: int, *, least: int) -> int:
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
        raise SettingsError(f"{name} must be a finite number of at least 0, got {value}")
    return number + 0.0  # -0.0 becomes 0.0: a database keeps no sign of zero, and the hash has it
