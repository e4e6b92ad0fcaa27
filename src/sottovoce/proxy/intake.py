"""The batches of the open epoch, each on disk before it is acknowledged.

A batch is checked twice: when it arrives, which is cheap and needs no disk, and again inside the
transaction that stores it. A flush closes the intake first and takes the same lock afterwards, so
every batch is either part of the flush or refused.
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

# Seconds after which a device that found the epoch full may ask again.
RETRY_WHEN_FULL_SECONDS = 3600.0

_CLOSED_MESSAGE = "this epoch is over; the next one needs a new manifest"
_PAUSED_MESSAGE = "nothing is taken at present: ask again later"
_FULL_MESSAGE = "this epoch takes no more batches"


@dataclass(frozen=True)
class EpochGate:
    """An epoch and whether it still takes batches; replaced as a whole, never half changed."""

    signed: SignedManifest
    is_open: bool

    def check(self, batch: Batch) -> None:
        """Raise a `RefusedError` if the batch is of another epoch, or if this one is over."""
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
        settings: Limits of an epoch.
        clock: Returns Unix seconds.
        is_paused: Returns whether a batch that came now could not be counted.
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
        """Batches that wait for the end of the epoch."""

    def open(self, signed: SignedManifest, *, n_waiting: int = 0) -> None:
        """Take batches of an epoch, of which some may be stored already."""
        self.n_waiting = n_waiting
        self._gate = EpochGate(signed, is_open=True)

    def close(self, signed: SignedManifest) -> None:
        """Take no more batches of an epoch."""
        self._gate = EpochGate(signed, is_open=False)

    def reset_waiting(self) -> None:
        """Count the batches as flushed."""
        with self._lock:
            self.n_waiting = 0

    @property
    def epoch(self) -> int:
        """The epoch that clients are shown; 0 before the first."""
        return 0 if self._gate is None else self._gate.signed.manifest.epoch

    @property
    def batch_size(self) -> int:
        """Bytes of a batch in this epoch."""
        terms = self._get_gate().signed.manifest.terms
        return batch_size(terms.reports, accounts=terms.accounts)

    def check(self, data: bytes) -> Batch:
        """Return the batch, or raise what its sender should know."""
        gate = self._get_active_gate()
        terms = gate.signed.manifest.terms
        batch = Batch.decode(data, terms.reports, accounts=terms.accounts)
        gate.check(batch)
        self._check_time(gate)
        if terms.accounts:
            self._accounts.check_token(batch)
        return batch

    def check_would_take(self, manifest_hash: bytes) -> None:
        """Raise the error that a batch of this manifest would get: devices ask before they pay."""
        gate = self._get_active_gate()
        # A cache may have shown the device an epoch that is over.
        if manifest_hash != gate.signed.hash:
            raise ClosedError(_CLOSED_MESSAGE)
        self._check_time(gate)
        gate.check_open()
        if self.n_waiting >= self._count_max_batches(gate):
            raise FullError(_FULL_MESSAGE, RETRY_WHEN_FULL_SECONDS)

    def check_not_paused(self) -> None:
        """Raise an `UnavailableError` while nothing is taken."""
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
                    # Inside the transaction: a flush closes the gate and then waits for it.
                    gate = self._get_gate()
                    # Counted down below: `n_waiting` changes only after the transaction is on disk.
                    room = self._count_max_batches(gate) - self.n_waiting
                    for batch in batches:
                        outcome = _add_batch(batch, gate, tables, room)
                        room -= outcome is True
                        outcomes.append(outcome)
            except (ClosedError, StoreError) as error:
                # One transaction for all: after an error nobody's batch is on disk.
                return [error] * len(batches)
            self.n_waiting += outcomes.count(True)
        return [None if isinstance(outcome, bool) else outcome for outcome in outcomes]

    def _count_max_batches(self, gate: EpochGate) -> int:
        """Return how many batches the epoch takes; its dummies take room too."""
        room = self._settings.most_bytes - SEALED_BYTES * gate.signed.manifest.terms.dummies
        return min(self._settings.most_batches, room // self.batch_size)

    def find_limit_problem(self) -> str | None:
        """Return why the settings allow no crowd in this epoch, or None if they do."""
        gate = self._get_gate()
        terms = gate.signed.manifest.terms
        min_batches = self._settings.compute_min_crowd(terms)
        if self._count_max_batches(gate) >= min_batches:
            return None
        size = SEALED_BYTES * terms.dummies + min_batches * self.batch_size
        return (
            f"epoch {self.epoch} has {terms.dummies:,} dummies and needs {min_batches:,} people: "
            f"most_bytes must be far above {size} and most_batches above {min_batches}, or further "
            "devices are turned away; leave both out to use the defaults, and restart this proxy. "
            "Nothing is taken until then"
        )

    def find_disk_problem(self) -> str | None:
        """Reserve room for more batches; return why a crowd cannot be stored and mixed, or None.

        The proxy asks this at every tick, before devices pay.
        """
        gate = self._get_gate()
        terms = gate.signed.manifest.terms
        min_batches = self._settings.compute_min_crowd(terms)
        # A quarter more than now: until the next tick further batches come in.
        expected = max(min_batches, self.n_waiting + self.n_waiting // 4)
        try:
            self._store.reserve(self._count_reports(min(expected, self._count_max_batches(gate))))
        except StoreError as error:
            return f"{error}; epoch {self.epoch} could not be mixed, so nothing is taken until then"
        with self._store.read_batches() as tables:
            # Dummies are drawn bit by bit; those on disk already need no more room.
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
            "until it ends; raise most_bytes and most_batches, and restart this proxy"
        )

    def _count_reports(self, n_batches: int) -> int:
        """Return how many reports are mixed at the end of an epoch with this many batches."""
        terms = self._get_gate().signed.manifest.terms
        return n_batches * terms.reports + terms.dummies

    def _get_active_gate(self) -> EpochGate:
        """Return the gate, or raise an `UnavailableError` while nothing is taken.

        This comes before a batch is looked at: a device keeps a batch that it paid for, even one of
        another epoch, and tries again.
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
    """Add a batch; return whether it is new, or why it is refused."""
    try:
        gate.check(batch)
        if room > 0:
            return tables.add_batch(batch)
        # A stored batch needs no room: its sender did not receive the answer.
        if tables.has_batch(batch):
            return False
        raise FullError(_FULL_MESSAGE, RETRY_WHEN_FULL_SECONDS)
    except (RefusedError, FullError) as error:
        return error
