"""What one person's history makes of a model: the score of every item, and what it is made of.

The one place for both: devices use it (`sottovoce.client.recommending`), and so does `FederatedMF`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.model.tags import Tag, Tags
    from sottovoce.model.wide import WideModel

    Float64 = NDArray[np.float64]

MOST_REASONS = 3


@dataclass(frozen=True, eq=False)
class Taste:
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
