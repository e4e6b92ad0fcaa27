"""Places for connections: so many in all, so many for one address.

When all are taken, whoever has waited longest without sending a complete request goes. So whoever
connects and says nothing locks nobody out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sottovoce.service.address import network_of
from sottovoce.service.turned_away import DISPLACED, FULL, uncounted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.service.turned_away import TurnAway


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
