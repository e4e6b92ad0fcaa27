"""A limit on how fast one address may send. Addresses are held in memory and nowhere else."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.proxy.settings import Rate

MOST_ADDRESSES = 100_000
"""More are not remembered: the one that was silent longest starts afresh."""


class RateLimit:
    """A bucket of tokens for each address: a batch takes one, time brings them back."""

    def __init__(
        self, rate: Rate, clock: Callable[[], float], *, most_addresses: int = MOST_ADDRESSES
    ):
        self._per_second = rate.batches_per_minute / 60
        self._burst = float(rate.burst)
        self._clock = clock
        self._most = most_addresses
        self._buckets: OrderedDict[str | int, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """0 when a batch may come now, which takes a token; else the seconds until one may."""
        if not self._per_second:
            return 0.0
        whom, now = network_of(address), self._clock()
        tokens, then = self._buckets.pop(whom, (self._burst, now))
        tokens = min(self._burst, tokens + max(now - then, 0.0) * self._per_second)
        allowed = tokens >= 1
        self._buckets[whom] = (tokens - allowed, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._per_second


def network_of(address: str) -> str | int:
    """What one household has: an IPv4 address, or the first 64 bits of an IPv6 address.

    >>> network_of("203.0.113.7")
    '203.0.113.7'
    >>> network_of("2001:db8::1") == network_of("2001:db8::ffff")
    True
    >>> network_of("::ffff:203.0.113.7")
    '203.0.113.7'
    """
    if ":" not in address:
        return address
    try:
        known = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(known.ipv4_mapped) if known.ipv4_mapped else int(known) >> 64
