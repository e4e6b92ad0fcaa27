"""The panel: public test people, with whom anybody can measure a published model."""

import json
from dataclasses import dataclass
from typing import Any, Self

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

PANEL_VERSION = 1
MAX_PANEL_BYTES = 16 * 1024 * 1024
MAX_ROW = 2**31 - 1


@dataclass(frozen=True)
class Panellist:
    """A test person: what they touched, and one item that a good model ranks high."""

    seen: tuple[int, ...]
    """Items that the person touched, except the one that is left out."""
    left: int
    """The item that is left out."""
    others: tuple[int, ...]
    """Items that it competes with; the person touched none of these."""


@dataclass(frozen=True)
class Panel:
    """Public test people, with whom anybody can measure a published model.

    They are invented, or have agreed to be on the panel, and do not take part in the training.
    Items are rows of the catalogue with this hash.
    """

    catalogue: bytes
    people: tuple[Panellist, ...]
    touched: tuple[int, ...] = ()
    """The number of other people who touched each item, to compare models with popularity; empty
    if unknown."""

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a panel; raise a `ProtocolError` if it is malformed."""
        content = strict.parse_object(raw, max_bytes=MAX_PANEL_BYTES, what="panel")
        # The only optional field, so it is taken out before the others are compared.
        touched = content.pop("touched", [])
        strict.check_keys(content, {"version", "catalogue", "people"}, "panel")
        strict.parse_int(
            content["version"],
            min_value=PANEL_VERSION,
            max_value=PANEL_VERSION,
            what="version of the panel",
        )
        catalogue = strict.parse_hex(content["catalogue"], what="catalogue of the panel")
        if not isinstance(content["people"], list) or not content["people"]:
            raise ProtocolError("panel: people must be a list of at least one")
        people = tuple(_parse_panellist(person) for person in content["people"])
        return cls(catalogue, people, _parse_touched(touched))

    def encode(self) -> bytes:
        people = [
            {"seen": list(person.seen), "left": person.left, "others": list(person.others)}
            for person in self.people
        ]
        content = {"version": PANEL_VERSION, "catalogue": self.catalogue.hex(), "people": people}
        if self.touched:
            content["touched"] = list(self.touched)
        return json.dumps(content, separators=(",", ":")).encode()


def _parse_touched(content: Any) -> tuple[int, ...]:
    if not isinstance(content, list):
        raise ProtocolError(f"panel: touched must be a list, not {strict.format_value(content)}")
    return tuple(
        strict.parse_int(row, min_value=0, max_value=MAX_ROW, what="touched of the panel")
        for row in content
    )


def _parse_panellist(content: Any) -> Panellist:
    if not isinstance(content, dict):
        raise ProtocolError(
            f"panel: a person must be an object, not {strict.format_value(content)}"
        )
    strict.check_keys(content, {"seen", "left", "others"}, "person of the panel")
    if not (isinstance(content["seen"], list) and isinstance(content["others"], list)):
        raise ProtocolError("panel: seen and others must be lists")
    rows = [*content["seen"], content["left"], *content["others"]]
    for row in rows:
        strict.parse_int(row, min_value=0, max_value=MAX_ROW, what="row of the panel")
    # A left-out item that is also among the others would always be a tie with itself.
    if len(set(rows)) != len(rows) or not content["others"]:
        raise ProtocolError("panel: the rows of a person must differ, and others must not be empty")
    return Panellist(tuple(content["seen"]), content["left"], tuple(content["others"]))
