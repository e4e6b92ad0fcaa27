"""A limit on what one address may send. Addresses are held in memory and nowhere else."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.proxy.intake import RETRY_WHEN_FULL_SECONDS
from sottovoce.proxy.settings import Rate
from sottovoce.service.connections import get_network

# Of more addresses, the one that was silent longest is forgotten: it starts afresh.
MAX_ADDRESSES = 100_000


@dataclass
class AddressState:
    """What one address has sent."""

    allowance: float
    """Batches that it may send at once; time brings more."""
    counted_at: float
    """Time when the allowance was counted."""
    epoch: int = 0
    n_stored: int = 0
    """Batches of that epoch that are on disk."""
    n_in_progress: int = 0
    """Requests that may still bring a batch, of any epoch."""

    def enter_epoch(self, epoch: int) -> None:
        """Begin with no stored batches if this is a later epoch."""
        if epoch > self.epoch:
            self.epoch, self.n_stored = epoch, 0


class RateLimit:
    """Limits the batches of each address in time, and in one epoch.

    In time by an allowance: a batch takes one from it, and time brings it back. In one epoch by a
    number of places: a request takes one before its body is read, and gives it back if it is
    refused. While it is in progress it counts for every epoch, so nobody gets more by beginning
    many requests and ending them at once, or in the next epoch.
    """

    def __init__(
        self, rate: Rate, clock: Callable[[], float], *, max_addresses: int = MAX_ADDRESSES
    ):
        self._per_second = rate.batches_per_minute / 60
        self._burst = float(rate.burst)
        self._per_epoch = rate.per_epoch
        self._clock = clock
        self._max_addresses = max_addresses
        self._addresses: OrderedDict[str | int, AddressState] = OrderedDict()

    def begin(self, address: str, epoch: int) -> float:
        """Take a place and a part of the allowance for a batch; return 0, or seconds to wait."""
        wait = self.get_wait(address, epoch)
        if not wait and not self._is_off:
            state = self._get_state(address)
            state.allowance -= 1
            state.n_in_progress += 1
        return wait

    def get_wait(self, address: str, epoch: int) -> float:
        """Return the seconds until a batch may come, and take nothing."""
        if self._is_off:
            return 0.0
        state = self._get_state(address)
        state.enter_epoch(epoch)
        # Requests that are under way count in full, or many begun at once would pass together.
        if self._per_epoch and state.n_stored + state.n_in_progress >= self._per_epoch:
            return RETRY_WHEN_FULL_SECONDS
        return self._count_seconds_to_next(state) if self._per_second else 0.0

    def end(self, address: str, epoch: int | None) -> None:
        """End a request that began; `epoch` is that of the batch that it stored, if any."""
        if self._is_off:
            return
        state = self._get_state(address)
        state.n_in_progress = max(state.n_in_progress - 1, 0)
        if epoch is not None:
            state.enter_epoch(epoch)
            state.n_stored += state.epoch == epoch

    def _count_seconds_to_next(self, state: AddressState) -> float:
        now = self._clock()
        # A clock that went back brings none, and takes none away.
        state.allowance += max(now - state.counted_at, 0.0) * self._per_second
        state.allowance, state.counted_at = min(self._burst, state.allowance), now
        return max(1 - state.allowance, 0.0) / self._per_second

    @property
    def _is_off(self) -> bool:
        """Whether there is no limit; then no address is remembered."""
        return not (self._per_second or self._per_epoch)

    def _get_state(self, address: str) -> AddressState:
        """Return the state of an address, which is now the last to be forgotten."""
        network = get_network(address)
        # Taken out and put back at the end: the dictionary is ordered by last use.
        state = self._addresses.pop(network, None) or AddressState(self._burst, self._clock())
        self._addresses[network] = state
        # An attacker with many addresses must not use up the memory.
        if len(self._addresses) > self._max_addresses:
            self._addresses.popitem(last=False)
        return state
