"""The panel: public test people, on whom anybody can measure a published model.

Everybody can read what is in it, so only people who were invented, or who said yes to that, belong
on one; and nobody on it takes part in the training. Numbers are rows of the catalogue it names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

if TYPE_CHECKING:
    from typing import Any, Self

VERSION = 1
MAX_PANEL = 16 * 1024 * 1024
MAX_ROW = 2**31 - 1


@dataclass(frozen=True)
class Panellist:
    seen: tuple[int, ...]
    """What they touched, but for one."""
    left: int
    """That one: a good model ranks it high."""
    others: tuple[int, ...]
    """What it competes with: they touched none of these."""


@dataclass(frozen=True)
class Panel:
    """All of them, and the hash of the catalogue that their rows are counted in."""

    catalogue: bytes
    people: tuple[Panellist, ...]
    touched: tuple[int, ...] = ()
    """How many others touched each row, to compare models with popularity; empty: not known."""

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Any bytes give a panel or a `ProtocolError`."""
        given = strict.read_object(raw, most=MAX_PANEL, what="panel")
        touched = given.pop("touched", [])
        strict.exact_keys(given, {"version", "catalogue", "people"}, "panel")
        strict.whole(given["version"], least=VERSION, most=VERSION, what="version of the panel")
        catalogue = strict.hexadecimal(given["catalogue"], what="catalogue of the panel")
        if not isinstance(given["people"], list) or not given["people"]:
            raise ProtocolError("panel: people must be a list of at least one")
        people = tuple(_panellist(each) for each in given["people"])
        return cls(catalogue, people, _touched(touched))

    def encode(self) -> bytes:
        people = [
            {"seen": list(each.seen), "left": each.left, "others": list(each.others)}
            for each in self.people
        ]
        content = {"version": VERSION, "catalogue": self.catalogue.hex(), "people": people}
        if self.touched:
            content["touched"] = list(self.touched)
        return json.dumps(content, separators=(",", ":")).encode()


def _touched(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise ProtocolError(f"panel: touched must be a list, not {strict.shown(given)}")
    return tuple(
        strict.whole(each, least=0, most=MAX_ROW, what="touched of the panel") for each in given
    )


def _panellist(given: Any) -> Panellist:
    if not isinstance(given, dict):
        raise ProtocolError(f"panel: a person is an object, not {strict.shown(given)}")
    strict.exact_keys(given, {"seen", "left", "others"}, "person of the panel")
    if not (isinstance(given["seen"], list) and isinstance(given["others"], list)):
        raise ProtocolError("panel: seen and others must be lists")
    rows = [*given["seen"], given["left"], *given["others"]]
    for row in rows:
        strict.whole(row, least=0, most=MAX_ROW, what="row of the panel")
    if len(set(rows)) != len(rows) or not given["others"]:
        raise ProtocolError("panel: rows of one person must differ, and one at least must compete")
    return Panellist(tuple(given["seen"]), given["left"], tuple(given["others"]))
