"""Recommending, on the device and without a network: what is computed here never leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.model.recency import recency
from sottovoce.model.wide import WideModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from sottovoce.model.tags import Tag
    from sottovoce.protocol import Edition, Item

    Float64 = NDArray[np.float64]

MOST_REASONS = 3
MOST_OWN = 1_000
"""Own items that a list is made from, the latest: a longer history must not take longer."""


@dataclass(frozen=True)
class Reason:
    """What speaks for a recommendation: an own item, or a tag that own items have."""

    what: Item | Tag
    share: float
    """Its part of all that speaks for the recommendation, 0..1."""


@dataclass(frozen=True)
class Recommendation:
    id: str
    title: str
    score: float
    """How well it fits; to compare within one list only."""
    because: tuple[Reason, ...]
    """What speaks for it most; empty if nothing of the owner's does."""


@dataclass(frozen=True, eq=False)
class Personal:
    """The model of an edition for somebody with these items: scores, and what they are made of."""

    edition: Edition
    model: WideModel
    rows: list[int]
    """The own items that count, ascending."""
    shares: Float64
    """What each of them adds to the user vector, (F + K) x n."""

    @classmethod
    def of(cls, edition: Edition, touched: Mapping[str, int]) -> Personal:
        """`touched`: own items, and the moments at which they were, a later one larger."""
        model, numbers = wide_model(edition), edition.catalogue.numbers
        moments = {numbers[item]: at for item, at in touched.items() if item in numbers}
        rows = sorted(sorted(moments, key=lambda row: (-moments[row], row))[:MOST_OWN])
        weights = recency(np.array([moments[row] for row in rows], np.int64))
        return cls(edition, model, rows, model.shares(rows, weights))

    def scores(self) -> Float64:
        """Of every item. For somebody without a history: how popular it is."""
        if not self.rows:
            return self.model.popularity
        return self.model.scores(self.shares.sum(axis=1))

    def parts(self, item: int) -> tuple[Float64, Float64]:
        """What the score of an item is the sum of: a part of each own item, and of each tag.

        Exact: it is how the score came about, not a guess at it. What own items say through the
        learnt factors is theirs; what they say through a tag is the tag's.
        """
        factors = self.model.V.shape[1]
        row = self.model.rows([item])[0]
        return row[:factors] @ self.shares[:factors], row[factors:] * self.shares[factors:].sum(1)

    def reasons(self, item: int) -> tuple[Reason, ...]:
        """The largest positive parts; of tags those alone that an own item has.

        What own items have to do with a new item nobody has learnt: there tags alone are reasons.
        """
        speaking = sorted(self._speaking(item), key=lambda found: -found[1])
        total = sum(part for _, part in speaking)
        return tuple(Reason(what, part / total) for what, part in speaking[:MOST_REASONS])

    def _speaking(self, item: int) -> Iterator[tuple[Item | Tag, float]]:
        own, tags = self.parts(item)
        catalogue = self.edition.catalogue
        for row, part in zip(self.rows, own.tolist(), strict=True):
            if part > 0 and self.model.learnt[item]:
                yield catalogue.items[row], part
        theirs = catalogue.tags.table[self.rows].sum(axis=0)
        for tag, part, count in zip(catalogue.tags.names, tags.tolist(), theirs, strict=True):
            if part > 0 and count:
                yield tag, part


def wide_model(edition: Edition) -> WideModel:
    """As published, with the catalogue's tags.

    Before the first reports V is the server's noise: it says nothing, and tags alone do.
    """
    manifest, V = edition.manifest, edition.V
    return WideModel.of(
        V if manifest.reports_behind else np.zeros_like(V),
        edition.catalogue.tags,
        alpha=manifest.alpha,
        regularization=manifest.regularization,
    )


def recommendations(edition: Edition, touched: Mapping[str, int], n: int) -> list[Recommendation]:
    """The n best items that were not touched; among equals the catalogue's order holds."""
    with np.errstate(all="ignore"):  # as for a batch, whatever the application has told numpy
        personal = Personal.of(edition, touched)
        scores = personal.scores()
        order = np.argsort(-scores, kind="stable")
        best = order[~np.isin(order, edition.rows_of([*touched]))][:n]
        items = edition.catalogue.items
        return [
            Recommendation(items[i].id, items[i].title, float(scores[i]), personal.reasons(int(i)))
            for i in best
        ]
