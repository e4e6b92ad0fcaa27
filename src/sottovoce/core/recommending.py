"""The model as a device uses it to recommend: the item matrix next to the tags, and weights.

`W = [V | D]`. A column of D is a tag: 0 for items without it, else the item's popularity as the
model knows it, so that the best known horror film stands for "horror" more than any other. A user
vector over W is solved as over V alone; nothing of it is reported, and training does not know it.

The columns of D are as long as V's on average, and have a ridge of their own, so that a tag is
believed only as far as the own items bear it out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core.model import Histories

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

TAG_RIDGE = 0.2
"""In squared lengths of a column, times `1 + alpha`: a tag is held back by as much as the own items
push it. Chosen on validation splits of two data sets and five budgets; 0.1 to 0.4 are as good."""
SURE_AFTER = 60
"""So many own items double the ridge, half as many make it three times as large: from a few items
nobody can tell which tags their owner likes."""

POPULARITY_ALPHA = 1.0
"""Of counts as a model, which have none of their own; on validation splits 0.5 to 4 are alike."""


@dataclass(frozen=True, eq=False)
class WideModel:
    V: Float64
    """M x F, with a row for items that nobody has reported yet."""
    learnt: NDArray[np.bool_]
    """Which items are not new."""
    D: sparse.csr_array
    """M x K."""
    popularity: Float64
    """Of each item, as the model knows it."""
    alpha: float
    regularization: float
    """Ridge of the factors."""
    tag_ridge: float
    """Ridge of the tags, of somebody with a long history."""

    @classmethod
    def of(cls, V: Float32, tags: Tags, *, alpha: float, regularization: float) -> WideModel:
        learnt = np.asarray(V.any(axis=1))
        wide = with_companions(V.astype(np.float64), learnt, tags)
        popularity = popularity_of(wide)
        # Of the mean column; a model that knows nothing yet leaves any length to the tags.
        squared = float((wide * wide).sum()) / wide.shape[1] or 1.0
        D = sparse.csr_array(tags.table * popularity[:, None])
        lengths = np.sqrt(np.asarray(D.multiply(D).sum(axis=0)).ravel())
        D = sparse.csr_array(D * (np.sqrt(squared) / np.where(lengths > 0, lengths, np.inf)))
        tag_ridge = TAG_RIDGE * (1 + alpha) * squared
        return cls(wide, learnt, D, popularity, alpha, regularization, tag_ridge)

    @cached_property
    def gram(self) -> Float64:
        """`W^T W`, without W ever being made whole."""
        across = np.asarray(self.D.T @ self.V)
        return np.block([[self.V.T @ self.V, across.T], [across, (self.D.T @ self.D).toarray()]])

    def ridges(self, n_own: int) -> tuple[float, float]:
        """Of the factors and of the tags, for somebody with so many own items."""
        return self.regularization, self.tag_ridge * (1 + SURE_AFTER / max(n_own, 1))

    def rows(self, items: NDArray[np.integer] | list[int]) -> Float64:
        return np.concatenate([self.V[items], self.D[items].toarray()], axis=1)

    def shares(self, own: list[int], weights: Float64) -> Float64:
        """What each own item adds to the user vector, (F + K) x n: their sum is the vector.

        `x = (G + alpha sum w v v^T + ridge)^-1 (1 + alpha) sum w v`. Zero where that has no finite
        solution: such a model says nothing.
        """
        rows, sizes = self.rows(own), (self.V.shape[1], self.D.shape[1])
        ridge = np.diag(np.repeat(self.ridges(len(own)), sizes))
        system = self.gram + self.alpha * (rows.T * weights) @ rows + ridge
        try:
            shares = np.linalg.solve(system, (1 + self.alpha) * rows.T * weights)
        except np.linalg.LinAlgError:
            return np.zeros(rows.T.shape)
        return np.asarray(shares if np.isfinite(shares).all() else np.zeros(rows.T.shape))

    def scores(self, x: Float64) -> Float64:
        factors = self.V.shape[1]
        return np.asarray(self.V @ x[:factors] + self.D @ x[factors:])

    def list_scores(self, x: Float64, n_own: int) -> Float64:
        """By which a list is made: `W x`; for somebody without own items, how popular items are."""
        return self.scores(x) if n_own else self.popularity


def counts_model(counts: NDArray[np.int64], people: int, tags: Tags) -> WideModel:
    """How many of all people touched each item, as the only factor.

    It shows what tags and an order do without any learnt taste.
    """
    share = counts.astype(np.float32)[:, None] / np.float32(max(people, 1))
    return WideModel.of(share, tags, alpha=POPULARITY_ALPHA, regularization=1e-6)


def popularity_of(V: Float64) -> Float64:
    """How popular each item is as far as the model knows: `V (V^T 1)`, never below 0.

    A device knows no counts. But `V V^T` is the model's idea of which items are touched together,
    so its row sums say which are touched together with many, in any basis of the factors. A model
    that knows nothing takes all items for equally popular.
    """
    if not V.any():
        return np.ones(len(V))
    return np.asarray(np.maximum(V @ V.sum(axis=0), 0.0))


def with_companions(V: Float64, learnt: NDArray[np.bool_], tags: Tags) -> Float64:
    """V with rows for new items: the mean over an item's tags of the mean row of the tag's items.

    So a new item is as popular, and as near to somebody's taste, as those that share its tags are
    on average. Without tags the mean is over all items. Nothing is made of a model of zeros.
    """
    if learnt.all() or not learnt.any():
        return V
    known = tags.table.multiply(learnt[:, None]).tocsr()
    counts = np.asarray(known.sum(axis=0)).ravel()
    counted = tags.table[~learnt][:, counts > 0]
    means = np.asarray(known.T @ V)[counts > 0] / counts[counts > 0][:, None]
    n_tags = np.asarray(counted.sum(axis=1)).ravel()[:, None]
    of_tags = np.asarray(counted @ means) / np.maximum(n_tags, 1)
    filled = V.copy()
    rows = np.where(n_tags > 0, of_tags, V[learnt].mean(axis=0))
    filled[~learnt] = rows.astype(np.float32)  # as precise as all others
    return filled


MOST_REASONS = 3


@dataclass(frozen=True, eq=False)
class Taste:
    """What one person's history makes of a model: the score of every item, and its reasons."""

    model: WideModel
    tags: Tags
    rows: list[int]
    """The own items that count, ascending."""
    shares: Float64
    """What each of them adds to the user vector, (F + K) x n."""

    def scores(self) -> Float64:
        """Of every item. For somebody without a history: how popular it is."""
        return self.model.list_scores(self.shares.sum(axis=1), len(self.rows))

    def parts(self, item: int) -> tuple[Float64, Float64]:
        """What the score of an item is the sum of: a part of each own item, and of each tag.

        Exact: it is how the score came about, not a guess at it. What own items say through the
        learnt factors is theirs; what they say through a tag is the tag's.
        """
        factors = self.model.V.shape[1]
        row = self.model.rows([item])[0]
        return row[:factors] @ self.shares[:factors], row[factors:] * self.shares[factors:].sum(1)

    def speaking(self, item: int, most: int = MOST_REASONS) -> list[tuple[int | Tag, float]]:
        """The largest positive parts, as shares of all of them: own items by number, and tags.

        Of tags those alone that an own item has. What own items have to do with a new item nobody
        has learnt: there tags alone speak.
        """
        found = sorted(self._speaking(item), key=lambda each: -each[1])
        total = sum(part for _, part in found)
        return [(what, part / total) for what, part in found[:most]]

    def _speaking(self, item: int) -> Iterator[tuple[int | Tag, float]]:
        own, tags = self.parts(item)
        for row, part in zip(self.rows, own.tolist(), strict=True):
            if part > 0 and self.model.learnt[item]:
                yield row, part
        theirs = self.tags.table[self.rows].sum(axis=0)
        for tag, part, count in zip(self.tags.names, tags.tolist(), theirs, strict=True):
            if part > 0 and count:
                yield tag, part


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
    """The label, or the band: "1990 to 1994"."""


