"""The ledger: what this device has spent of its lifetime budget, whatever happens to it.

A batch is charged *before* it leaves. When the lifetime limit is reached the ledger refuses, and
the client stops reporting; it never stops recommending. The ledger may count a batch that never
left (a crash came between), but never the other way round.

The log
-------
A text file, one record a line, only ever appended to (here broken to fit the page):

    {"record":1,"limit":50.0,"previous":"sottovoce-ledger-1","hash":"6e..."}
    {"record":2,"charge":{"epoch":7,"purpose":"ab...","mechanism":"loudest","epsilon":2.5,
     "reports":4},"previous":"6e...","hash":"1f..."}

- Bytes: ASCII JSON without spaces, keys in exactly this order, one newline (0x0A) at the end, at
  most `LONGEST` bytes with it. What does not encode again to the same bytes is refused.
- `record` counts from 1. Record 1 is a limit. A later limit replaces it from there on.
- `purpose` is 32 bytes in lower-case hexadecimal, once in a log: it names the batch.
- `epsilon` and `limit` are float64 in the shortest form that reads back as the same float. A
  charge costs `epsilon * reports`; sums are exact fractions, so nothing drifts or is rounded down.
- `previous` is the `hash` of the record before; in record 1 it is the name of this format.
- `hash` is the SHA-256, in lower-case hexadecimal, of the line's bytes before `,"hash"`.

The head
--------
A chain of hashes cannot show that its end was cut off. So a second file, the log's name with
`.head` added, witnesses the end: `{"records":2,"hash":"1f..."}` and a newline. It is replaced in
one step.

Why a crash never loses a charge
--------------------------------
`charge` does, in this order: (1) append the record, (2) sync the log, (3) write and sync a new head
under another name, (4) rename it over the old head, (5) sync the folder, and returns only then. So:

- whatever was acknowledged is in the synced log *and* in the synced head;
- a crash before (4) lasts leaves the old head and, behind the records that it counts, either one
  whole record, which is kept (it counts more, never less), or part of one, which is dropped:
  `charge` had not returned, so nothing had left under it;
- a crash later leaves both files complete.

A head that counts more than the log holds therefore means that the log was shortened, and more than
one uncounted record means that the head is old: both are refused, as is everything else that no
crash can leave. Opening settles what it found (drops, or syncs and counts, the last record) before
anything else is written. After a failed write or sync the object refuses everything until the
ledger is opened anew: what a file system holds after a failed sync is not known.

Creating writes the whole log under another name, links it into place (which fails if one is there),
and leaves the head to `open`. A log of one record without a head is thus a creation cut short; with
more records a missing head is refused. A head without a log is a lost log, and `create` refuses it.

What it cannot see: both files set back together to an earlier state, as a restored backup does. A
caller with storage of its own keeps `Ledger.head` there and gives it to `open` as `at_least`. The
hashes are not keyed: they guard against accidents, not against the owner of the device.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import operator
import os
import re
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import BudgetExceededError, LedgerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

FORMAT = "sottovoce-ledger-1"
"""Stands where the first record has no previous hash."""

LONGEST = 512
"""No line of a log is longer: what is, is not a torn record either."""

_MOST = 2**53
"""Whole numbers stay below, so that every JSON reader agrees about them."""

_MECHANISM = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HASH = re.compile(r"[0-9a-f]{64}")
_NOT_OURS = (KeyError, TypeError, ValueError, RecursionError)
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
        _set(self, "epoch", _whole("epoch", self.epoch, least=0))
        _set(self, "epsilon", _amount("epsilon", self.epsilon))
        _set(self, "reports", _whole("reports", self.reports, least=1))
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


class Disk:
    """The few things done to files, in one place so that tests can crash between any two."""

    def write(self, file: io.FileIO, content: bytes) -> None:
        """All of it, at the file's position."""
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]

    def truncate(self, file: io.FileIO, size: int) -> None:
        """Drop what lies beyond."""
        file.truncate(size)

    def sync(self, file: io.FileIO) -> None:
        """Return when the content would survive a power cut."""
        os.fsync(file.fileno())

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in it would survive a power cut."""
        if sys.platform == "win32":
            return  # A folder cannot be opened there, and NTFS keeps a journal of its names.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, source: Path, target: Path) -> None:
        """Rename in one step over whatever is there."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name; fails if something has it."""
        target.hardlink_to(source)

    def remove(self, path: Path) -> None:
        """Forget a name."""
        path.unlink()


DISK = Disk()


