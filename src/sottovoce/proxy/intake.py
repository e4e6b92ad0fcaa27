"""The intake: it checks batches of the open epoch and stores them before they are acknowledged.

A batch is checked twice: without the disk when it arrives, and again inside the transaction that
stores it. A flush first closes the intake and then waits for this transaction, so every batch is
either part of the flush or refused.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sottovoce.errors import (
    ClosedError,
    FullError,
    RefusedError,
    SottovoceError,
    StoreError,
    UnavailableError,
    WrongEpochError,
)
from sottovoce.protocol import SEALED_BYTES, Batch, SignedManifest, batch_size
from sottovoce.proxy.accounts import Accounts
from sottovoce.proxy.epoch_files import SPARE_BYTES, BatchTables, estimate_stored_bytes
from sottovoce.proxy.settings import ProxySettings
from sottovoce.proxy.store import ProxyStore

# Seconds that a device must wait before it asks again if the epoch was full.
RETRY_WHEN_FULL_SECONDS = 3600.0

_CLOSED_MESSAGE = "this epoch is over; the next one needs a new manifest"
_PAUSED_MESSAGE = "no batches are accepted at present: ask again later"
_FULL_MESSAGE = "this epoch is full: no more batches are accepted"


@dataclass(frozen=True)
class EpochGate:
    """An epoch, and whether it still takes batches.

    It is immutable, so that no thread sees a new epoch with the state of the old one.
    """

    signed: SignedManifest
    is_open: bool

    def check(self, batch: Batch) -> None:
        """Raise a `RefusedError` if the batch is of another epoch, or if this epoch is over."""
        manifest = self.signed.manifest
        if batch.manifest_hash != self.signed.hash or batch.epoch != manifest.epoch:
            raise WrongEpochError(f"not a batch of the current manifest, epoch {manifest.epoch}")
        self.check_open()

    def check_open(self) -> None:
        if not self.is_open:
            raise ClosedError(_CLOSED_MESSAGE)


class Intake:
    """Checks and stores batches.

    Args:
        store: Where batches are stored.
        settings: The settings of the proxy, with the limits of an epoch.
        clock: Returns Unix seconds.
        is_paused: Returns whether batches are refused because they could not be counted.
        accounts: Checks tokens, if the terms ask for accounts.
    """

    def __init__(
        self,
        store: ProxyStore,
        settings: ProxySettings,
        clock: Callable[[], float],
        is_paused: Callable[[], bool],
        accounts: Accounts,
    ):
        self._accounts = accounts
        self._store = store
        self._settings = settings
        self._clock = clock
        self._is_paused = is_paused
        self._lock = threading.Lock()
        self._gate: EpochGate | None = None
        self.n_waiting = 0
        """Stored batches, which wait for the end of the epoch."""

    def open(self, signed: SignedManifest, *, n_waiting: int = 0) -> None:
        """Take batches of an epoch from now on; `n_waiting` of them are stored already."""
        self.n_waiting = n_waiting
        self._gate = EpochGate(signed, is_open=True)

    def close(self, signed: SignedManifest) -> None:
        """Take no more batches of an epoch."""
        self._gate = EpochGate(signed, is_open=False)

    def reset_waiting(self) -> None:
        """Set the number of waiting batches to 0 after a flush."""
        with self._lock:
            self.n_waiting = 0

    @property
    def epoch(self) -> int:
        """The epoch that clients are shown; 0 before the first epoch."""
        return 0 if self._gate is None else self._gate.signed.manifest.epoch

    @property
    def batch_size(self) -> int:
        """Bytes of a batch in this epoch."""
        terms = self._get_gate().signed.manifest.terms
        return batch_size(terms.reports, accounts=terms.accounts)

    def check(self, data: bytes) -> Batch:
        """Decode and check a batch without the disk, or raise the error that its sender gets."""
        gate = self._get_active_gate()
        terms = gate.signed.manifest.terms
        batch = Batch.decode(data, terms.reports, accounts=terms.accounts)
        gate.check(batch)
        self._check_time(gate)
        if terms.accounts:
            self._accounts.check_token(batch)
        return batch

    def check_would_take(self, manifest_hash: bytes) -> None:
        """Raise the error that a batch of this manifest would get now.

        Devices ask this before they pay for a batch.
        """
        gate = self._get_active_gate()
        # A cache may have shown the device an epoch that is over.
        if manifest_hash != gate.signed.hash:
            raise ClosedError(_CLOSED_MESSAGE)
        self._check_time(gate)
        gate.check_open()
        if self.n_waiting >= self._count_max_batches(gate):
            raise FullError(_FULL_MESSAGE, RETRY_WHEN_FULL_SECONDS)

    def check_not_paused(self) -> None:
        """Raise an `UnavailableError` while the proxy takes no batches."""
        if self._is_paused():
            raise UnavailableError(_PAUSED_MESSAGE)

    def _check_time(self, gate: EpochGate) -> None:
        manifest, now = gate.signed.manifest, self._clock()
        if self._accounts.has_too_few_tokens(self._settings.compute_min_crowd(manifest.terms)):
            raise ClosedError("too few accounts have a token of this epoch; wait for the next one")
        if now < manifest.opens:
            raise UnavailableError("this epoch is not open yet")
        if not manifest.asks_for_reports(now):
            raise ClosedError(_CLOSED_MESSAGE)

    def store_batches(self, batches: Sequence[Batch]) -> list[SottovoceError | None]:
        """Store all batches in one transaction.

        Returns:
            For each batch None if it is on disk, else why it was refused.
        """
        with self._lock:
            outcomes: list[bool | SottovoceError] = []
            try:
                n_reports = self._count_reports(self.n_waiting + len(batches))
                with self._store.write_batches(n_reports) as tables:
                    # Get the gate inside the transaction: a flush first closes the gate and then
                    # waits for the transaction.
                    gate = self._get_gate()
                    # `n_waiting` changes only when the transaction is on disk: count the room here.
                    room = self._count_max_batches(gate) - self.n_waiting
                    for batch in batches:
                        outcome = _add_batch(batch, gate, tables, room)
                        room -= outcome is True
                        outcomes.append(outcome)
            except (ClosedError, StoreError) as error:
                # All batches share the transaction: after an error none of them is on disk.
                return [error] * len(batches)
            self.n_waiting += outcomes.count(True)
        return [None if isinstance(outcome, bool) else outcome for outcome in outcomes]

    def _count_max_batches(self, gate: EpochGate) -> int:
        """Return how many batches the epoch takes, in the room that its dummies leave."""
        room = self._settings.max_bytes - SEALED_BYTES * gate.signed.manifest.terms.dummies
        return min(self._settings.max_batches, room // self.batch_size)

    def find_limit_problem(self) -> str | None:
        """Return why the limits of the settings allow no crowd in this epoch, else None."""
        gate = self._get_gate()
        terms = gate.signed.manifest.terms
        min_batches = self._settings.compute_min_crowd(terms)
        if self._count_max_batches(gate) >= min_batches:
            return None
        size = SEALED_BYTES * terms.dummies + min_batches * self.batch_size
        return (
            f"epoch {self.epoch} has {terms.dummies:,} dummies and needs {min_batches:,} people: "
            f"max_bytes must be far above {size} and max_batches above {min_batches}, or further "
            "devices are turned away; leave both out to use the defaults, and restart this proxy. "
            "Nothing is taken until then"
        )

    def find_disk_problem(self) -> str | None:
        """Reserve room for more batches, and check that the disk has enough for a crowd.

        The proxy calls this at every tick, so that devices do not pay for nothing.

        Returns:
            Why a crowd cannot be stored and mixed, or None if it can.
        """
        gate = self._get_gate()
        terms = gate.signed.manifest.terms
        min_batches = self._settings.compute_min_crowd(terms)
        # Expect a quarter more than now, since batches come in before the next tick.
        expected = max(min_batches, self.n_waiting + self.n_waiting // 4)
        try:
            self._store.reserve(self._count_reports(min(expected, self._count_max_batches(gate))))
        except StoreError as error:
            return f"{error}; epoch {self.epoch} could not be mixed, so nothing is taken until then"
        with self._store.read_batches() as tables:
            # Some dummies may be on disk already; they need no more room.
            n_dummies = max(terms.dummies - tables.count_dummies(), 0)
        n_batches = max(min_batches - self.n_waiting, 0)
        required = SPARE_BYTES + estimate_stored_bytes(n_batches, terms.reports, n_dummies)
        free = self._store.count_free_bytes()
        if free >= required:
            return None
        return (
            f"epoch {self.epoch} needs {required / 1e6:,.1f} MB more on the disk for its crowd, "
            f"and {free / 1e6:,.1f} MB are free; make room. Nothing is taken until then"
        )

    def describe_full_epoch(self) -> str | None:
        """Return a message for the operator if the epoch is full, else None."""
        gate = self._gate
        if gate is None or not gate.is_open or self.n_waiting < self._count_max_batches(gate):
            return None
        return (
            f"epoch {self.epoch} is full with {self.n_waiting:,} batches: devices are turned away "
            "until it ends; raise max_bytes and max_batches, and restart this proxy"
        )

    def _count_reports(self, n_batches: int) -> int:
        """Return how many reports `n_batches` batches and the dummies of the epoch have."""
        terms = self._get_gate().signed.manifest.terms
        return n_batches * terms.reports + terms.dummies

    def _get_active_gate(self) -> EpochGate:
        """Return the gate, or raise an `UnavailableError` while the proxy takes no batches.

        Call this before a batch is decoded. After this error a device keeps the batch that it has
        paid for and tries again, even if the batch is of another epoch.
        """
        gate = self._get_gate()
        self.check_not_paused()
        if self.find_limit_problem() is not None:
            raise UnavailableError(_PAUSED_MESSAGE)
        return gate

    def _get_gate(self) -> EpochGate:
        if self._gate is None:
            raise UnavailableError("no manifest has come from the server yet")
        return self._gate


def _add_batch(
    batch: Batch, gate: EpochGate, tables: BatchTables, room: int
) -> bool | SottovoceError:
    """Add a batch; return whether it is new, or the error that refuses it."""
    try:
        gate.check(batch)
        if room > 0:
            return tables.add_batch(batch)
        # A batch that is stored already needs no room: its sender did not get the answer.
        if tables.has_batch(batch):
            return False
        raise FullError(_FULL_MESSAGE, RETRY_WHEN_FULL_SECONDS)
    except (RefusedError, FullError) as error:
        return error
