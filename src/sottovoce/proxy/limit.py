"""A limit on what one address may send. Addresses are held in memory and nowhere else."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.service.address import network_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.proxy.settings import Rate

MOST_ADDRESSES = 100_000
"""More are not remembered: the one that was silent longest starts afresh."""


LATER = 3600.0
"""Seconds after which an address that has used an epoch up may ask again."""


@dataclass
class Known:
    """One address."""

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
        if self._is_off:
            return 0.0
        known = self._known(address)
        known.reach(epoch)
        if self._per_epoch and known.taken + known.under_way >= self._per_epoch:
            return LATER
        pause = self._take_token(known) if self._per_second else 0.0
        known.under_way += not pause
        return pause

    def end(self, address: str, epoch: int | None) -> None:
        """Of a request that might come: the epoch of the batch that it brought, or None."""
        if self._is_off:
            return
        known = self._known(address)
        known.under_way = max(known.under_way - 1, 0)
        if epoch is not None:
            known.reach(epoch)
            known.taken += known.epoch == epoch

    def _take_token(self, known: Known) -> float:
        """0, or the seconds until there is one."""
        now = self._clock()
        known.tokens += max(now - known.then, 0.0) * self._per_second
        known.tokens, known.then = min(self._burst, known.tokens), now
        if known.tokens < 1:
            return (1 - known.tokens) / self._per_second
        known.tokens -= 1
        return 0.0

    @property
    def _is_off(self) -> bool:
        """Then no address is remembered."""
        return not (self._per_second or self._per_epoch)

    def _known(self, address: str) -> Known:
        """What is known of it; it is now the last to be forgotten."""
        whom = network_of(address)
        known = self._addresses.pop(whom, None) or Known(self._burst, self._clock())
        self._addresses[whom] = known
        if len(self._addresses) > self._most:
            self._addresses.popitem(last=False)
        return known
