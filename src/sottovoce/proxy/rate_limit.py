"""Limits on the requests of an address. Addresses are held in memory and never written."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.proxy.intake import RETRY_WHEN_FULL_SECONDS
from sottovoce.proxy.settings import Rate
from sottovoce.service.connections import get_network

# Addresses that are remembered. If there are more, the one that was silent longest is forgotten.
MAX_ADDRESSES = 100_000


@dataclass
class AddressState:
    """How much one address has sent, and how much it may still send."""

    allowance: float
    """Batches that the address may send now; it grows with time, up to the burst."""
    counted_at: float
    """Time of the limit's clock at which `allowance` was computed."""
    epoch: int = 0
    """The epoch that `n_stored` counts."""
    n_stored: int = 0
    """Batches of the address that are on disk, in `epoch`."""
    n_in_progress: int = 0
    """Requests under way, which may still store a batch in any epoch."""

    def enter_epoch(self, epoch: int) -> None:
        """Set the number of stored batches to 0 if `epoch` is a later epoch."""
        if epoch > self.epoch:
            self.epoch, self.n_stored = epoch, 0


class RateLimit:
    """Limits how many batches each address may send, by time and by epoch.

    By time, each address has an allowance: a request takes 1 from it, and it grows steadily up to
    the burst. By epoch, each address has a number of places: a request takes one before its body is
    read, and gives it back if no batch is stored. A request under way counts in every epoch, so an
    address cannot exceed the limit by beginning many requests and completing them together, or in
    the next epoch.

    Args:
        rate: The limits.
        clock: Returns seconds.
        max_addresses: Addresses that are remembered.
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
        """Begin a request: take a place and 1 of the allowance.

        Returns:
            0 if the request may go on. Otherwise the seconds to wait; then nothing is taken.
        """
        wait = self.get_wait(address, epoch)
        if not wait and not self._is_off:
            state = self._get_state(address)
            state.allowance -= 1
            state.n_in_progress += 1
        return wait

    def get_wait(self, address: str, epoch: int) -> float:
        """Return the seconds until the address may send a batch; 0 if it may now."""
        if self._is_off:
            return 0.0
        state = self._get_state(address)
        state.enter_epoch(epoch)
        # Count requests under way too: otherwise many that begin together would all pass.
        if self._per_epoch and state.n_stored + state.n_in_progress >= self._per_epoch:
            return RETRY_WHEN_FULL_SECONDS
        return self._count_seconds_to_next(state) if self._per_second else 0.0

    def end(self, address: str, epoch: int | None) -> None:
        """End a request that `begin` let pass.

        Args:
            address: The address that sent it.
            epoch: The epoch of the batch that it stored; None if it stored none.
        """
        if self._is_off:
            return
        state = self._get_state(address)
        state.n_in_progress = max(state.n_in_progress - 1, 0)
        if epoch is not None:
            state.enter_epoch(epoch)
            state.n_stored += state.epoch == epoch

    def _count_seconds_to_next(self, state: AddressState) -> float:
        now = self._clock()
        # If the clock was set back, the allowance stays as it is.
        state.allowance += max(now - state.counted_at, 0.0) * self._per_second
        state.allowance, state.counted_at = min(self._burst, state.allowance), now
        return max(1 - state.allowance, 0.0) / self._per_second

    @property
    def _is_off(self) -> bool:
        """Whether there is no limit. Then no address is remembered."""
        return not (self._per_second or self._per_epoch)

    def _get_state(self, address: str) -> AddressState:
        """Return the state of an address, and mark the address as used last."""
        network = get_network(address)
        # The dictionary is ordered by last use: move the address to its end.
        state = self._addresses.pop(network, None) or AddressState(self._burst, self._clock())
        self._addresses[network] = state
        # An attacker with many addresses must not use up the memory.
        if len(self._addresses) > self._max_addresses:
            self._addresses.popitem(last=False)
        return state
