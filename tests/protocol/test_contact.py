"""What a proxy and its server tell one another: read strictly, and the clocks that differ."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sottovoce.errors import ProtocolError
from sottovoce.protocol.contact import DAY, NOTICED, Contact, Reply, apart, borne

CONTACT = Contact(7, bytes(range(32)), "short", 12.5, "0123456789abcdef")
TOLD: dict[str, Any] = json.loads(CONTACT.encode())
MISTAKES = {
    "epoch": (-1, 0, 1.0, True, "7", 2**32, None),
    "manifest": (None, "", "0" * 63, 7, "G" * 64),
    "crowd": (0, True, 1.5, "", "many", "None", ["none"], 12),
    "time": (True, "1", None, 1e13, -1e13, 10**400, [0]),
    "process": ("", 7, "0" * 15, "G" * 16, "0" * 17),
}


def test_each_is_read_as_it_was_said() -> None:
    for said in (
        CONTACT,
        Contact(7, bytes(32), None, 0.0, None),
        Contact(0, None, None, 1e9, None),
    ):
        assert Contact.decode(said.encode()) == said
    for answer in (Reply("none", 0.0), Reply("open", 1.5), Reply("applied", 1e9)):
        assert Reply.decode(answer.encode()) == answer


@pytest.mark.parametrize("field", MISTAKES)
def test_every_mistake_is_refused(field: str) -> None:
    for value in MISTAKES[field]:
        with pytest.raises(ProtocolError):
            Contact.decode(json.dumps(TOLD | {field: value}).encode())
    without = {name: value for name, value in TOLD.items() if name != field}
    bad: Any
    for bad in (without, TOLD | {"batches": 3}, []):
        with pytest.raises(ProtocolError):
            Contact.decode(json.dumps(bad).encode())
    for bad in ({"state": "open"}, {"state": "late", "time": 1}, {"state": "open", "time": "1"}):
        with pytest.raises(ProtocolError):
            Reply.decode(json.dumps(bad).encode())


@given(some.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for kind in (Contact, Reply):
        try:
            kind.decode(data)
        except ProtocolError:
            continue


def test_clocks_that_differ_are_told_in_days_hours_or_minutes() -> None:
    assert apart(NOTICED, "a", "b") is None
    assert apart(-NOTICED, "a", "b") is None
    for ahead, words in (
        (61, "1 minute ahead of"),
        (-150, "2 minutes behind"),
        (7_300, "2 hours ahead of"),
        (-10 * DAY, "10 days behind"),
    ):
        assert words in str(apart(ahead, "a", "b"))
    assert borne(None) == NOTICED