@dataclass(frozen=True, eq=False)
class Tags:
    """What is publicly known of the items, as columns that many of them share.

    A device uses them when it recommends and at no other time: they cost no report. A column is a
    label that enough items have (a genre, a brand), or a band of a number (years, prices). Which
    there are follows from the catalogue alone, by rules that every client keeps to.
    """

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
        names = _band_names([[known[row] for row in rows] for rows in bands])
        for name, rows in zip(names, bands, strict=True):
            yield Tag(kind, name), rows


def _band_names(bands: Sequence[Sequence[float]]) -> list[str]:
    """By round edges: "under 1990", "1990 to 1994", "1995 or more"; a single value by itself.

    Where all values are whole, a band's name ends with the last number that is in it. Otherwise it
    ends where the next band begins: "10 to 12.5", "12.5 to 15".
    """
    ends = [(min(values), max(values)) for values in bands]
    edges = [_edge(before, first) for (_, before), (first, _) in pairwise(ends)]
    step = 1 if all(value == int(value) for values in bands for value in values) else 0
    names = []
    for place, (low, high) in enumerate(ends):
        begin = _plain(edges[place - 1] if place else low)
        if low == high:
            names.append(_plain(low))
        elif place == len(edges):
            names.append(f"{begin} or more")
        else:
            end = edges[place]
            names.append(f"{begin} to {_plain(end - step)}" if place else f"under {_plain(end)}")
    return names


