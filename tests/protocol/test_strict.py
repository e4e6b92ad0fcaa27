"""JSON as the protocol has it, and its values."""

from typing import Any

import pytest

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict
from tests.protocol.examples import nested, refuses


def read(raw: bytes) -> dict[str, Any]:
    return strict.read_object(raw, most=10**6, what="it")


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
def test_what_is_not_json_as_the_protocol_has_it_is_refused(raw: bytes) -> None:
    assert refuses(read, raw)


def test_one_byte_too_many_is_refused_before_it_is_parsed() -> None:
    assert strict.read_object(b"{} ", most=3, what="it") == {}
    with pytest.raises(ProtocolError):
        strict.read_object(b"{}  ", most=3, what="it")


NO_NUMBERS = [True, "1", None, [], {}, -1, 10**400]
READERS: dict[str, tuple[Any, list[Any]]] = {
    "whole": (
        lambda value: strict.whole(value, least=1, most=5, what="culprit"),
        [*NO_NUMBERS, False, 1.0, 2**53, 0],
    ),
    "number": (
        lambda value: strict.number(value, least=0.5, most=9, what="culprit"),
        [*NO_NUMBERS, -1e-9, 0.4, float("inf"), float("nan")],
    ),
    "text": (
        lambda value: strict.text(value, most=3, what="culprit"),
        ["", "four", 1, None, ["a"], "\ud800", "a\udfff"],
    ),
    "hexadecimal": (
        lambda value: strict.hexadecimal(value, what="culprit"),
        ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "٠" * 64, "0" * 64 + "\n", 0, None, []],
    ),
}


@pytest.mark.parametrize(
    ("reader", "value"),
    [(reader, value) for reader, wrong in READERS.values() for value in wrong],
)
def test_what_is_no_value_of_its_kind_is_refused_by_name(reader: Any, value: object) -> None:
    with pytest.raises(ProtocolError, match="culprit"):
        reader(value)


def test_what_is_a_value_of_its_kind_is_read() -> None:
    """Text is counted in characters, not in bytes."""
    for text in ("羅生門", "😀" * 3):
        assert strict.text(text, most=3, what="t") == text
    assert strict.hexadecimal("0f" * 32, what="h") == b"\x0f" * 32
    for value in (0, 1e300, 2**900):
        assert strict.number(value, least=0, most=1e300, what="x") == float(value)


def test_keys_are_exact_and_the_message_stays_short() -> None:
    strict.exact_keys({"a": 1}, {"a"}, "it")
    for wrong in ({"b": 1}, {}, {"a": 1, "b": 1}, {"a" * 10**6: 1}):
        with pytest.raises(ProtocolError) as caught:
            strict.exact_keys(wrong, {"a"}, "it")
        assert len(str(caught.value)) < 500


def test_values_that_python_cannot_write_out_can_be_shown() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert strict.shown(deep) == "a list of 1"
    assert strict.shown(1 << 100_000) == "a number far too long"
