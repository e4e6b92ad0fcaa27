"""Checks of what is allowed in each state of an epoch: open, closed or applied."""

from sottovoce.errors import ClosedError, NotFoundError, RefusedError, TooEarlyError
from sottovoce.protocol import SEALED_BYTES, Chunk
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES
from sottovoce.protocol.contact import MIN_NOTICED_SKEW_SECONDS
from sottovoce.protocol.manifest import MAX_EPOCH, format_manifest_hash
from sottovoce.server.settings import ServerSettings
from sottovoce.server.transaction import CLOSED, OPEN, Epoch, Transaction

# How far the epoch that a proxy names may be ahead of the database. That is more epochs than any
# backup is old. Without a limit, an attacker could use up all numbers.
MAX_SKIPPED_EPOCHS = 2**20


def check_epoch_exists(epoch: Epoch | None, number: int) -> Epoch:
    """Return the epoch, or raise a `NotFoundError`."""
    if epoch is None:
        raise NotFoundError(f"there is no epoch {number}")
    return epoch


def check_closed(epoch: Epoch | None, number: int) -> Epoch:
    """Return the epoch if it is closed; only then are chunks and commits accepted.

    Raises:
        NotFoundError: There is no such epoch.
        TooEarlyError: The epoch is still open.
        ClosedError: The epoch is applied.
    """
    epoch = check_epoch_exists(epoch, number)
    if epoch.state == OPEN:
        raise TooEarlyError(f"epoch {number} is still open: send this again when it is closed")
    if epoch.state != CLOSED:
        raise ClosedError(f"epoch {number} is over: what it counted is in the next model")
    return epoch


def check_manifest(epoch: Epoch, manifest_hash: bytes) -> None:
    """Raise a `RefusedError` unless this is the hash of the epoch's manifest."""
    if epoch.hash != manifest_hash:
        raise RefusedError(
            f"epoch {epoch.epoch} has another manifest here: {format_manifest_hash(epoch.hash)}"
        )


def check_not_committed(transaction: Transaction, epoch: int, proxy: str) -> None:
    """Raise a `RefusedError` if the proxy has committed the epoch."""
    if transaction.find_commit(epoch, proxy) is not None:
        raise RefusedError(f"this proxy has committed epoch {epoch}: it accepts nothing more")


def check_limits(
    transaction: Transaction, proxy: str, chunk: Chunk, settings: ServerSettings
) -> None:
    """Raise a `RefusedError` if with this chunk a proxy would hand in too much of an epoch.

    Other chunks of the proxy that are being counted at the same time are not included.
    """
    chunks, reports = transaction.count_received(chunk.epoch, proxy)
    size = CHUNK_HEADER_BYTES * (chunks + 1) + SEALED_BYTES * (reports + chunk.reports)
    if chunks >= settings.max_chunks or size > settings.max_bytes:
        raise RefusedError(
            f"this server takes at most {settings.max_chunks} chunks and {settings.max_bytes} "
            f"bytes from a proxy for epoch {chunk.epoch}"
        )


def find_max_epoch(transaction: Transaction) -> int:
    """Return the largest epoch number that others may have seen before a backup was restored."""
    return min(transaction.get_service().next_epoch + MAX_SKIPPED_EPOCHS, MAX_EPOCH - 1)


def is_in_future(epoch: Epoch, now: float) -> bool:
    """Return whether the epoch opens in the future, because a clock was or is wrong.

    Nobody reports before an epoch opens.
    """
    return epoch.opens > now + MIN_NOTICED_SKEW_SECONDS
