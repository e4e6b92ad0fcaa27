"""The catalogue: which thing is item number i. Public, the same for everybody, named by its hash.

A device keeps what its owner touched under the product's own names (`id`) and finds the numbers
here, so that nobody has to be asked about an item.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.recommending import KIND, Tags, Traits, tags_of
from sottovoce.errors import ProtocolError
from sottovoce.protocol import strict

VERSION = 2
MAX_CATALOGUE = 64 * 1024 * 1024
MAX_TEXT = 512
MAX_KINDS = 32
MAX_LABELS = 64
"""Of one item, of all kinds together."""
MAX_ALL_LABELS, MAX_DISTINCT_LABELS = 2**22, 2**17
"""Of a catalogue: a device must hold them, and count how many items share each."""


@dataclass(frozen=True)
class Item:
    """One thing that can be recommended."""

    id: str
    """The product's own name for it, unique in the catalogue."""
    title: str
    """For people."""
    tags: Traits = field(default_factory=dict)
    """What is publicly known of it, by kind: labels (genre, brand), or a number (year, price)."""


@dataclass(frozen=True)
class Catalogue:
    """All items; the position is the row of V."""

    items: tuple[Item, ...]
    raw: bytes = field(repr=False)

    @classmethod
    def of(cls, items: Iterable[Item]) -> Self:
        content = {
            "version": VERSION,
            "items": [{"id": i.id, "title": i.title, "tags": dict(i.tags)} for i in items],
        }
        written = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        # Half of a surrogate pair is passed on, so that `decode` refuses it like anything else.
        return cls.decode(written.encode(errors="surrogatepass"))

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Any bytes give a catalogue or a `ProtocolError`."""
        given = strict.read_object(raw, most=MAX_CATALOGUE, what="catalogue")
        strict.exact_keys(given, {"version", "items"}, "catalogue")
        strict.whole(given["version"], least=VERSION, most=VERSION, what="catalogue: version")
        if not isinstance(given["items"], list) or not given["items"]:
            raise ProtocolError("catalogue: items must be a list that is not empty")
        items = tuple(_item(entry) for entry in given["items"])
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
        """From an item's id to its row of V."""
        return {item.id: number for number, item in enumerate(self.items)}

    @cached_property
    def tags(self) -> Tags:
        """The columns that recommending uses."""
        return tags_of([item.tags for item in self.items])


def _item(entry: Any) -> Item:
    if not isinstance(entry, dict):
        raise ProtocolError("catalogue: an item is a JSON object")
    strict.exact_keys(entry, {"id", "title", "tags"}, "catalogue: item")
    tags = entry["tags"]
    if not isinstance(tags, dict):
        raise ProtocolError("catalogue: tags must be an object, by kind")
    name = strict.text(entry["id"], most=MAX_TEXT, what="catalogue: id")
    of = f" of item {strict.shown(name)}"
    title = strict.text(entry["title"], most=MAX_TEXT, what=f"catalogue: title{of}")
    return Item(
        name, title, {_kind(kind): _values(each, f"{kind}{of}") for kind, each in tags.items()}
    )


def _kind(kind: str) -> str:
    if not KIND.fullmatch(kind):
        raise ProtocolError(f"catalogue: a kind of tag is {KIND.pattern}, not {strict.shown(kind)}")
    return kind


def _values(values: Any, what: str) -> tuple[str, ...] | float:
    if not isinstance(values, list):
        return strict.number(values, least=0, most=strict.MOST, what=f"catalogue: tag {what}")
    said = f"catalogue: label {what}"
    labels = tuple(strict.text(label, most=MAX_TEXT, what=said) for label in values)
    if len(set(labels)) != len(labels):
        raise ProtocolError("catalogue: an item has the same label twice")
    return labels


def _check_kinds(items: tuple[Item, ...]) -> None:
    """A kind has labels for all items or numbers for all: else its bands would mean nothing."""
    kinds: dict[str, Item] = {}
    for item in items:
        for kind, values in item.tags.items():
            first = kinds.setdefault(kind, item)
            if isinstance(values, tuple) != isinstance(first.tags[kind], tuple):
                raise ProtocolError(
                    f"catalogue: {_told(item, kind)}, {_told(first, kind)}: a kind of tag has "
                    "labels for all items, or numbers for all"
                )
    if len(kinds) > MAX_KINDS:
        raise ProtocolError(f"catalogue: {len(kinds)} kinds of tags, at most {MAX_KINDS} are read")


def _told(item: Item, kind: str) -> str:
    what = "labels" if isinstance(item.tags[kind], tuple) else "a number"
    return f"item {strict.shown(item.id)} has {what} as its {kind}"


def _check_labels(items: tuple[Item, ...]) -> None:
    """Not more than a device can count."""
    total = 0
    distinct: set[tuple[str, str]] = set()
    for item in items:
        labels = [(kind, x) for kind, of in item.tags.items() if isinstance(of, tuple) for x in of]
        if len(labels) > MAX_LABELS:
            raise ProtocolError(f"catalogue: an item has more than {MAX_LABELS} labels")
        total += len(labels)
        distinct.update(labels)
        if total > MAX_ALL_LABELS or len(distinct) > MAX_DISTINCT_LABELS:
            raise ProtocolError(
                f"catalogue: at most {MAX_ALL_LABELS} labels, {MAX_DISTINCT_LABELS} different ones"
            )


def moved_rows(
    V: NDArray[np.float32], before: Sequence[Item], after: Sequence[Item]
) -> NDArray[np.float32]:
    """V for another catalogue: rows go with their items, and those of new ones are zero."""
    places = {item.id: row for row, item in enumerate(before)}
    rows = np.array([places.get(item.id, -1) for item in after])
    moved = np.zeros((len(after), V.shape[1]), np.float32)
    moved[rows >= 0] = V[rows[rows >= 0]]
    return moved
