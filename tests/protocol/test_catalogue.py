"""Catalogues: read strictly. The list of what is refused: `malformed.py`."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol import catalogue as protocol_catalogue
from sottovoce.protocol.catalogue import MAX_CATALOGUE
from tests.protocol.examples import catalogue, changed, damaged, json_values, refuses

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
@settings(max_examples=40)
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


@given(st.sampled_from(["version", "items", *ONE]), json_values)
@settings(max_examples=120)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    changes = {"items": [ONE | {name: value}]} if name in ONE else {name: value}
    refuses(Catalogue.decode, changed(RAW, **changes))


@pytest.mark.parametrize("bad", [Item("\ud800", "half a pair"), Item("", "no id"), Item("a", "")])
def test_what_cannot_be_read_cannot_be_made(bad: Item) -> None:
    with pytest.raises(ProtocolError):
        Catalogue.of([bad])


def test_the_largest_size_is_not_exceeded() -> None:
    assert refuses(Catalogue.decode, RAW + b" " * (MAX_CATALOGUE + 1 - len(RAW)))


@pytest.mark.parametrize("limit", ["MAX_ALL_LABELS", "MAX_DISTINCT_LABELS"])
def test_a_device_can_count_all_labels(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(str(n), "A film", {"genre": (f"g{n % 5}",)}) for n in range(10)]
    allowed = 10 if limit == "MAX_ALL_LABELS" else 5
    monkeypatch.setattr(protocol_catalogue, limit, allowed)
    assert len(Catalogue.of(items).items) == 10
    monkeypatch.setattr(protocol_catalogue, limit, allowed - 1)
    with pytest.raises(ProtocolError, match=rf"\b{allowed - 1}\b"):
        Catalogue.of(items)
