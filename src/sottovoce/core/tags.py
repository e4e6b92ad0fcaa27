"""Tags of items: public labels and bands of numbers, which devices use when they recommend."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, pairwise

import numpy as np
from scipy import sparse

# The traits of one item by kind: a tuple of labels (such as its genres) or a number (its year).
Traits = Mapping[str, tuple[str, ...] | float]

# Valid names of kinds, such as genre or year.
KIND_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,31}")
# A tag needs this many items, or a fiftieth of the catalogue if that is less.
MIN_ITEMS_PER_TAG = 20
# Only this many of the most frequent tags are used, since a device solves an equation for each tag.
MAX_TAGS = 128
# The numbers of one kind are divided into this many bands, with about equally many items in each.
BANDS_PER_NUMBER = 10


@dataclass(frozen=True)
class Tag:
    """A column of `Tags`."""

    kind: str
    """The kind of trait, such as `genre` or `year`."""
    name: str
    """The label, or the name of a band, such as "1990 to 1994"."""


@dataclass(frozen=True, eq=False)
class Tags:
    """The tags of all items, one column for each tag.

    A tag is a label that enough items have (a genre, a brand), or a band of a number (years,
    prices). Every client derives the same tags from the catalogue. A device uses them only when it
    recommends; no report depends on them.
    """

    names: tuple[Tag, ...]
    table: sparse.csr_array
    """A row for each item and a column for each tag; 1 where the item has the tag."""

    @property
    def n_items(self) -> int:
        return int(self.table.shape[0])

    def format_kinds(self) -> str:
        """Return the number of tags of each kind in words: "18 of genre, 10 of year"."""
        counts = Counter(tag.kind for tag in self.names)
        return ", ".join(f"{count} of {kind}" for kind, count in counts.items()) or "none"


def make_empty_tags(n_items: int) -> Tags:
    """Return `Tags` without columns."""
    return Tags((), sparse.csr_array((n_items, 0), dtype=np.float64))


def build_tags(items: Sequence[Traits]) -> Tags:
    """Return the tags of a catalogue: labels in the order in which they first appear, then bands.

    Args:
        items: Traits of each item, in the order of the catalogue.

    >>> films = [{"genre": ("Horror",), "year": 1979}, {"genre": ("Horror", "Comedy")}] * 2
    >>> [(tag.kind, tag.name) for tag in build_tags(films).names]
    [('genre', 'Horror'), ('genre', 'Comedy'), ('year', '1979')]
    """
    columns = [*_collect_labels(items), *_collect_bands(items)]
    min_items = min(MIN_ITEMS_PER_TAG, max(2, -(-len(items) // 50)))
    frequent = [(tag, rows) for tag, rows in columns if len(rows) >= min_items]
    by_frequency = sorted(range(len(frequent)), key=lambda i: -len(frequent[i][1]))
    chosen = [frequent[i] for i in sorted(by_frequency[:MAX_TAGS])]
    entries = np.fromiter(chain.from_iterable(rows for _, rows in chosen), np.int64)
    ends = np.cumsum([0, *(len(rows) for _, rows in chosen)])
    table = sparse.csc_array(
        (np.ones(len(entries)), entries, ends), shape=(len(items), len(chosen))
    ).tocsr()
    return Tags(tuple(tag for tag, _ in chosen), table)


def _collect_labels(items: Sequence[Traits]) -> Iterator[tuple[Tag, list[int]]]:
    """Yield each label with the rows of its items, ascending."""
    rows_by_label: dict[tuple[str, str], list[int]] = {}
    for row, traits in enumerate(items):
        for kind, labels in traits.items():
            if isinstance(labels, tuple):
                for label in labels:
                    rows_by_label.setdefault((kind, label), []).append(row)
    for (kind, label), rows in rows_by_label.items():
        yield Tag(kind, label), rows


def _collect_bands(items: Sequence[Traits]) -> Iterator[tuple[Tag, list[int]]]:
    """Yield the bands of each kind of number, lowest first, with the rows of their items."""
    numbers: dict[str, dict[int, float]] = {}
    for row, traits in enumerate(items):
        for kind, number in traits.items():
            if not isinstance(number, tuple):
                numbers.setdefault(kind, {})[row] = number
    for kind, number_by_row in numbers.items():
        values = list(number_by_row.values())
        ascending, n = sorted(values), BANDS_PER_NUMBER
        # A band begins at each quantile; quantiles that are equal begin only one band.
        edges = sorted({ascending[band * len(ascending) // n] for band in range(n)})
        bands: list[list[int]] = [[] for _ in edges]
        ends = np.searchsorted(edges, values, side="right")
        for row, end in zip(number_by_row, ends, strict=True):
            bands[end - 1].append(row)
        names = _name_bands([[number_by_row[row] for row in rows] for rows in bands])
        for name, rows in zip(names, bands, strict=True):
            yield Tag(kind, name), rows


def _name_bands(bands: Sequence[Sequence[float]]) -> list[str]:
    """Name bands by round edges: "under 1990", "1990 to 1994", "1995 or more".

    A band with a single value is named by this value. If all values are whole numbers, the name of
    a band ends with the last whole number in the band. Otherwise it ends with the first number of
    the next band: "10 to 12.5", "12.5 to 15".
    """
    ranges = [(min(values), max(values)) for values in bands]
    edges = [_round_edge(before, first) for (_, before), (first, _) in pairwise(ranges)]
    step = 1 if all(value == int(value) for values in bands for value in values) else 0
    names = []
    for i, (low, high) in enumerate(ranges):
        begin = _format_number(edges[i - 1] if i else low)
        if low == high:
            names.append(_format_number(low))
        elif i == len(edges):
            names.append(f"{begin} or more")
        elif i == 0:
            names.append(f"under {_format_number(edges[i])}")
        else:
            names.append(f"{begin} to {_format_number(edges[i] - step)}")
    return names


def _round_edge(before: float, first: float) -> float:
    """Round `first` down to the fewest digits with which it is still above `before`.

    Args:
        before: The last number of the lower band.
        first: The first number of the upper band.
    """
    _, digits, exponent = Decimal(repr(float(first))).as_tuple()
    for n in range(1, len(digits)):
        edge = float(Decimal((0, digits[:n], int(exponent) + len(digits) - n)))
        if edge > before:
            return edge
    return first


def _format_number(number: float) -> str:
    """Format a number, without a decimal point if it is whole, such as a year."""
    return str(int(number)) if number == int(number) else f"{Decimal(repr(number)):f}"
