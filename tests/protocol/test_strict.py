"""Strict JSON and its values."""

from typing import Any

import pytest

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict
from tests.protocol.examples import nested, refuses


def read(raw: bytes) -> dict[str, Any]:
    return strict.parse_object(raw, max_bytes=10**6, what="it")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b"1", b'"a"', b'{"a":1}{}', b'{"a":1,}', b"{'a':1}",
        b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'{"b":{"a":1,"a":2}}', b'{"a":NaN}',
        b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":01}', b'{"a":.5}', b'{"a":+1}', b'{"a":0x1}',
        b'{"a":1} // comment', b'{"a":"\n"}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"a":1}', '{"a":1}'.encode("utf-16"), b'{"a":' + b"9" * 5_000 + b"}",
        nested(100_000).encode(), b'{"a":' + nested(100_000).encode() + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda raw: repr(raw[:24]),
)  # fmt: skip
def test_json_outside_the_protocol_is_refused(raw: bytes) -> None:
    assert refuses(read, raw)


def test_too_many_bytes_are_refused_before_parsing() -> None:
    assert strict.parse_object(b"{} ", max_bytes=3, what="it") == {}
    with pytest.raises(ProtocolError):
        strict.parse_object(b"{}  ", max_bytes=3, what="it")


NO_NUMBERS = [True, "1", None, [], {}, -1, 10**400]
PARSER_CASES: dict[str, tuple[Any, list[Any]]] = {
    "whole": (
        lambda value: strict.parse_int(value, min_value=1, max_value=5, what="culprit"),
        [*NO_NUMBERS, False, 1.0, 2**53, 0],
    ),
    "number": (
        lambda value: strict.parse_float(value, min_value=0.5, max_value=9, what="culprit"),
        [*NO_NUMBERS, -1e-9, 0.4, float("inf"), float("nan")],
    ),
    "text": (
        lambda value: strict.parse_text(value, max_length=3, what="culprit"),
        ["", "four", 1, None, ["a"], "\ud800", "a\udfff"],
    ),
    "hexadecimal": (
        lambda value: strict.parse_hex(value, what="culprit"),
        ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "٠" * 64, "0" * 64 + "\n", 0, None, []],
    ),
}


@pytest.mark.parametrize(
    ("reader", "value"),
    [(reader, value) for reader, wrong in PARSER_CASES.values() for value in wrong],
)
def test_invalid_value_is_refused_by_name(reader: Any, value: object) -> None:
    with pytest.raises(ProtocolError, match="culprit"):
        reader(value)


def test_valid_values_are_returned() -> None:
    """Check valid values; the length of text is in characters, not in bytes."""
    for text in ("羅生門", "😀" * 3):
        assert strict.parse_text(text, max_length=3, what="t") == text
    assert strict.parse_hex("0f" * 32, what="h") == b"\x0f" * 32
    for value in (0, 1e300, 2**900):
        assert strict.parse_float(value, min_value=0, max_value=1e300, what="x") == float(value)


def test_wrong_keys_are_refused_with_a_short_message() -> None:
    strict.check_keys({"a": 1}, {"a"}, "it")
    for wrong in ({"b": 1}, {}, {"a": 1, "b": 1}, {"a" * 10**6: 1}):
        with pytest.raises(ProtocolError) as caught:
            strict.check_keys(wrong, {"a"}, "it")
        assert len(str(caught.value)) < 500


def test_format_value_handles_huge_integers() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert strict.format_value(deep) == "a list of 1"
    assert strict.format_value(1 << 100_000) == "a number far too long"
