"""What comes in: exactly the batches of the open epoch, each on disk before it is acknowledged.

A batch is checked twice: when it arrives, which is cheap and needs no disk, and again inside the
transaction that stores it. A flush closes the intake first and takes the same lock afterwards, so
every batch is either in the flush or refused; none can slip in behind it.
"""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
from sottovoce.proxy.settings import ProxySettings, Rate
from sottovoce.proxy.store import ProxyStore
from sottovoce.service.connections import get_network

log = logging.getLogger("sottovoce")

Given = TypeVar("Given")
Answer = TypeVar("Answer")

LATER = 3600.0
"""Seconds after which whoever found the epoch full may ask again."""
_CLOSED = "this epoch is over; the next one needs a new manifest"
_LATER = "nothing is taken at present: ask again later"
_FULL = "this epoch takes no more batches"


GROUP = 512
"""Batches in one transaction, at most."""
MOST_WAITING = 8192
"""More at once are sent away: what waits is held in memory."""


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
        self.check_open()

    def check_open(self) -> None:
        if not self.is_open:
            raise ClosedError(_CLOSED)


class Intake:
    def __init__(
        self,
        store: ProxyStore,
        settings: ProxySettings,
        clock: Callable[[], float],
        is_barred: Callable[[], bool],
        accounts: Accounts,
    ):
        """`is_barred` says whether what came in now could not be counted."""
        self._accounts = accounts
        self._store = store
        self._clock = clock
        self._is_barred = is_barred
        self._most_batches = settings.most_batches
        self._most_bytes = settings.most_bytes
        self._least_for = settings.least_for
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

    @property
    def epoch(self) -> int:
        """The one that clients are shown; 0 before the first."""
        return 0 if self._gate is None else self._gate.signed.manifest.epoch

    def batch_size(self) -> int:
        terms = self._present_gate().signed.manifest.terms
        return batch_size(terms.reports, accounts=terms.accounts)

    def check(self, data: bytes) -> Batch:
        """The batch, if it may be kept; raises what its sender should know."""
        gate = self._taking_gate()
        terms = gate.signed.manifest.terms
        batch = Batch.decode(data, terms.reports, accounts=terms.accounts)
        gate.check(batch)
        self._check_time(gate)
        if terms.accounts:
            self._accounts.redeem(batch)
        return batch

    def check_taken(self, manifest_hash: bytes) -> None:
        """Whether a batch of this epoch would be taken now: devices ask before they pay.

        A cache may have shown them an epoch that is over.
        """
        gate = self._taking_gate()
        if manifest_hash != gate.signed.hash:
            raise ClosedError(_CLOSED)
        self._check_time(gate)
        gate.check_open()
        if self.waiting >= self._most(gate):
            raise FullError(_FULL, LATER)

    def _check_time(self, gate: EpochGate) -> None:
        manifest, now = gate.signed.manifest, self._clock()
        if self._accounts.are_fewer(self._least_for(manifest.terms)):
            raise ClosedError("too few accounts have a token of this epoch; wait for the next one")
        if now < manifest.opens:
            raise UnavailableError("this epoch is not open yet")
        if not manifest.asks_for_reports(now):
            raise ClosedError(_CLOSED)

    def keep(self, batches: Sequence[Batch]) -> list[SottovoceError | None]:
        """All in one transaction; for each, what is wrong with it, or None: it is on disk."""
        with self._lock:
            outcomes: list[bool | SottovoceError] = []
            try:
                n_reports = self._count_reports(self.waiting + len(batches))
                with self._store.write_batches(n_reports) as tables:
                    # Inside the transaction: a flush closes the gate and then waits for it.
                    gate = self._present_gate()
                    room = self._most(gate) - self.waiting
                    for batch in batches:
                        outcome = _added(batch, gate, tables, room)
                        room -= outcome is True
                        outcomes.append(outcome)
            except (ClosedError, StoreError) as error:
                return [error] * len(batches)
            self.waiting += outcomes.count(True)
        return [None if isinstance(outcome, bool) else outcome for outcome in outcomes]

    def _most(self, gate: EpochGate) -> int:
        """Batches that the epoch takes besides its dummies: they have all the same size."""
        terms = gate.signed.manifest.terms
        room = self._most_bytes - SEALED_BYTES * terms.dummies
        return min(self._most_batches, room // self.batch_size())

    @property
    def lacks_room(self) -> str | None:
        """Why the epoch, with its dummies, can never have its crowd here; None: it can."""
        gate = self._present_gate()
        terms = gate.signed.manifest.terms
        least = self._least_for(terms)
        if self._most(gate) >= least:
            return None
        size = SEALED_BYTES * terms.dummies + least * self.batch_size()
        return (
            f"epoch {self.epoch} has {terms.dummies:,} dummies and needs {least:,} people: "
            f"most_bytes must be far above {size} and most_batches above {least}, or each device "
            "more is turned away; leave both out for the usual, and restart this proxy. Nothing is "
            "taken until then"
        )

    def _count_reports(self, n_batches: int) -> int:
        """Return how many reports are mixed at the end of an epoch with so many batches."""
        terms = self._present_gate().signed.manifest.terms
        return n_batches * terms.reports + terms.dummies

    def find_lack_of_disk(self) -> str | None:
        """Reserve room ahead; return why a crowd could not be stored and mixed here, or None.

        Asked at every beat, before devices pay.
        """
        gate = self._present_gate()
        min_batches = self._least_for(gate.signed.manifest.terms)
        expected = max(min_batches, self.waiting + self.waiting // 4)
        try:
            self._store.reserve(self._count_reports(min(expected, self._most(gate))))
        except StoreError as error:
            return f"{error}; epoch {self.epoch} could not be mixed, so nothing is taken until then"
        with self._store.read_batches() as tables:
            dummies = max(gate.signed.manifest.terms.dummies - tables.count_dummies(), 0)
        batches, reports = max(min_batches - self.waiting, 0), gate.signed.manifest.terms.reports
        required = SPARE_BYTES + estimate_stored_bytes(batches, reports, dummies)
        free = self._store.free_bytes()
        if free >= required:
            return None
        return (
            f"epoch {self.epoch} needs {required / 1e6:,.1f} MB more on the disk for its crowd, "
            f"and {free / 1e6:,.1f} MB are free; make room. Nothing is taken until then"
        )

    @property
    def is_full(self) -> str | None:
        """What to say of an epoch that takes no more batches; None: it takes some."""
        if self._gate is None or not self._gate.is_open or self.waiting < self._most(self._gate):
            return None
        return (
            f"epoch {self.epoch} is full with {self.waiting:,} batches: devices are turned away "
            "until it ends; raise most_bytes and most_batches, and restart this proxy"
        )

    def _taking_gate(self) -> EpochGate:
        """Barred before all else: what was paid for, of whichever epoch, waits on its device."""
        gate = self._present_gate()
        self.check_barred()
        if self.lacks_room is not None:
            raise UnavailableError(_LATER)
        return gate

    def check_barred(self) -> None:
        if self._is_barred():
            raise UnavailableError(_LATER)

    def _present_gate(self) -> EpochGate:
        if self._gate is None:
            raise UnavailableError("no manifest has come from the server yet")
        return self._gate


def _added(batch: Batch, gate: EpochGate, tables: BatchTables, room: int) -> bool | SottovoceError:
    """One that is here already needs no room: its sender did not hear the answer."""
    try:
        gate.check(batch)
        if room > 0:
            return tables.add_batch(batch)
        if tables.has_batch(batch):
            return False
        raise FullError(_FULL, LATER)
    except (RefusedError, FullError) as error:
        return error


class GroupCommit(Generic[Given, Answer]):
    """What comes while one transaction is synced shares the next: batches, or requests for tokens.

    A disk syncs perhaps a few hundred times a second, and a batch may be acknowledged only after a
    sync.
    """

    def __init__(
        self,
        keep: Callable[[list[Given]], Sequence[Answer | Exception]],
        *,
        most_waiting: int = MOST_WAITING,
    ):
        self._keep = keep
        self._most_waiting = most_waiting
        self._waiting: list[tuple[Given, asyncio.Future[Answer]]] = []
        self._storing: asyncio.Task[None] | None = None

    async def write(self, given: Given) -> Answer:
        """Returns when it is on disk, or raises why it is not."""
        if len(self._waiting) >= self._most_waiting:
            raise UnavailableError("too many at once")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if self._storing is None:
            self._storing = asyncio.create_task(self._store())
        return await future

    async def finish(self) -> None:
        if self._storing is not None:
            await self._storing

    async def _store(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
            outcomes: Sequence[Answer | Exception]
            try:
                outcomes = await asyncio.to_thread(self._keep, [given for given, _ in group])
            except Exception as error:  # a fault of ours must not leave anybody waiting
                outcomes = [error] * len(group)
            for (_, future), outcome in zip(group, outcomes, strict=True):
                if future.done():  # whoever asked has hung up
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        self._storing = None


# A limit on what one address may send. Addresses are held in memory and nowhere else.

MOST_ADDRESSES = 100_000
"""More are not remembered: the one that was silent longest starts afresh."""


@dataclass
class Known:
    tokens: float
    then: float
    """When they were counted."""
    epoch: int = 0
    taken: int = 0
    """Batches of that epoch that are on disk."""
    under_way: int = 0
    """Requests that may still bring a batch, of whichever epoch it is."""

    def reach(self, epoch: int) -> None:
        """A later epoch begins with nothing taken."""
        if epoch > self.epoch:
            self.epoch, self.taken = epoch, 0


class RateLimit:
    """A bucket of tokens for each address: a batch takes one, time brings them back.

    And so many batches in one epoch. A request has its place before its body is read, and while it
    is under way it counts for every epoch: whoever begins many and ends them at once, or in the
    next epoch, has no more. What was refused gives it back.
    """

    def __init__(
        self, rate: Rate, clock: Callable[[], float], *, most_addresses: int = MOST_ADDRESSES
    ):
        self._per_second = rate.batches_per_minute / 60
        self._burst = float(rate.burst)
        self._per_epoch = rate.per_epoch
        self._clock = clock
        self._most = most_addresses
        self._addresses: OrderedDict[str | int, Known] = OrderedDict()

    def wait(self, address: str, epoch: int) -> float:
        """0 when a batch may come now, which takes a token and a place; else seconds to wait."""
        pause = self.would_wait(address, epoch)
        if not pause and not self._is_off:
            known = self._known(address)
            known.tokens -= 1
            known.under_way += 1
        return pause

    def would_wait(self, address: str, epoch: int) -> float:
        """The same for somebody who only asks."""
        if self._is_off:
            return 0.0
        known = self._known(address)
        known.reach(epoch)
        if self._per_epoch and known.taken + known.under_way >= self._per_epoch:
            return LATER
        return self._until_token(known) if self._per_second else 0.0

    def end(self, address: str, epoch: int | None) -> None:
        """Of a request that might come: the epoch of the batch that it brought, or None."""
        if self._is_off:
            return
        known = self._known(address)
        known.under_way = max(known.under_way - 1, 0)
        if epoch is not None:
            known.reach(epoch)
            known.taken += known.epoch == epoch

    def _until_token(self, known: Known) -> float:
        """Seconds until there is one; 0 if there is."""
        now = self._clock()
        known.tokens += max(now - known.then, 0.0) * self._per_second
        known.tokens, known.then = min(self._burst, known.tokens), now
        return max(1 - known.tokens, 0.0) / self._per_second

    @property
    def _is_off(self) -> bool:
        """Then no address is remembered."""
        return not (self._per_second or self._per_epoch)

    def _known(self, address: str) -> Known:
        """What is known of it; it is now the last to be forgotten."""
        whom = get_network(address)
        known = self._addresses.pop(whom, None) or Known(self._burst, self._clock())
        self._addresses[whom] = known
        if len(self._addresses) > self._most:
            self._addresses.popitem(last=False)
        return known