class Ledger:
    """The only writer of one log. Close it, or use it in a `with`, to let another one write.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.create(Path(folder) / "ledger", limit=50) as ledger:
    ...         batch = Charge(1, hashlib.sha256(b"sealed").digest(), "loudest", 2.5, reports=4)
    ...         once, again = ledger.charge(batch), ledger.charge(batch)
    ...         print(once is again, ledger.spent, ledger.remaining)
    True 10 40
    """

    def __init__(self, path: Path, file: io.FileIO, history: _History, disk: Disk):
        """For `create` and `open`, which check and settle first."""
        self._path = path
        self._file = file
        self._history = history
        self._disk = disk
        self._usable = True
        self._owner = os.getpid()
        self._threads = threading.Lock()

    @classmethod
    def create(cls, path: Path | str, limit: float, *, disk: Disk = DISK) -> Self:
        """Begin a ledger, once in the life of a device; refuses if there is or was one.

        The folder must be there already. Call this on enrolment, never because `open` failed.
        """
        path = _real(path)
        first = _History().entry(Limit(limit))
        with _failing_closed(path):
            if _head_of(path).exists():
                raise LedgerError("a ledger is or was here; open it, or find its log")
            _place(path, first.line, disk)
        return cls.open(path, disk=disk)

    @classmethod
    def open(cls, path: Path | str, *, at_least: Head | None = None, disk: Disk = DISK) -> Self:
        """Take the ledger up where it was; refuses what is missing, damaged, shortened or in use.

        `at_least` is an earlier `head` that the caller kept: a log that does not contain it is
        refused, even when log and head were set back together.
        """
        path = _real(path)
        with _failing_closed(path):
            file = _open_locked(path)
            try:
                history, torn = _read_log(file)
                head = _read_head(_head_of(path))
                _judge(history, head, torn=torn)
                if at_least is not None and not history.contains(at_least):
                    raise LedgerError(f"the log does not reach record {at_least.records} as known")
                _settle(path, file, history, head, torn=torn, disk=disk)
            except BaseException:
                file.close()
                raise
        return cls(path, file, history, disk)

    def charge(self, charge: Charge) -> Entry:
        """Record the price of a batch. The batch may leave when this has returned, not before.

        The same charge again writes nothing and returns the earlier entry, also beyond a limit that
        was lowered since: it is spent already. The same purpose for anything else is an error.
        """
        with self._threads:
            self._check_usable()
            return self._history.same(charge) or self._append(charge)

    def set_limit(self, limit: float) -> Entry:
        """Raise or lower the lifetime limit, on the record; the same limit again writes nothing."""
        with self._threads:
            self._check_usable()
            wanted = Limit(limit)
            in_force = self._history.limit_entry
            return in_force if in_force.what == wanted else self._append(wanted)

    @property
    def path(self) -> Path:
        """Where the log is."""
        return self._path

    @property
    def limit(self) -> float:
        """The lifetime limit in force."""
        return self._history.limit

    @property
    def spent(self) -> Fraction:
        """Everything charged so far, exactly; `rounded_up` makes a float of it."""
        return self._history.spent

    @property
    def remaining(self) -> Fraction:
        """What may still be charged; never below 0, also when the limit was lowered."""
        return max(Fraction(self.limit) - self.spent, Fraction(0))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every record, in order."""
        return tuple(self._history.entries)

    @property
    def head(self) -> Head:
        """For a caller to keep elsewhere and to give to `open` later."""
        return self._history.head

    def close(self) -> None:
        """Let go of the log; everything is on disk already."""
        with self._threads:
            self._usable = False
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, what: Charge | Limit) -> Entry:
        entry = self._history.entry(what)
        with _failing_closed(self._path):
            self._usable = False  # until all of it is done: what failed half-way is settled by open
            self._file.seek(self._history.size)
            self._disk.write(self._file, entry.line)
            self._disk.sync(self._file)
            _write_head(self._path, Head(entry.record, entry.hash), self._disk)
            self._history.add(entry)
            self._usable = True
        return entry

    def _check_usable(self) -> None:
        """A charge into a file that is gone, or that another process writes, is no charge."""
        if not self._usable:
            raise LedgerError(f"{self._path}: closed, or a write has failed; open the ledger anew")
        if os.getpid() != self._owner:
            raise LedgerError(f"{self._path}: opened by another process before a fork")
        with _failing_closed(self._path):
            ours, named = os.fstat(self._file.fileno()), self._path.stat()
            if not os.path.samestat(ours, named) or ours.st_size != self._history.size:
                self._usable = False
                raise LedgerError("the log was changed or moved while in use; restore it")


class _History:
    """What the records add up to. Reading and writing go through the same rules."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.spent = Fraction(0)
        self.size = 0
        self._limits: list[Entry] = []
        self._by_purpose: dict[bytes, Entry] = {}

    @property
    def limit_entry(self) -> Entry:
        return self._limits[-1]

    @property
    def limit(self) -> float:
        return self.limit_entry.what.epsilon

    @property
    def head(self) -> Head:
        return Head(len(self.entries), self.entries[-1].hash)

    def contains(self, head: Head) -> bool:
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


