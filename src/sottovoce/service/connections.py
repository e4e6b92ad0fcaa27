"""Limits on the connections of a listener, in total and for each address.

If all places are taken, a new connection displaces the one that has waited longest without sending
a complete request. So nobody can lock others out by connecting and sending nothing.
"""

import asyncio
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from prometheus_client import CollectorRegistry, Counter

# Seconds between two checks of the connections' deadlines.
DEADLINE_CHECK_SECONDS = 0.25

RejectionReason = Literal["full", "displaced", "late", "unreadable"]
# The connection was refused: every place had a request that was being answered.
FULL: RejectionReason = "full"
# A new connection took the place of this one, which had sent no complete request.
DISPLACED: RejectionReason = "displaced"
# A header, a body or a handshake did not come in time. Closing an idle connection is not counted.
LATE: RejectionReason = "late"
# The header was too large, or the data was not HTTP.
UNREADABLE: RejectionReason = "unreadable"

OnRejection = Callable[[RejectionReason], None]


class RejectionCounter:
    """Counts the connections that were not served, by reason, without addresses and times.

    The metric shows an attack, or a limit that is too low for honest users.
    """

    def __init__(self, service: str, registry: CollectorRegistry):
        self._counter = Counter(
            f"sottovoce_{service}_connections_turned_away",
            "Connections that were not served",
            ["reason"],
            registry=registry,
        )
        for reason in get_args(RejectionReason):
            self._counter.labels(reason)

    def __call__(self, reason: RejectionReason) -> None:
        self._counter.labels(reason).inc()


def ignore_rejection(_: RejectionReason) -> None:
    """Count nothing."""


class Connection(Protocol):
    """A connection that `ConnectionLimiter` can give a place."""

    deadline: float
    """Time of the event loop's clock after which the limiter calls `time_out`."""

    def time_out(self) -> None:
        """End the connection, or set a later deadline, because the deadline has passed."""

    def drop(self) -> None:
        """End the connection at once, because another one gets its place."""


@dataclass
class Quota:
    """A number of places, and the connections that may be displaced."""

    limit: int
    used: int = 0
    waiting: dict[Connection, None] = field(default_factory=dict)
    """Connections without a complete request, the longest waiting first."""


class ConnectionLimiter:
    """Gives places to the connections of a listener.

    Args:
        max_connections: Places in total.
        max_per_address: Places of one address; 0 for no limit. Then no address is remembered.
        on_rejection: Called with the reason when a connection is not served.
    """

    def __init__(
        self,
        max_connections: int,
        max_per_address: int,
        on_rejection: OnRejection = ignore_rejection,
    ):
        self.on_rejection = on_rejection
        self._total = Quota(max_connections)
        self._max_per_address = max_per_address
        self._by_address: dict[str | int, Quota] = {}
        self._places: dict[Connection, tuple[str | int, list[Quota]]] = {}
        self._is_checking = False

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, connection: Connection, address: str, loop: asyncio.AbstractEventLoop) -> bool:
        """Give a connection a place and watch its deadline; return False if there is no place."""
        is_admitted = self.add(connection, address)
        if is_admitted and not self._is_checking:
            self._is_checking = True
            self._check_deadlines(loop)
        return is_admitted

    def add(self, connection: Connection, address: str) -> bool:
        """Give a connection a place; return False if no connection can be displaced for it."""
        network: str | int = ""
        quotas = [self._total]
        if self._max_per_address:
            network = get_network(address)
            quotas.insert(0, self._by_address.get(network) or Quota(self._max_per_address))
        for quota in quotas:
            if quota.used >= quota.limit and not self._make_place(quota):
                self.on_rejection(FULL)
                return False
        if self._max_per_address:
            self._by_address[network] = quotas[0]
        self._places[connection] = network, quotas
        for quota in quotas:
            quota.used += 1
            quota.waiting[connection] = None
        return True

    def set_waiting(self, connection: Connection) -> None:
        """Mark a connection as waiting, after its request was answered. It may be displaced."""
        for quota in self._get_quotas(connection):
            quota.waiting.pop(connection, None)
            quota.waiting[connection] = None

    def set_working(self, connection: Connection) -> None:
        """Mark a connection as working, when its request is complete. It is not displaced."""
        for quota in self._get_quotas(connection):
            quota.waiting.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Free the place of a connection, if it has one."""
        network, quotas = self._places.pop(connection, ("", []))
        for quota in quotas:
            quota.used -= 1
            quota.waiting.pop(connection, None)
        if self._max_per_address and quotas and not quotas[0].used:
            del self._by_address[network]

    def _get_quotas(self, connection: Connection) -> list[Quota]:
        return self._places.get(connection, ("", []))[1]

    def _make_place(self, quota: Quota) -> bool:
        longest_waiting = next(iter(quota.waiting), None)
        if longest_waiting is None:
            return False
        self.remove(longest_waiting)
        longest_waiting.drop()
        self.on_rejection(DISPLACED)
        return True

    def _check_deadlines(self, loop: asyncio.AbstractEventLoop) -> None:
        # A single timer serves all connections, and stops when there are none.
        now = loop.time()
        for connection in list(self._places):
            if connection.deadline <= now:
                connection.time_out()
        self._is_checking = bool(self._places)
        if self._is_checking:
            loop.call_later(DEADLINE_CHECK_SECONDS, self._check_deadlines, loop)


def get_network(address: str) -> str | int:
    """Return the network of a household: the IPv4 address, or the first 56 bits of an IPv6 address.

    >>> get_network("203.0.113.7")
    '203.0.113.7'
    >>> get_network("2001:db8::1") == get_network("2001:db8::ffff")
    True
    >>> get_network("::ffff:203.0.113.7")
    '203.0.113.7'
    """
    if ":" not in address:
        return address
    try:
        ipv6 = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipv6.ipv4_mapped) if ipv6.ipv4_mapped else int(ipv6) >> 72
