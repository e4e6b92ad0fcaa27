"""What may be done to an epoch in which state: open, closed, applied."""

from sottovoce.errors import ClosedError, NotFoundError, RefusedError, TooEarlyError
from sottovoce.protocol import SEALED_BYTES, Chunk
from sottovoce.protocol.batch import CHUNK_HEADER_BYTES
from sottovoce.protocol.contact import MIN_NOTICED_SKEW_SECONDS
from sottovoce.protocol.manifest import MAX_EPOCH, format_manifest_hash
from sottovoce.server.settings import ServerSettings
from sottovoce.server.transaction import CLOSED, OPEN, Epoch, Transaction

# More epochs than lie between a backup and now. Beyond it an attacker could use up all numbers.
MAX_SKIPPED_EPOCHS = 2**20


def check_epoch_exists(epoch: Epoch | None, number: int) -> Epoch:
    """Return the epoch, or raise a `NotFoundError`."""
    if epoch is None:
        raise NotFoundError(f"there is no epoch {number}")
    return epoch


def check_closed(epoch: Epoch | None, number: int) -> Epoch:
    """Return the epoch, or raise an error unless it is closed.

    Chunks and commits are taken between closing and applying.
    """
    epoch = check_epoch_exists(epoch, number)
    if epoch.state == OPEN:
        raise TooEarlyError(f"epoch {number} is still open: send this when it is closed")
    if epoch.state != CLOSED:
        raise ClosedError(f"epoch {number} is over: what it counted is in the next model")
    return epoch


def check_manifest(epoch: Epoch, manifest_hash: bytes) -> None:
    """Raise a `RefusedError` unless the manifest is that of the epoch."""
    if epoch.hash != manifest_hash:
        raise RefusedError(f"epoch {epoch.epoch} has another: {format_manifest_hash(epoch.hash)}")


def check_not_committed(transaction: Transaction, epoch: int, proxy: str) -> None:
    """Raise a `RefusedError` if the proxy has committed the epoch."""
    if transaction.find_commit(epoch, proxy) is not None:
        raise RefusedError(f"this proxy has committed epoch {epoch}: it accepts nothing more")


def check_limits(
    transaction: Transaction, proxy: str, chunk: Chunk, settings: ServerSettings
) -> None:
    """Raise a `RefusedError` if a chunk exceeds what one proxy may hand in of an epoch.

    Chunks that are counted at the same time are not included.
    """
    chunks, reports = transaction.count_received(chunk.epoch, proxy)
    size = CHUNK_HEADER_BYTES * (chunks + 1) + SEALED_BYTES * (reports + chunk.reports)
    if chunks >= settings.most_chunks or size > settings.most_bytes:
        raise RefusedError(
            f"of epoch {chunk.epoch} this server takes {settings.most_chunks} chunks and "
            f"{settings.most_bytes} bytes of a proxy, and no more"
        )


def find_max_epoch(transaction: Transaction) -> int:
    """Return the last epoch that anyone could have seen if this database was set back."""
    return min(transaction.get_service().next_epoch + MAX_SKIPPED_EPOCHS, MAX_EPOCH - 1)


def is_in_future(epoch: Epoch, now: float) -> bool:
    """Return whether a clock was wrong when the epoch was published.

    Nobody reports before it opens.
    """
    return epoch.opens > now + MIN_NOTICED_SKEW_SECONDS
