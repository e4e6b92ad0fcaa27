"""Catalogues: read strictly. The list of what is refused: `malformed.py`."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import ProtocolError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol import catalogue as protocol_catalogue
from sottovoce.protocol.catalogue import MAX_CATALOGUE_BYTES
from tests.protocol.examples import catalogue, changed, damaged, json_values, refuses
from tests.sampling import choose

RAW_ITEMS = catalogue().raw
ITEM_FIELDS = {"id": "a", "title": "A", "tags": {"genre": ["x"], "year": 1927}}
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
@settings(max_examples=choose(by_day=20, at_night=200))
def test_catalogue_round_trip(content: list[Item]) -> None:
    created = Catalogue.from_items(content)
    read = Catalogue.decode(created.raw)
    assert read == created
    assert read.items == tuple(content)
    assert read.hash == hashlib.sha256(created.raw).digest()
    assert [read.numbers[item.id] for item in content] == [*range(len(content))]


@given(st.binary(max_size=300) | damaged(RAW_ITEMS))
def test_any_bytes_are_a_catalogue_or_refused(raw: bytes) -> None:
    refuses(Catalogue.decode, raw)


@given(st.sampled_from(["version", "items", *ITEM_FIELDS]), json_values)
@settings(max_examples=120)
def test_any_value_in_any_field_is_taken_or_refused(name: str, value: Any) -> None:
    changes = {"items": [ITEM_FIELDS | {name: value}]} if name in ITEM_FIELDS else {name: value}
    refuses(Catalogue.decode, changed(RAW_ITEMS, **changes))


@pytest.mark.parametrize("bad", [Item("\ud800", "half a pair"), Item("", "no id"), Item("a", "")])
def test_invalid_items_make_no_catalogue(bad: Item) -> None:
    with pytest.raises(ProtocolError):
        Catalogue.from_items([bad])


def test_catalogue_beyond_the_size_limit_is_refused() -> None:
    assert refuses(Catalogue.decode, RAW_ITEMS + b" " * (MAX_CATALOGUE_BYTES + 1 - len(RAW_ITEMS)))


@pytest.mark.parametrize("limit", ["MAX_ALL_LABELS", "MAX_DISTINCT_LABELS"])
def test_too_many_labels_are_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(str(n), "A film", {"genre": (f"g{n % 5}",)}) for n in range(10)]
    allowed = 10 if limit == "MAX_ALL_LABELS" else 5
    monkeypatch.setattr(protocol_catalogue, limit, allowed)
    assert len(Catalogue.from_items(items).items) == 10
    monkeypatch.setattr(protocol_catalogue, limit, allowed - 1)
    with pytest.raises(ProtocolError, match=rf"\b{allowed - 1}\b"):
        Catalogue.from_items(items)
