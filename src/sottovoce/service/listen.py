"""Where a service listens, and how much of it one connection may use."""

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import nan
from pathlib import Path
from typing import ClassVar, Literal, Protocol, get_args

from cryptography.x509 import load_pem_x509_certificate
from prometheus_client import CollectorRegistry, Counter

from sottovoce.errors import SettingsError, get_reason
from sottovoce.service.http import network_of
from sottovoce.settings import check, setting

BACKLOG = 4096
"""Connections that wait to be taken; the system may allow fewer."""


@dataclass(frozen=True)
class Listen:
    _table: ClassVar = "listen"
    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    """PEM chain; without one something in front must speak TLS."""
    private_key: Path | None = None
    client_authority: Path | None = None
    """PEM authorities: whoever connects must show a certificate that one of them signed."""
    header_bytes: int = setting(
        16_384,
        "bytes of a request's first line and headers; more are answered 431",
        min_value=1_024,
    )
    header_fields: int = setting(64, "headers of a request; more are answered 431", min_value=8)
    header_seconds: float = setting(
        10.0, "for a request's headers, and before them for the TLS handshake; then 408", above=0
    )
    body_seconds: float = setting(30.0, "for a request's body; then 408", above=0)
    idle_seconds: float = setting(
        15.0, "that a connection is kept after an answer, or an answer left unread", above=0
    )
    connections: int = setting(
        4_096,
        "at once, if file descriptors suffice; a further one takes the place of the longest idle",
        min_value=8,
    )
    connections_per_address: int = setting(
        64,
        "of one address (IPv6: one /56) likewise; 0: no limit, for use behind a relay",
        min_value=0,
    )

    def __post_init__(self) -> None:
        check(self)
        if not 0 <= self.port < 2**16:
            raise SettingsError(f"port must be from 0 to 65535, not {self.port}")
        if self.certificate is None and (self.private_key or self.client_authority):
            raise SettingsError(
                "private_key and client_authority mean nothing without a certificate: "
                "name one, or leave them out and let something in front speak TLS"
            )
        for name in ("certificate", "private_key", "client_authority"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise SettingsError(f"{name}: {path} must be a file that can be read")

    def bind(self, where: str = "") -> list[socket.socket]:
        """Sockets that listen; an error names the port, which another program may have.

        `where` says by which option to name another, if there are no settings yet.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            return [
                socket.create_server(address[:2], family=family, backlog=BACKLOG)
                for family, _, _, _, address in dict.fromkeys(found)
            ]
        except (OSError, UnicodeError) as error:
            is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
            raise SettingsError(
                f"cannot listen on {self.host}, port {self.port}: {get_reason(error)}; name "
                f"another port {where or f'in the settings file, [{self._table}]'}"
                + ", or end the program that has this one"
                * is_taken
            ) from error

    def check_free(self, where: str = "") -> None:
        for each in self.bind(where):
            each.close()

    def tls(self) -> ssl.SSLContext | None:
        """What to speak TLS with; None: plain HTTP."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A resumed session would link the requests of a device across its addresses. TLS 1.3
        # resumes by tickets alone. TLS 1.2 also does by ids, which Python cannot switch off.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        load_certificate(context, self.certificate, self.private_key)
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except (OSError, ValueError) as error:
                raise SettingsError(
                    f"{self.client_authority}: no certificate of an authority: {error}"
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def load_certificate(context: ssl.SSLContext, certificate: Path, private_key: Path | None) -> None:
    """To be shown to others; an error names the file."""
    key = private_key or certificate
    try:
        context.load_cert_chain(certificate, private_key)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"{key}: must be the private key of {certificate}") from error
        raise SettingsError(
            f"{certificate}: no certificate with the private key in {key}: {error}"
        ) from error


SOON = 14 * 86_400
"""Seconds before its end from which on a certificate is a matter for its operator."""


def seconds_left(certificates: Iterable[Path | None]) -> float:
    """Until the first of them expires; 0 if one cannot be read, NaN if there is none."""
    try:
        ends = [_end_of(path).timestamp() for path in certificates if path is not None]
    except (OSError, ValueError):
        return 0.0
    return min(ends, default=nan) - time.time()


def _end_of(certificate: Path) -> datetime:
    return load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def expiring(certificates: Iterable[Path | None], now: float) -> Iterator[str]:
    """What to say of those that have expired, or will soon."""
    for path in (each for each in certificates if each is not None):
        try:
            ends = _end_of(path)
        except (OSError, ValueError) as error:
            yield f"{path}: no certificate can be read: {get_reason(error)}"
            continue
        if ends.timestamp() < now + SOON:
            verb = "has expired" if ends.timestamp() < now else "expires"
            yield f"{path}: this certificate {verb}, on {ends:%Y-%m-%d}; renew it"


@dataclass(frozen=True)
class Watch(Listen):
    """Where the operator's own programs watch a service; no place for the public."""

    _table = "watch"
    port: int = 8081
    connections: int = setting(32, "at once", min_value=8)
    connections_per_address: int = setting(0, "0: no limit", min_value=0)

    def check_apart(self, public: Listen) -> None:
        """Two listeners need two ports; 0 is a free one, another each time."""
        if self.port == public.port != 0:
            raise SettingsError(
                f"the service and its health and metrics need two ports, both are {self.port}"
            )


# Connections that were not served, counted by reason: no address, no moment, nothing of a request.
#
# So an operator sees an attack, or a cap that is too low for honest people, in the metrics.

TurnAway = Callable[["Reason"], None]

Reason = Literal["full", "displaced", "late", "unreadable"]
FULL: Reason = "full"
"""All places were taken by requests that are being worked on."""
DISPLACED: Reason = "displaced"
"""It had sent no complete request, and another took its place."""
LATE: Reason = "late"
"""A header, a body or a handshake did not come in time. Idle connections that end are not late."""
UNREADABLE: Reason = "unreadable"
"""A header that is too large, or no HTTP."""


class TurnedAway:
    """The counter of one service, to be called with each reason."""

    def __init__(self, service: str, registry: CollectorRegistry):
        self._counter = Counter(
            f"sottovoce_{service}_connections_turned_away",
            "Connections that were not served",
            ["reason"],
            registry=registry,
        )
        for each in get_args(Reason):
            self._counter.labels(each)

    def __call__(self, reason: Reason) -> None:
        self._counter.labels(reason).inc()


def uncounted(_: Reason) -> None:
    """For a listener that nobody measures."""


# Places for connections: so many in all, so many for one address.
#
# When all are taken, whoever has waited longest without sending a complete request goes. So whoever
# connects and says nothing locks nobody out.


class Guest(Protocol):
    """A connection."""

    deadline: float
    """When `late` is called, by the event loop's clock."""

    def late(self) -> None:
        """The time for what it was to do is over."""

    def give_way(self) -> None:
        """Its place is given to another."""


@dataclass
class Room:
    """So many places, and who waits in them, longest first."""

    most: int
    taken: int = 0
    waiting: dict[Guest, None] = field(default_factory=dict)


class Places:
    """Who has one. With no limit for one address, no address is remembered."""

    def __init__(self, most: int, most_of_address: int, turned_away: TurnAway = uncounted):
        self._turned_away = turned_away
        self._everybody = Room(most)
        self._most_of_address = most_of_address
        self._addresses: dict[str | int, Room] = {}
        self._guests: dict[Guest, tuple[str | int, list[Room]]] = {}

    def __iter__(self) -> Iterator[Guest]:
        return iter(list(self._guests))

    def __len__(self) -> int:
        return len(self._guests)

    def take(self, guest: Guest, address: str) -> bool:
        """Whether there is one: not if everybody else's request is being worked on."""
        whom: str | int = ""
        rooms = [self._everybody]
        if self._most_of_address:
            whom = network_of(address)
            rooms.insert(0, self._addresses.get(whom) or Room(self._most_of_address))
        for room in rooms:
            if room.taken >= room.most and not self._make_place(room):
                self._turned_away(FULL)
                return False
        if self._most_of_address:
            self._addresses[whom] = rooms[0]
        self._guests[guest] = whom, rooms
        for room in rooms:
            room.taken += 1
            room.waiting[guest] = None
        return True

    def wait(self, guest: Guest) -> None:
        """It was answered: from now on it waits again."""
        for room in self._rooms(guest):
            room.waiting.pop(guest, None)
            room.waiting[guest] = None

    def work(self, guest: Guest) -> None:
        """Its request is complete: nobody takes its place."""
        for room in self._rooms(guest):
            room.waiting.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        whom, rooms = self._guests.pop(guest, ("", []))
        for room in rooms:
            room.taken -= 1
            room.waiting.pop(guest, None)
        if self._most_of_address and rooms and not rooms[0].taken:
            del self._addresses[whom]

    def _rooms(self, guest: Guest) -> list[Room]:
        return self._guests.get(guest, ("", []))[1]

    def _make_place(self, room: Room) -> bool:
        longest = next(iter(room.waiting), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.give_way()
        self._turned_away(DISPLACED)
        return True
