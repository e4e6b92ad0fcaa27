from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol import catalogue as protocol_catalogue
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from tests.protocol.examples import catalogue, changed, damaged, json_values, nested, refuses

RAW = catalogue().raw
ONE = {"id": "a", "title": "A", "tags": {"genre": ["x"], "year": 1927}}
controls = "".join(map(chr, (*range(32), *range(127, 160), *range(0x2028, 0x202F))))
texts = st.text(
    st.characters(codec="utf-8", exclude_characters=controls + "\u2066\u2067\u2068\u2069"),
    min_size=1,
    max_size=20,
)
labels = st.lists(texts, max_size=3, unique=True).map(tuple)
tags = st.fixed_dictionaries({}, optional={"genre": labels, "year": st.floats(0, 2**53 - 1)})
items = st.builds(Item, texts, texts, tags)


@given(st.lists(items, min_size=1, max_size=8, unique_by=lambda item: item.id))
def test_what_is_made_is_read(content: list[Item]) -> None:
    made = Catalogue.of(content)
    read = Catalogue.decode(made.raw)
    assert read == made
    assert read.items == tuple(content)
    assert read.hash == hashlib.sha256(made.raw).digest()
    assert [read.numbers[item.id] for item in content] == [*range(len(content))]


@given(st.binary(max_size=300) | damaged(RAW))
def test_any_bytes_are_a_catalogue_or_refused(raw: bytes) -> None:
    refuses(Catalogue.decode, raw)


@given(st.sampled_from(["version", "items"]), json_values)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    refuses(Catalogue.decode, changed(RAW, **{name: value}))


@given(st.sampled_from([*ONE]), json_values)
@settings(max_examples=300)
def test_any_value_in_any_field_of_an_item_is_taken_or_refused(name: str, value: Any) -> None:
    refuses(Catalogue.decode, changed(RAW, items=[ONE | {name: value}]))


@pytest.mark.parametrize("depth", [10, 970, 980, 985, 990, 995, 100_000])
@pytest.mark.parametrize("name", ["version", "items", "id", "title", "tags"])
def test_deep_nesting_anywhere_is_refused(name: str, depth: int) -> None:
    content = {"version": 2, "items": [dict(ONE)]}
    (content if name in content else content["items"][0])[name] = "HERE"  # type: ignore[index]
    deep = json.dumps(content).replace('"HERE"', nested(depth))
    assert refuses(Catalogue.decode, deep.encode())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2.0}, "version"),
        ({"version": ...}, "missing"),
        ({"more": 1}, "unknown"),
        ({"items": []}, "not empty"),
        ({"items": [1]}, "JSON object"),
        ({"items": [ONE, ONE]}, "same id"),
        ({"items": [ONE | {"id": 7}]}, "id"),
        ({"items": [ONE | {"title": "x" * 513}]}, "title"),
        ({"items": [ONE | {"title": "\ud800"}]}, "surrogate"),
        (
            {"items": [ONE | {"title": "\x1b[2J"}]},
            r"title of item 'a': control character U\+001B in '\\x1b\[2J'",
        ),
        (
            {"items": [ONE | {"tags": {"genre": ["\u202e"]}}]},
            r"label genre of item 'a': .* U\+202E",
        ),
        ({"items": [ONE | {"tags": ["x"]}]}, "tags must be an object"),
        ({"items": [ONE | {"tags": {"genre": "x"}}]}, "a number in"),
        ({"items": [ONE | {"tags": {"Genre": []}}]}, "a kind of tag is"),
        ({"items": [ONE | {"tags": {"genre": ["x", "x"]}}]}, "same label twice"),
        (
            {"items": [ONE, {"id": "b", "title": "B", "tags": {"year": ["x"]}}]},
            "item 'b' has labels as its year, item 'a' has a number as its year",
        ),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], words: str) -> None:
    """The whole list of what is refused: `malformed.py`."""
    with pytest.raises(ProtocolError, match=words):
        Catalogue.decode(changed(RAW, **changes))


@pytest.mark.parametrize("bad", [Item("\ud800", "half a pair"), Item("", "no id"), Item("a", "")])
def test_what_cannot_be_read_cannot_be_made(bad: Item) -> None:
    with pytest.raises(ProtocolError):
        Catalogue.of([bad])


def test_the_largest_size_is_not_exceeded() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        Catalogue.decode(RAW + b" " * (MAX_CATALOGUE + 1 - len(RAW)))


@pytest.mark.parametrize("limit", ["MAX_ALL_LABELS", "MAX_DISTINCT_LABELS"])
def test_a_device_can_count_all_labels(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(str(n), "A film", {"genre": (f"g{n % 5}",)}) for n in range(10)]
    allowed = 10 if limit == "MAX_ALL_LABELS" else 5
    monkeypatch.setattr(protocol_catalogue, limit, allowed)
    assert len(Catalogue.of(items).items) == 10
    monkeypatch.setattr(protocol_catalogue, limit, allowed - 1)
    with pytest.raises(ProtocolError, match="labels"):
        Catalogue.of(items)
