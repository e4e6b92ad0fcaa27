"""Tags: what is publicly known of the items, as columns that many of them share.

A device uses them when it recommends and at no other time: they cost no report. A column is a label
that enough items have (a genre, a brand), or a band of a number (years, prices): the items between
two of its values. Which labels and bands there are follows from the catalogue alone, by rules that
every client keeps to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy import sparse

Traits = Mapping[str, tuple[str, ...] | float]
"""Of one item, by kind: its labels, or its number."""
KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""What a kind of tag may be called."""
ENOUGH_ITEMS = 20
"""Items that a tag must have; a fiftieth of the catalogue where that is less."""
MOST_TAGS = 128
"""Of the most frequent ones: a device solves as many equations more."""
BANDS = 10
"""Of a number, with about as many items each."""


@dataclass(frozen=True)
class Tag:
    kind: str
    """`genre`, `year` ..."""
    name: str
    """The label, or the band: "1994 to 1996"."""


@dataclass(frozen=True, eq=False)
class Tags:
    """All columns that count, and which items have them."""

    names: tuple[Tag, ...]
    table: sparse.csr_array
    """M x K, 1 where an item has the tag."""

    @property
    def n_items(self) -> int:
        return int(self.table.shape[0])

    def by_kind(self) -> str:
        """How many there are of each kind, in words: "18 of genre, 10 of year"."""
        counts = Counter(tag.kind for tag in self.names)
        return ", ".join(f"{count} of {kind}" for kind, count in counts.items()) or "none"


def no_tags(n_items: int) -> Tags:
    """Of a catalogue that has none, or where they are not wanted."""
    return Tags((), sparse.csr_array((n_items, 0), dtype=np.float64))


def tags_of(items: Sequence[Traits]) -> Tags:
    """The columns of a catalogue, in the order in which they first turn up.

    >>> films = [{"genre": ("Horror",), "year": 1979}, {"genre": ("Horror", "Comedy")}] * 2
    >>> [(tag.kind, tag.name) for tag in tags_of(films).names]
    [('genre', 'Horror'), ('genre', 'Comedy'), ('year', '1979')]
    """
    columns = [*_labels(items), *_bands(items)]
    enough = min(ENOUGH_ITEMS, max(2, -(-len(items) // 50)))
    counted = [(tag, rows) for tag, rows in columns if len(rows) >= enough]
    most = sorted(range(len(counted)), key=lambda place: -len(counted[place][1]))[:MOST_TAGS]
    kept = [counted[place] for place in sorted(most)]
    entries = np.fromiter(chain.from_iterable(rows for _, rows in kept), np.int64)
    ends = np.cumsum([0, *(len(rows) for _, rows in kept)])
    table = sparse.csc_array(
        (np.ones(len(entries)), entries, ends), shape=(len(items), len(kept))
    ).tocsr()
    return Tags(tuple(tag for tag, _ in kept), table)


def _labels(items: Sequence[Traits]) -> Iterator[tuple[Tag, list[int]]]:
    """Of each label the items that have it, ascending."""
    found: dict[tuple[str, str], list[int]] = {}
    for row, traits in enumerate(items):
        for kind, labels in traits.items():
            if isinstance(labels, tuple):
                for label in labels:
                    found.setdefault((kind, label), []).append(row)
    for (kind, label), rows in found.items():
        yield Tag(kind, label), rows


def _bands(items: Sequence[Traits]) -> Iterator[tuple[Tag, list[int]]]:
    """Of each kind of number: its bands from the lowest up, and the items in each."""
    numbers: dict[str, dict[int, float]] = {}
    for row, traits in enumerate(items):
        for kind, number in traits.items():
            if not isinstance(number, tuple):
                numbers.setdefault(kind, {})[row] = number
    for kind, known in numbers.items():
        ascending = sorted(known.values())
        edges = sorted({ascending[band * len(ascending) // BANDS] for band in range(BANDS)})
        bands: list[list[int]] = [[] for _ in edges]
        for row, place in zip(
            known, np.searchsorted(edges, list(known.values()), side="right"), strict=True
        ):
            bands[place - 1].append(row)
        for rows in bands:
            low, high = (end(known[row] for row in rows) for end in (min, max))
            name = _plain(low) if low == high else f"{_plain(low)} to {_plain(high)}"
            yield Tag(kind, name), rows


def _plain(number: float) -> str:
    """A year has no decimal point."""
    return str(int(number)) if number == int(number) else repr(number)
