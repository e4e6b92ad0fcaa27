"""The ledger itself: open, charge, refuse."""

from __future__ import annotations

import os
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from sottovoce.errors import LedgerError
from sottovoce.privacy.ledger.disk import DISK, Disk, failing_closed, open_locked, place, real
from sottovoce.privacy.ledger.history import History, head_of, judge, read_head, read_log
from sottovoce.privacy.ledger.records import Charge, Entry, Head, Limit

if TYPE_CHECKING:
    import io
    from pathlib import Path


class Ledger:
    """The only writer of one log. Close it, or use it in a `with`, to let another one write.

    >>> import hashlib, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.create(Path(folder) / "ledger", limit=50) as ledger:
    ...         batch = Charge(1, hashlib.sha256(b"sealed").digest(), "loudest", 2.5, reports=4)
    ...         once, again = ledger.charge(batch), ledger.charge(batch)
    ...         print(once is again, ledger.spent, ledger.remaining)
    True 10 40
    """

    def __init__(self, path: Path, file: io.FileIO, history: History, disk: Disk):
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
        path = real(path)
        first = History().entry(Limit(limit))
        with failing_closed(path):
            if head_of(path).exists():
                raise LedgerError("a ledger is or was here; open it, or find its log")
            place(path, first.line, disk)
        return cls.open(path, disk=disk)

    @classmethod
    def open(cls, path: Path | str, *, at_least: Head | None = None, disk: Disk = DISK) -> Self:
        """Take the ledger up where it was; refuses what is missing, damaged, shortened or in use.

        `at_least` is an earlier `head` that the caller kept: a log that does not contain it is
        refused, even when log and head were set back together.
        """
        path = real(path)
        with failing_closed(path):
            file = open_locked(path)
            try:
                history, torn = read_log(file)
                head = read_head(head_of(path))
                judge(history, head, torn=torn)
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
        with failing_closed(self._path):
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
        with failing_closed(self._path):
            ours, named = os.fstat(self._file.fileno()), self._path.stat()
            if not os.path.samestat(ours, named) or ours.st_size != self._history.size:
                self._usable = False
                raise LedgerError("the log was changed or moved while in use; restore it")


def _settle(
    path: Path, file: io.FileIO, history: History, head: Head | None, *, torn: bool, disk: Disk
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


def _private(path: str, flags: int) -> int:
    """Like the log, for its owner's eyes alone, whatever the umask."""
    return os.open(path, flags, 0o600)


def _write_head(log: Path, head: Head, disk: Disk) -> None:
    path = head_of(log)
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb", buffering=0, opener=_private) as file:
        disk.write(file, head.line)
        disk.sync(file)
    disk.replace(temporary, path)
    disk.sync_folder(path.parent)
