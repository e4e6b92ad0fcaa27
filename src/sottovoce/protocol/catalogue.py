"""The catalogue: the public list of all items, identified by its hash.

All devices get the same catalogue. A device stores the ids of the items that its owner touched. It
finds the rows of these items in the catalogue, so that it need not ask anybody about an item.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.tags import KIND_PATTERN, Tags, Traits, build_tags
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

# The version of the format. No other version is read.
CATALOGUE_VERSION = 2
MAX_CATALOGUE_BYTES = 64 * 1024 * 1024
# The largest number of characters of an id, a title or a label.
MAX_TEXT_LENGTH = 512
# The largest number of kinds of tags in a catalogue.
MAX_TAG_KINDS = 32
# The largest number of labels of one item, all kinds together.
MAX_LABELS_PER_ITEM = 64
# The largest number of labels of all items together. A device stores all of them.
MAX_ALL_LABELS = 2**22
# The largest number of different labels. A device counts the items of each label.
MAX_DISTINCT_LABELS = 2**17

# The type of a matrix: `move_rows` returns the type that it gets.
Matrix = TypeVar("Matrix", NDArray[np.float32], NDArray[np.float64])


@dataclass(frozen=True)
class Item:
    """An article, film or other thing that can be recommended."""

    id: str
    """The product's id for the item, unique in the catalogue."""
    title: str
    """The name that people read."""
    tags: Traits = field(default_factory=dict)
    """Public side information: labels (such as genres) or a number (such as the year), by kind."""


@dataclass(frozen=True)
class Catalogue:
    """All items. The item at position i belongs to row i of the item matrix V."""

    items: tuple[Item, ...]
    raw: bytes = field(repr=False)
    """The bytes of the catalogue file."""

    @classmethod
    def from_items(cls, items: Iterable[Item]) -> Self:
        """Encode items as a catalogue."""
        content = {
            "version": CATALOGUE_VERSION,
            "items": [{"id": i.id, "title": i.title, "tags": dict(i.tags)} for i in items],
        }
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        # A lone surrogate is encoded too, so that `decode` refuses it with a clear message.
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
        """SHA-256 of the catalogue file."""
        return hashlib.sha256(self.raw).digest()

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The row of V of each item, by the item's id."""
        return {item.id: row for row, item in enumerate(self.items)}

    @cached_property
    def tags(self) -> Tags:
        """The tags of all items, in the form that recommending uses."""
        return build_tags([item.tags for item in self.items])


def _parse_item(entry: Any) -> Item:
    if not isinstance(entry, dict):
        raise ProtocolError("catalogue: an item must be a JSON object")
    strict.check_keys(entry, {"id", "title", "tags"}, "catalogue: item")
    tags = entry["tags"]
    if not isinstance(tags, dict):
        raise ProtocolError("catalogue: tags must be an object with a key for each kind")
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
            f"catalogue: the name of a kind of tag must match {KIND_PATTERN.pattern}, but it is "
            f"{strict.format_value(kind)}"
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
    """Raise a `ProtocolError` if a kind of tag has labels for one item and a number for another."""
    kinds: dict[str, Item] = {}
    for item in items:
        for kind, values in item.tags.items():
            first = kinds.setdefault(kind, item)
            if isinstance(values, tuple) != isinstance(first.tags[kind], tuple):
                raise ProtocolError(
                    f"catalogue: {_describe_tag(item, kind)}, but {_describe_tag(first, kind)}: a "
                    "kind of tag must have labels for all items, or numbers for all"
                )
    if len(kinds) > MAX_TAG_KINDS:
        raise ProtocolError(
            f"catalogue: it has {len(kinds)} kinds of tags, but at most {MAX_TAG_KINDS} are allowed"
        )


def _describe_tag(item: Item, kind: str) -> str:
    what = "labels" if isinstance(item.tags[kind], tuple) else "a number"
    return f"item {strict.format_value(item.id)} has {what} as its {kind}"


def _check_labels(items: tuple[Item, ...]) -> None:
    """Raise a `ProtocolError` if an item, or the catalogue, has too many labels."""
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
                f"catalogue: it must have at most {MAX_ALL_LABELS} labels, and at most "
                f"{MAX_DISTINCT_LABELS} different ones"
            )


def move_rows(matrix: Matrix, before: Sequence[Item], after: Sequence[Item]) -> Matrix:
    """Return the rows of a matrix in the order of another catalogue: a row stays with its item.

    Args:
        matrix: The matrix.
        before: The items that the rows of `matrix` belong to.
        after: The items that the rows of the result belong to. The rows of new items are zero.
    """
    places = {item.id: row for row, item in enumerate(before)}
    rows = np.array([places.get(item.id, -1) for item in after])
    moved = np.zeros_like(matrix, shape=(len(after), matrix.shape[1]))
    moved[rows >= 0] = matrix[rows[rows >= 0]]
    return moved
