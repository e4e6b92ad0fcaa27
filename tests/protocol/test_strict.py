from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict
from tests.protocol.examples import json_values, nested, refuses


def read(raw: bytes) -> dict[str, Any]:
    return strict.read_object(raw, most=10**6, what="it")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(raw: bytes) -> None:
    refuses(read, raw)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_object_is_read_or_refused(value: dict[str, Any]) -> None:
    refuses(read, json.dumps(value).encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"a"',
        b'{"a":1}{}',
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'{"b":{"a":1,"a":2}}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b'{"a":.5}',
        b'{"a":+1}',
        b'{"a":0x1}',
        b'{"a":1} // comment',
        b'{"a":"\n"}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b'{"a":' + b"9" * 5_000 + b"}",
        nested(100_000).encode(),
        b'{"a":' + nested(100_000).encode() + b"}",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_not_json_as_the_protocol_has_it_is_refused(raw: bytes) -> None:
    assert refuses(read, raw)


def test_one_byte_too_many_is_refused_before_it_is_parsed() -> None:
    assert strict.read_object(b"{} ", most=3, what="it") == {}
    with pytest.raises(ProtocolError, match="it: 4 bytes, at most 3"):
        strict.read_object(b"{}  ", most=3, what="it")


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, [], {}, 2**53, 0, -1, 10**400])
def test_what_is_no_whole_number_of_the_range_is_refused(value: object) -> None:
    with pytest.raises(ProtocolError, match=r"n: a whole number in 1\.\.5"):
        strict.whole(value, least=1, most=5, what="n")


@pytest.mark.parametrize(
    "value", [True, "1", None, [], {}, -1, -1e-9, 0.4, 10**400, float("inf"), float("nan")]
)
def test_what_is_no_number_of_the_range_is_refused(value: object) -> None:
    with pytest.raises(ProtocolError, match=r"x: a number in 0\.5\.\.9"):
        strict.number(value, least=0.5, most=9, what="x")


@given(st.floats(0, 1e300) | st.integers(0, 2**900))
def test_numbers_of_the_range_are_read(value: float) -> None:
    assert strict.number(value, least=0, most=1e300, what="x") == float(value)


@pytest.mark.parametrize("value", ["", "four", 1, None, ["a"], "\ud800", "a\udfff"])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ProtocolError, match="t: "):
        strict.text(value, most=3, what="t")


def test_text_is_counted_in_characters_not_in_bytes() -> None:
    assert strict.text("羅生門", most=3, what="t") == "羅生門"
    assert strict.text("😀" * 3, most=3, what="t") == "😀" * 3


@pytest.mark.parametrize(
    "value", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "٠" * 64, "0" * 64 + "\n", 0, None, []]
)
def test_what_is_no_hash_is_refused(value: object) -> None:
    with pytest.raises(ProtocolError, match="h: 64 lower-case"):
        strict.hexadecimal(value, what="h")


@given(st.binary(min_size=32, max_size=32))
def test_a_hash_is_read(value: bytes) -> None:
    assert strict.hexadecimal(value.hex(), what="h") == value


def test_keys_are_exact_and_the_message_stays_short() -> None:
    strict.exact_keys({"a": 1}, {"a"}, "it")
    with pytest.raises(ProtocolError, match=r"it: missing \['b'\], unknown \['a'\]"):
        strict.exact_keys({"a": 1}, {"b"}, "it")
    with pytest.raises(ProtocolError) as caught:
        strict.exact_keys({"a" * 10**6: 1}, set(), "it")
    assert len(str(caught.value)) < 500


@given(json_values)
def test_any_value_can_be_shown(value: object) -> None:
    assert len(strict.shown(value)) <= 80


def test_values_that_python_cannot_write_out_can_be_shown() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert strict.shown(deep) == "a list of 1"
    assert strict.shown(1 << 100_000) == "a number far too long"
