"""Contacts of proxy and server: strict parsing, and clocks that differ."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sottovoce.errors import ProtocolError
from sottovoce.protocol.contact import (
    DAY_SECONDS,
    MIN_NOTICED_SKEW_SECONDS,
    Contact,
    Reply,
    allowed_clock_skew,
    describe_clock_skew,
)

NAME_8 = "0123456789abcdef"
CONTACT_7 = Contact(7, bytes(range(32)), "short", 12.5, NAME_8, database=NAME_8[::-1])
CONTACT_FIELDS: dict[str, Any] = json.loads(CONTACT_7.encode())
INVALID_FIELDS = {
    "epoch": (-1, 0, 1.0, True, "7", 2**32, None),
    "manifest": (None, "", "0" * 63, 7, "G" * 64),
    "crowd": (0, True, 1.5, "", "many", "None", ["none"], 12),
    "time": (True, "1", None, 1e13, -1e13, 10**400, [0]),
    "process": ("", 7, "0" * 15, "G" * 16, "0" * 17),
    "database": ("", 7, "0" * 15, "G" * 16, "0" * 17),
}


def test_contact_and_reply_round_trip() -> None:
    for text in (
        CONTACT_7,
        Contact(7, bytes(32), None, 0.0, None),
        Contact(0, None, None, 1e9, None),
    ):
        assert Contact.decode(text.encode()) == text
    for answer in (
        Reply("none", 0.0, NAME_8),
        Reply("open", 1.5, NAME_8),
        Reply("applied", 1e9, NAME_8),
    ):
        assert Reply.decode(answer.encode()) == answer


@pytest.mark.parametrize("field", INVALID_FIELDS)
def test_invalid_contacts_are_refused(field: str) -> None:
    for value in INVALID_FIELDS[field]:
        with pytest.raises(ProtocolError):
            Contact.decode(json.dumps(CONTACT_FIELDS | {field: value}).encode())
    without = {name: value for name, value in CONTACT_FIELDS.items() if name != field}
    bad: Any
    for bad in (without, CONTACT_FIELDS | {"batches": 3}, []):
        with pytest.raises(ProtocolError):
            Contact.decode(json.dumps(bad).encode())
    answer = {"state": "open", "time": 1, "database": NAME_8}
    for bad in (
        {"state": "open", "time": 1},
        answer | {"state": "late"},
        answer | {"time": "1"},
        answer | {"database": None},
    ):
        with pytest.raises(ProtocolError):
            Reply.decode(json.dumps(bad).encode())


@given(some.binary())
def test_any_bytes_are_a_contact_or_refused(data: bytes) -> None:
    for kind in (Contact, Reply):
        try:
            kind.decode(data)
        except ProtocolError:
            continue


def test_clock_skew_is_described_in_days_hours_or_minutes() -> None:
    assert describe_clock_skew(MIN_NOTICED_SKEW_SECONDS, "a", "b") is None
    assert describe_clock_skew(-MIN_NOTICED_SKEW_SECONDS, "a", "b") is None
    for ahead, words in (
        (61, "1 minute ahead of"),
        (-150, "2 minutes behind"),
        (7_300, "2 hours ahead of"),
        (-10 * DAY_SECONDS, "10 days behind"),
    ):
        assert words in str(describe_clock_skew(ahead, "a", "b"))
    assert allowed_clock_skew(None) == MIN_NOTICED_SKEW_SECONDS
