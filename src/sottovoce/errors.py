"""Every error that sottovoce raises on purpose.

    SottovoceError
    ├── SettingsError      a setting has a value that cannot work
    │   └── UnknownParameterError  there is no parameter of this name
    ├── DataError          an input file or matrix is not what it must be
    │   └── FetchError     a download failed or does not match its checksum
    ├── DivergedError      the item matrix has left the range that devices accept
    ├── CheckpointError    a checkpoint or model file is damaged or belongs to another run
    ├── LedgerError        the record of spent budget cannot be trusted: nothing may be reported
    │   └── BudgetExceededError  a charge would go beyond the limit
    ├── ProtocolError      bytes are not what docs/protocol.md says they must be
    │   └── UntrustedError a signature, a hash, an epoch or the terms do not hold: nothing is sent
    │       └── ConflictError what is signed does not go with what was signed before
    ├── UnavailableError   another party cannot be reached now, or is busy: retry later
    │   ├── TlsError       because no connection to them can be trusted
    │   ├── TooEarlyError  because the epoch is still open
    │   └── FullError      because the epoch has as much as it takes
    ├── RefusedError       another party understood and said no: a retry is no use
    │   ├── ClosedError    because the epoch is over
    │   ├── SpentError     because the account's token or the batch was there before
    │   ├── UnknownProxyError because they know no proxy with this secret
    │   ├── WrongEpochError because it belongs to another epoch or manifest
    │   └── NotFoundError  because there is no such epoch or file
    ├── StoreError         a database cannot be read or written (full, read-only, too new)
    │   └── LostError      because it is damaged or gone: what was in it may never be counted
    └── MissingExtraError  an optional dependency is not installed

What goes on all the same is told by a `DataWarning`.

Each message names what was wrong (a value, a file, a flag) and what to do: what must be, a clause
that begins with a verb, or a command to type. Of those for machines the class says what to do:
`ProtocolError`, `UnavailableError`, `RefusedError`. tests/test_errors.py reads them all.
"""

from pathlib import Path


class SottovoceError(Exception):
    """The root: catch this to catch everything of ours."""


class SettingsError(SottovoceError, ValueError):
    """A setting has a value that cannot work."""


class UnknownParameterError(SettingsError, TypeError):
    """There is no parameter of this name; says which is nearest."""


class DataWarning(UserWarning):
    """Some of an input does not count; says how much, and why."""


class DataError(SottovoceError, ValueError):
    """An input is not what it must be; names the file and the line where there is one.

    Args:
        message: What is wrong and what to do.
        path: The file.
        line: The line in it, counted from 1.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None):
        where = (
            "" if path is None else f"{path}" + ("" if line is None else f", line {line}") + ": "
        )
        super().__init__(where + message)
        self.path = path
        self.line = line


class FetchError(DataError):
    """A download failed or does not match its checksum."""


class DivergedError(SottovoceError, ArithmeticError):
    """The item matrix has left the range that devices accept: nothing is published."""


class CheckpointError(SottovoceError):
    """A checkpoint or model file is damaged or belongs to another run."""


class LedgerError(SottovoceError):
    """The record of spent budget cannot be trusted: nothing may be reported."""


class BudgetExceededError(LedgerError):
    """A charge would go beyond the limit: reporting stops, recommending goes on."""


class ProtocolError(SottovoceError, ValueError):
    """Bytes are not what docs/protocol.md says they must be."""


class UntrustedError(ProtocolError):
    """A signature, a hash, an epoch or the terms do not hold: nothing is sent."""


class ConflictError(UntrustedError):
    """What is signed does not go with what was signed before: an earlier epoch, or another one."""


class UnavailableError(SottovoceError):
    """Another party cannot be reached now, or is busy: retry later.

    Args:
        message: What is wrong.
        retry_after: Seconds that they asked to be left alone for; None if they did not say.
    """

    def __init__(self, message: str, retry_after: float | None = None):
        super().__init__(message)
        self.retry_after = retry_after


class TlsError(UnavailableError):
    """They answer, and no connection can be trusted: somebody must look at the certificates."""


class TooEarlyError(UnavailableError):
    """The epoch is still open: what belongs to it cannot be handed in yet."""


class FullError(UnavailableError):
    """The epoch has as much as it takes: come again when there is a next one."""


class RefusedError(SottovoceError):
    """Another party understood and said no: a retry is no use."""


class ClosedError(RefusedError):
    """The epoch is over: what belongs to it can no longer be handed in."""


class SpentError(RefusedError):
    """An account has had its token, or a batch with this id is there already."""


class UnknownProxyError(RefusedError):
    """They know no proxy with this secret."""


class WrongEpochError(RefusedError):
    """It belongs to another epoch, or to another manifest, than the present one."""


class NotFoundError(RefusedError):
    """There is no such epoch."""


class StoreError(SottovoceError):
    """A database cannot be read or written; nothing was acknowledged."""


class LostError(StoreError):
    """A database is damaged or gone: what was in it may never be counted."""


class MissingExtraError(SottovoceError, ImportError):
    """An optional dependency is not installed; says which extra brings it."""


def reason(error: Exception) -> str:
    """Why it failed: what the operating system says, without its number and the file's name.

    Args:
        error: What was caught.
    """
    return getattr(error, "strerror", None) or str(error)
