"""What comes in: exactly the batches of the open epoch, each on disk before it is acknowledged.

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
class EpochGate:
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
    """Check, then keep."""

    def __init__(self, store: ProxyStore, clock: Callable[[], float]):
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._gate: EpochGate | None = None
        self.waiting = 0
        """Batches that wait for the epoch's end."""

    def open(self, signed: SignedManifest, *, waiting: int = 0) -> None:
        self.waiting = waiting
        self._gate = EpochGate(signed, is_open=True)

    def close(self, signed: SignedManifest) -> None:
        self._gate = EpochGate(signed, is_open=False)

    @property
    def is_open(self) -> bool:
        return self._gate is not None and self._gate.is_open

    def reset_waiting(self) -> None:
        """The batches were flushed: none waits any more."""
        with self._lock:
            self.waiting = 0

    def batch_size(self) -> int:
        """The length of every batch of this epoch."""
        return batch_size(self._present_gate().signed.manifest.terms.reports)

    def check(self, data: bytes) -> Batch:
        """The batch, if it may be kept; raises what its sender should know."""
        gate = self._present_gate()
        manifest = gate.signed.manifest
        batch = Batch.decode(data, manifest.terms.reports)
        gate.check(batch)
        now = self._clock()
        if now < manifest.opens:
            raise UnavailableError("this epoch is not open yet")
        if not manifest.asks_for_reports(now):
            raise ClosedError(_CLOSED)
        return batch

    def keep(self, batches: Sequence[Batch]) -> list[SottovoceError | None]:
        """All in one transaction; for each, what is wrong with it, or None: it is on disk."""
        with self._lock:
            try:
                with self._store.write() as tables:
                    gate = self._present_gate()  # within the lock: a flush takes it after closing
                    outcomes = [_added(batch, gate, tables) for batch in batches]
            except StoreError as error:
                return [error] * len(batches)
            self.waiting += outcomes.count(True)
        return [outcome if isinstance(outcome, RefusedError) else None for outcome in outcomes]

    def _present_gate(self) -> EpochGate:
        if self._gate is None:
            raise UnavailableError("no manifest has come from the server yet")
        return self._gate


def _added(batch: Batch, gate: EpochGate, tables: Tables) -> bool | RefusedError:
    try:
        gate.check(batch)
        return tables.add_batch(batch)
    except RefusedError as error:
        return error
