"""The catalogue: the public list of items, the same for everybody and named by its hash.

A device stores what its owner touched by the product's own ids. It finds the rows of these items
here, so that it need not ask anybody about an item.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.tags import KIND_PATTERN, Tags, Traits, build_tags
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

# The only version of the format that is read.
CATALOGUE_VERSION = 2
MAX_CATALOGUE_BYTES = 64 * 1024 * 1024
# Characters of an id, a title or a label.
MAX_TEXT_LENGTH = 512
# Kinds of tags in a catalogue.
MAX_TAG_KINDS = 32
# Labels of one item, of all kinds together.
MAX_LABELS_PER_ITEM = 64
# Labels of a catalogue: a device stores all of them, and counts the items that share each one.
MAX_ALL_LABELS = 2**22
MAX_DISTINCT_LABELS = 2**17


@dataclass(frozen=True)
class Item:
    """An article, film or other thing that can be recommended."""

    id: str
    """The product's own id of the item, unique in the catalogue."""
    title: str
    """Name of the item for people."""
    tags: Traits = field(default_factory=dict)
    """Public side information by kind: labels (genre, brand), or a number (year, price)."""


@dataclass(frozen=True)
class Catalogue:
    """All items; the position of an item is its row of V."""

    items: tuple[Item, ...]
    raw: bytes = field(repr=False)

    @classmethod
    def from_items(cls, items: Iterable[Item]) -> Self:
        """Encode items as a catalogue."""
        content = {
            "version": CATALOGUE_VERSION,
            "items": [{"id": i.id, "title": i.title, "tags": dict(i.tags)} for i in items],
        }
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        # Half of a surrogate pair is encoded, so that `decode` refuses it with its own message.
        return cls.decode(text.encode(errors="surrogatepass"))

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse a catalogue; raise a `ProtocolError` if it is malformed."""
        content = strict.parse_object(raw, max_bytes=MAX_CATALOGUE_BYTES, what="catalogue")
        strict.check_keys(content, {"version", "items"}, "catalogue")
        strict.parse_int(
            content["version"],
            min_value=CATALOGUE_VERSION,
            max_value=CATALOGUE_VERSION,
            what="catalogue: version",
        )
        if not isinstance(content["items"], list) or not content["items"]:
            raise ProtocolError("catalogue: items must be a list that is not empty")
        items = tuple(_parse_item(entry) for entry in content["items"])
        if len({item.id for item in items}) != len(items):
            raise ProtocolError("catalogue: two items have the same id")
        _check_kinds(items)
        _check_labels(items)
        return cls(items, raw)

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the file."""
        return hashlib.sha256(self.raw).digest()

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The row of V of each item, by id."""
        return {item.id: number for number, item in enumerate(self.items)}

    @cached_property
    def tags(self) -> Tags:
        """The tags as the columns that recommending uses."""
        return build_tags([item.tags for item in self.items])


def _parse_item(entry: Any) -> Item:
    if not isinstance(entry, dict):
        raise ProtocolError("catalogue: an item must be a JSON object")
    strict.check_keys(entry, {"id", "title", "tags"}, "catalogue: item")
    tags = entry["tags"]
    if not isinstance(tags, dict):
        raise ProtocolError("catalogue: tags must be an object, by kind")
    name = strict.parse_text(entry["id"], max_length=MAX_TEXT_LENGTH, what="catalogue: id")
    of = f" of item {strict.format_value(name)}"
    title = strict.parse_text(
        entry["title"], max_length=MAX_TEXT_LENGTH, what=f"catalogue: title{of}"
    )
    return Item(
        name,
        title,
        {_check_kind(kind): _parse_tag(value, f"{kind}{of}") for kind, value in tags.items()},
    )


def _check_kind(kind: str) -> str:
    if not KIND_PATTERN.fullmatch(kind):
        raise ProtocolError(
            f"catalogue: a kind of tag is {KIND_PATTERN.pattern}, not {strict.format_value(kind)}"
        )
    return kind


def _parse_tag(value: Any, what: str) -> tuple[str, ...] | float:
    if not isinstance(value, list):
        return strict.parse_float(
            value, min_value=0, max_value=strict.MAX_INTEGER, what=f"catalogue: tag {what}"
        )
    labels = tuple(
        strict.parse_text(label, max_length=MAX_TEXT_LENGTH, what=f"catalogue: label {what}")
        for label in value
    )
    if len(set(labels)) != len(labels):
        raise ProtocolError("catalogue: an item has the same label twice")
    return labels


def _check_kinds(items: tuple[Item, ...]) -> None:
    """Raise a `ProtocolError` unless each kind has labels for all items, or numbers for all."""
    kinds: dict[str, Item] = {}
    for item in items:
        for kind, values in item.tags.items():
            first = kinds.setdefault(kind, item)
            if isinstance(values, tuple) != isinstance(first.tags[kind], tuple):
                raise ProtocolError(
                    f"catalogue: {_describe_tag(item, kind)}, {_describe_tag(first, kind)}: a kind "
                    "of tag has labels for all items, or numbers for all"
                )
    if len(kinds) > MAX_TAG_KINDS:
        raise ProtocolError(
            f"catalogue: {len(kinds)} kinds of tags, at most {MAX_TAG_KINDS} are read"
        )


def _describe_tag(item: Item, kind: str) -> str:
    what = "labels" if isinstance(item.tags[kind], tuple) else "a number"
    return f"item {strict.format_value(item.id)} has {what} as its {kind}"


def _check_labels(items: tuple[Item, ...]) -> None:
    """Raise a `ProtocolError` if there are more labels than a device can count."""
    total = 0
    distinct: set[tuple[str, str]] = set()
    for item in items:
        labels = [
            (kind, label)
            for kind, values in item.tags.items()
            if isinstance(values, tuple)
            for label in values
        ]
        if len(labels) > MAX_LABELS_PER_ITEM:
            raise ProtocolError(f"catalogue: an item has more than {MAX_LABELS_PER_ITEM} labels")
        total += len(labels)
        distinct.update(labels)
        if total > MAX_ALL_LABELS or len(distinct) > MAX_DISTINCT_LABELS:
            raise ProtocolError(
                f"catalogue: at most {MAX_ALL_LABELS} labels, {MAX_DISTINCT_LABELS} different ones"
            )


def move_rows(
    V: NDArray[np.float32], before: Sequence[Item], after: Sequence[Item]
) -> NDArray[np.float32]:
    """Return V for another catalogue: rows move with their items, and new rows are zero."""
    places = {item.id: row for row, item in enumerate(before)}
    rows = np.array([places.get(item.id, -1) for item in after])
    moved = np.zeros((len(after), V.shape[1]), np.float32)
    moved[rows >= 0] = V[rows[rows >= 0]]
    return moved