def _edge(before: float, first: float) -> float:
    """The roundest number above the one and not above the other: fewest digits, then nearest."""
    _, digits, exponent = Decimal(repr(float(first))).as_tuple()
    for kept in range(1, len(digits)):
        found = float(Decimal((0, digits[:kept], int(exponent) + len(digits) - kept)))
        if found > before:
            return found
    return first


def _plain(number: float) -> str:
    """A year has no decimal point."""
    return str(int(number)) if number == int(number) else f"{Decimal(repr(number)):f}"


LATEST = 10.0
"""What the latest item weighs, where the order is known; an item of no known order weighs 1."""
HALVING = 2.0
"""So many later items halve a weight; it falls on as one over their number.

Form and both numbers were chosen on validation splits of two data sets, among some fifty rules.
"""


def recency(moments: NDArray[np.integer]) -> NDArray[np.float64]:
    """The weights of one history, whose items were touched at these moments (later is larger).

    What somebody did last says most about what they do next. By order and not by age: who comes
    back after a year still has a latest item, so a device remembers only what came after what.
    What was touched at the same moment has the same weight. If all was, there is no order, and all
    weighs 1.

    >>> recency(np.array([7, 3, 5])).round(2).tolist()
    [10.0, 5.0, 6.67]
    >>> recency(np.array([4, 4])).tolist()
    [1.0, 1.0]
    """
    return _weights(np.array([0, len(moments)]), np.asarray(moments, np.int64))


def recency_of(histories: Histories, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for many histories at once, in the order of their entries."""
    return _weights(histories.indptr, times)


def _weights(indptr: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float64]:
    users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((times, users))
    # A run is what one person touched at one moment.
    begins = np.ones(len(order), bool)
    begins[1:] = (np.diff(times[order]) != 0) | (np.diff(users[order]) != 0)
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(order))
    whose = users[order][first]
    # How many came later; of its own run, on average half of the others did.
    later = indptr[whose + 1] - (first + size) + (size - 1) / 2
    weights_of_runs = LATEST / (1 + later / HALVING)
    weights_of_runs[size == np.diff(indptr)[whose]] = 1.0
    weights = np.empty(len(order))
    weights[order] = np.repeat(weights_of_runs, size)
    return weights


_SIGN, _ALL = np.uint64(1 << 63), np.uint64(2**64 - 1)


def best_rows(scores: NDArray[np.float64], own: list[int], n: int) -> NDArray[np.intp]:
    """The rows of the n best scores, best first, without `own`; of equals the first comes first.

    A NaN is as low as can be. The time does not depend on the scores: a sort that compares is many
    times faster where they are in order already, and how long a list takes would tell of the taste
    behind it.
    """
    keys = _descending_keys(scores)
    keys[own] = _ALL
    return _sorted_rows(keys)[: min(n, len(keys) - len(own))]


def _descending_keys(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The better a score, the smaller its key: its bits, in an order that integers have."""
    known = np.where(np.isnan(scores), -np.inf, scores) + 0.0  # -0.0 is 0.0
    bits = known.view(np.uint64)
    return ~(bits ^ np.where(bits & _SIGN, _ALL, _SIGN))


def _sorted_rows(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """By four passes over 16 bits each, the lowest first: numpy counts these instead of comparing.

    Two digits that are never in order come first, or it would leave out what is sorted already.
    """
    order = np.arange(len(keys))
    digits = np.empty(len(keys) + 2, np.uint16)
    digits[:2] = 2**16 - 1, 0
    for shift in range(0, 64, 16):
        digits[2:] = (keys[order] >> np.uint64(shift)) & np.uint64(2**16 - 1)
        places = np.argsort(digits, kind="stable")
        order = order[places[places >= 2] - 2]
    return order
