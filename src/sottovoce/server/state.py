"""What may be done to an epoch in which state: open, closed, applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.errors import ClosedError, NotFoundError, RefusedError, TooEarlyError
from sottovoce.protocol import SEALED
from sottovoce.protocol.chunk import HEADER
from sottovoce.server.store import CLOSED, OPEN

if TYPE_CHECKING:
    from sottovoce.protocol import Chunk
    from sottovoce.server.settings import ServerSettings
    from sottovoce.server.store import Epoch, Transaction


def check_known(epoch: Epoch | None, number: int) -> Epoch:
    if epoch is None:
        raise NotFoundError(f"there is no epoch {number}")
    return epoch


def check_closed(epoch: Epoch | None, number: int) -> Epoch:
    """Chunks and commits belong to the time between closing and applying."""
    found = check_known(epoch, number)
    if found.state == OPEN:
        raise TooEarlyError(f"epoch {number} is still open: send this when it is closed")
    if found.state != CLOSED:
        raise ClosedError(f"epoch {number} is over: what it counted is in the next model")
    return found


def check_manifest(epoch: Epoch, manifest_hash: bytes) -> None:
    """Everybody must mean the same epoch under the same manifest."""
    if epoch.hash != manifest_hash:
        raise RefusedError(f"epoch {epoch.epoch} has the manifest {epoch.hash.hex()}")


def check_not_committed(transaction: Transaction, epoch: int, proxy: str) -> None:
    """A commit means that this was all."""
    if transaction.commit_of(epoch, proxy) is not None:
        raise RefusedError(f"this proxy has committed epoch {epoch}: nothing more is taken of it")


def check_room(
    transaction: Transaction, proxy: str, chunk: Chunk, settings: ServerSettings
) -> None:
    """What one proxy may hand in of one epoch; those under way at the same time are not counted."""
    chunks, reports = transaction.received(chunk.epoch, proxy)
    size = HEADER * (chunks + 1) + SEALED * (reports + chunk.reports)
    if chunks >= settings.most_chunks or size > settings.most_bytes:
        raise RefusedError(
            f"of epoch {chunk.epoch} this server takes {settings.most_chunks} chunks and "
            f"{settings.most_bytes} bytes of a proxy, and no more"
        )
