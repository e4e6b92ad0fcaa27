"""The panel: public test data, with which anybody can measure a published model."""

import json
from dataclasses import dataclass
from typing import Any, Self

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

# The version of the format. No other version is read.
PANEL_VERSION = 1
MAX_PANEL_BYTES = 16 * 1024 * 1024
# The largest number in a panel, whether it is a row of the catalogue or a number of people.
MAX_ROW = 2**31 - 1


@dataclass(frozen=True)
class Panellist:
    """A test person. All items are rows of the catalogue.

    One item that the person touched is left out. A model gets only the other touched items. A good
    model ranks the left-out item high among items that the person did not touch.
    """

    seen: tuple[int, ...]
    """The items that the person touched, without the one that is left out."""
    left: int
    """The item that is left out."""
    others: tuple[int, ...]
    """Items that the person did not touch, which the left-out item is ranked among."""


@dataclass(frozen=True)
class Panel:
    """Public test people, whose histories measure how well a published model recommends.

    The people are invented, or have agreed to be on the panel. They do not take part in the
    training.
    """

    catalogue: bytes
    """SHA-256 of the catalogue whose rows the items are."""
    people: tuple[Panellist, ...]
    touched: tuple[int, ...] = ()
    """For each item, the number of people outside the panel who touched it. Models are compared
    with a list of the most popular items by these numbers. Empty if they are unknown."""

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a panel; raise a `ProtocolError` if it is malformed."""
        content = strict.parse_object(raw, max_bytes=MAX_PANEL_BYTES, what="panel")
        # `touched` is the only optional key, so it is removed before the keys are checked.
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
    # If the left-out item were also among the others, it would be ranked against itself.
    if len(set(rows)) != len(rows) or not content["others"]:
        raise ProtocolError(
            "panel: the rows of a person must all be different, and others must not be empty"
        )
    return Panellist(tuple(content["seen"]), content["left"], tuple(content["others"]))