def _open_locked(path: Path) -> io.FileIO:
    if not path.exists():
        raise LedgerError(
            "there is no ledger; if this device has reported before, what it spent is not known, "
            "so restore the file; create one only for a device that never reported"
        )
    if not path.is_file():  # a pipe would make the reader wait for ever
        raise LedgerError("this is not a file")
    file = path.open("r+b", buffering=0)
    try:
        _lock(file)
    except OSError as error:
        file.close()
        raise LedgerError(
            f"in use by another process or object, or this file system cannot lock ({error}); "
            "one ledger has one writer"
        ) from error
    return file


def _lock(file: io.FileIO) -> None:
    """Until the file is closed or the process dies; raises an OSError at once if it is taken."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**40)  # Locks bind readers there: lock a byte that no record will ever reach.
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _read_log(file: io.FileIO) -> tuple[_History, bool]:
    """Its records, and whether a torn one lies behind them."""
    history = _History()
    reader = io.BufferedReader(file)
    try:
        while line := reader.readline(LONGEST + 1):
            if not line.endswith(b"\n") and len(line) <= LONGEST:
                return history, True
            history.add(_decode(line, history))
    finally:
        reader.detach()
    return history, False


def _decode(line: bytes, history: _History) -> Entry:
    number = len(history.entries) + 1
    try:
        entry = history.entry(_what(json.loads(line)))
    except _NOT_OURS as error:
        raise LedgerError(f"record {number} is damaged: {error}") from error
    except LedgerError as error:
        raise LedgerError(f"record {number} cannot stand: {error}") from error
    if entry.line != line:
        raise LedgerError(f"record {number} is damaged or does not follow the one before")
    return entry


def _what(fields: dict[str, Any]) -> Charge | Limit:
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


def _read_head(path: Path) -> Head | None:
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(content)
        head = Head(_whole("records", fields["records"], least=1), fields["hash"])
        known = head.line == content and _HASH.fullmatch(head.hash)
    except _NOT_OURS as error:
        raise LedgerError(f"{path.name} is damaged: {error}") from error
    if not known:
        raise LedgerError(f"{path.name} is damaged")
    return head


def _judge(history: _History, head: Head | None, *, torn: bool) -> None:
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


def _settle(
    path: Path, file: io.FileIO, history: _History, head: Head | None, *, torn: bool, disk: Disk
) -> None:
    """Make what was found durable before anything is built on it."""
    last = history.entries[-1].line
    if torn:
        disk.truncate(file, history.size)
    elif head != history.head:
        # A sync may have failed on it, and the next one would then say yes without having written.
        file.seek(history.size - len(last))
        disk.write(file, last)
    disk.sync(file)
    if head == history.head:
        disk.sync_folder(path.parent)
    else:
        _write_head(path, history.head, disk)


def _write_head(log: Path, head: Head, disk: Disk) -> None:
    path = _head_of(log)
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb", buffering=0) as file:
        disk.write(file, head.line)
        disk.sync(file)
    disk.replace(temporary, path)
    disk.sync_folder(path.parent)


def _place(path: Path, content: bytes, disk: Disk) -> None:
    """A new file, whole or not at all, and never in the place of another."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            disk.write(file, content)
            disk.sync(file)
        disk.link(Path(name), path)
    finally:
        disk.remove(Path(name))
    disk.sync_folder(path.parent)


@contextmanager
def _failing_closed(path: Path) -> Iterator[None]:
    """Every failure becomes a `LedgerError` that names the file."""
    try:
        yield
    except FileExistsError as error:
        raise LedgerError(f"{path}: there is a ledger already; open it") from error
    except OSError as error:
        raise LedgerError(
            f"{path}: {error}; nothing may be reported until that is mended"
        ) from error
    except LedgerError as error:
        raise LedgerError(f"{path}: {error}") from error


def _head_of(log: Path) -> Path:
    return log.with_name(log.name + ".head")


def _real(path: Path | str) -> Path:
    """One log has one head, by whatever links it is reached."""
    return Path(os.path.realpath(path))


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")


def _set(frozen: object, name: str, value: object) -> None:
    object.__setattr__(frozen, name, value)


def _whole(name: str, value: int, *, least: int) -> int:
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
