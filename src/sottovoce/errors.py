"""All errors that sottovoce raises on purpose.

    SottovoceError
    ├── SettingsError             a setting has an invalid value
    │   ├── UnknownParameterError there is no parameter of this name
    │   └── NothingToLearnError   reports would teach nothing that the public start does not know
    ├── DataError                 an input file or matrix is invalid
    │   └── FetchError            a download failed or does not match its checksum
    ├── DivergedError             the item matrix has left the range that devices accept
    ├── CheckpointError           a checkpoint or model file is damaged or belongs to another run
    ├── LedgerError               the ledger cannot be trusted: nothing may be reported
    │   └── BudgetExceededError   a charge would exceed the limit
    ├── ProtocolError             bytes violate docs/protocol.md
    │   └── UntrustedError        a signature, hash, epoch or the terms are invalid: do not report
    │       └── ConflictError     signed content contradicts what was signed before
    ├── UnavailableError          another party is unreachable or busy: retry later
    │   ├── TlsError              no connection to it can be trusted
    │   ├── TooEarlyError         the epoch is still open
    │   └── FullError             the epoch accepts no more batches
    ├── RefusedError              another party refused: do not retry
    │   ├── ClosedError           the epoch is over
    │   ├── SpentError            the account's token or the batch id was used before
    │   ├── UnknownProxyError     no proxy has this secret
    │   ├── WrongEpochError       the request belongs to another epoch or manifest
    │   └── NotFoundError         there is no such epoch or file
    ├── StoreError                a database cannot be read or written (full, read-only, too new)
    │   └── LostError             it is damaged or gone: reports in it may be lost
    └── MissingExtraError         an optional dependency is not installed

A `DataWarning` reports a problem that stops nothing.

Each message says what is wrong (a value, a file, a flag) and what to do about it. The remedy is the
value that is expected, an instruction, or a command to type. Messages of `ProtocolError`,
`UnavailableError` and `RefusedError` are for machines: their class says what to do.
tests/test_errors.py checks all messages.
"""

import inspect
import warnings
from pathlib import Path


class SottovoceError(Exception):
    """The base class: catch it to catch all errors of this package."""


class SettingsError(SottovoceError, ValueError):
    """A setting has an invalid value.

    Args:
        message: What is wrong and what to do.
        setting: Name of the setting with the TOML tables that contain it, such as `listen.port`;
            empty if it does not come from a settings file.
    """

    def __init__(self, message: str, *, setting: str = ""):
        super().__init__(message)
        self.setting = setting


class UnknownParameterError(SettingsError, TypeError):
    """There is no parameter of this name; the message suggests the most similar one."""


class NothingToLearnError(SettingsError):
    """Reports would teach nothing that the public start does not know: no budget is spent."""

    @property
    def reason(self) -> str:
        """The message without what to do, for commands that go on without reports."""
        return str(self).partition(":")[0]


class DataWarning(UserWarning):
    """Some of an input is ignored; the message says how much, and why."""


class DataError(SottovoceError, ValueError):
    """An input is invalid; the message begins with the file and the line, if they are known.

    Args:
        message: What is wrong and what to do.
        path: The file.
        line: The line in the file, counted from 1.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None):
        location = ""
        if path is not None:
            location = f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(location + message)
        self.path = path
        self.line = line


class FetchError(DataError):
    """A download failed or does not match its checksum."""


class DivergedError(SottovoceError, ArithmeticError):
    """The item matrix has left the range that devices accept: nothing is published."""


class CheckpointError(SottovoceError):
    """A checkpoint or model file is damaged or belongs to another run."""


class LedgerError(SottovoceError):
    """The ledger cannot be trusted: nothing may be reported."""


class BudgetExceededError(LedgerError):
    """A charge would exceed the limit: reporting stops, recommending continues."""


class ProtocolError(SottovoceError, ValueError):
    """Bytes violate docs/protocol.md."""


class UntrustedError(ProtocolError):
    """A signature, a hash, an epoch or the terms are invalid: no batch is made."""


class ConflictError(UntrustedError):
    """Signed content contradicts what was signed before.

    Examples are an older epoch, or a second manifest of the same epoch.
    """


class UnavailableError(SottovoceError):
    """Another party is unreachable or busy: retry later.

    Args:
        message: What is wrong.
        retry_after: Seconds to wait as the other party demands, or None if it does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None):
        super().__init__(message)
        self.retry_after = retry_after


class TlsError(UnavailableError):
    """The other party answers, but TLS fails: an operator must check the certificates."""


class TooEarlyError(UnavailableError):
    """The epoch is still open: its chunks cannot be handed over yet."""


class FullError(UnavailableError):
    """The epoch accepts no more batches: send it in the next epoch."""


class RefusedError(SottovoceError):
    """Another party understood the request and refused it: do not retry."""


class ClosedError(RefusedError):
    """The epoch is over: nothing that belongs to it is accepted any more."""


class SpentError(RefusedError):
    """The account has had its token, or a batch with this id is there already."""


class UnknownProxyError(RefusedError):
    """The server knows no proxy with this secret."""


class WrongEpochError(RefusedError):
    """The request belongs to another epoch or manifest than the current one."""


class NotFoundError(RefusedError):
    """There is no such epoch or file."""


class StoreError(SottovoceError):
    """A database cannot be read or written; nothing was acknowledged."""


class LostError(StoreError):
    """A database is damaged or gone: reports in it may be lost, and are then never counted."""


class MissingExtraError(SottovoceError, ImportError):
    """An optional dependency is not installed; the message names the extra that has it."""


def get_reason(error: Exception) -> str:
    """Return the operating system's message, without the error number and the file's name.

    Args:
        error: The caught error. If it has no such message, its whole text is returned.
    """
    return getattr(error, "strerror", None) or str(error)


def warn_caller(message: str) -> None:
    """Warn with the position of the line outside of this package that led to this call.

    Args:
        message: What is ignored, how much of it, and why.
    """
    # Python shows a warning once for each line. The line should be in the caller's program.
    frame, depth = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).startswith("sottovoce."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, DataWarning, stacklevel=depth)


def warn_about_ratings(name: str, not_positive: int, rows: int) -> None:
    """Warn about ratings that are no interactions, if there are any.

    Args:
        name: The data that has them.
        not_positive: How many there are.
        rows: Number of all ratings.
    """
    if not_positive:
        warn_caller(f"{name}: {not_positive:,} of {rows:,} ratings are 0 or less, and do not count")
