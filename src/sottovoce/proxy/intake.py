"""What comes in: exactly the batches of the epoch that is open, each kept before it is thanked for.

A batch is checked twice: when it arrives, which is cheap and needs no disk, and again inside the
transaction that stores it. A flush closes the intake first and takes the same lock afterwards, so
every batch is either in the flush or refused; none can slip in behind it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.errors import (
    ClosedError,
    RefusedError,
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import Batch, batch_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.errors import SottovoceError
    from sottovoce.protocol import SignedManifest
    from sottovoce.proxy.store import ProxyStore
    from sottovoce.proxy.tables import Tables

_CLOSED = "this epoch is over; the next one needs a new manifest"


@dataclass(frozen=True)
class Door:
    """One epoch, and whether it still takes batches: replaced as a whole, so never half changed."""

    signed: SignedManifest
    is_open: bool

    def check(self, batch: Batch) -> None:
        """Refuse what is not of this epoch, and everything once it is over."""
        manifest = self.signed.manifest
        if batch.manifest_hash != self.signed.hash or batch.epoch != manifest.epoch:
            raise WrongEpochError(f"not a batch of the present manifest, epoch {manifest.epoch}")
        if not self.is_open:
            raise ClosedError(_CLOSED)


class Intake:
    """Behind the door: check, then keep."""

    def __init__(self, store: ProxyStore, clock: Callable[[], float]):
        self._store = store
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._door: Door | None = None
        self.waiting = 0
        """Batches that wait for the epoch's end."""

    def open(self, signed: SignedManifest, *, waiting: int = 0) -> None:
        """Take batches of this epoch."""
        self.waiting = waiting
        self._door = Door(signed, is_open=True)

    def close(self, signed: SignedManifest) -> None:
        """Take no more of this epoch."""
        self._door = Door(signed, is_open=False)

    def emptied(self) -> None:
        """The batches were flushed."""
        with self._one_at_a_time:
            self.waiting = 0

    def largest(self) -> int:
        """No batch of this epoch is longer."""
        return batch_size(self._known_door().signed.manifest.reports)

    def check(self, data: bytes) -> Batch:
        """A batch that may be kept; raises what its sender should know."""
        door = self._known_door()
        manifest = door.signed.manifest
        batch = Batch.decode(data, manifest.reports)
        door.check(batch)
        now = self._clock()
        if now < manifest.opens:
            raise UnavailableError("this epoch is not open yet")
        if not manifest.asks_for_reports(now):
            raise ClosedError(_CLOSED)
        return batch

    def keep(self, batches: Sequence[Batch]) -> list[SottovoceError | None]:
        """All in one transaction; for each, what is wrong with it, or None: it is on disk."""
        with self._one_at_a_time:
            try:
                with self._store.write() as tables:
                    door = self._known_door()  # within the lock that a flush takes after closing it
                    outcomes = [_added(batch, door, tables) for batch in batches]
            except StoreError as error:
                return [error] * len(batches)
            self.waiting += outcomes.count(True)
        return [outcome if isinstance(outcome, RefusedError) else None for outcome in outcomes]

    def _known_door(self) -> Door:
        if self._door is None:
            raise UnavailableError("no manifest has come from the server yet")
        return self._door


def _added(batch: Batch, door: Door, tables: Tables) -> bool | RefusedError:
    try:
        door.check(batch)
        return tables.add_batch(batch)
    except RefusedError as error:
        return error
