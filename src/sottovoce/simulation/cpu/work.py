"""How much there is to do in an epoch, counted from the algorithm of this engine.

Counts, not measurements: what any implementation of the same algorithm has to read and add. Their
use is to see how far a measured time is from the machine's limit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from sottovoce.mechanism import WORDS_PER_DRAW
from sottovoce.simulation.cpu.kernels import kernel_of
from sottovoce.simulation.words import ROUNDS

if TYPE_CHECKING:
    from sottovoce.evaluation import Candidates
    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.training import Settings

FLOAT = 4
"""Bytes of an entry of V and of a user vector."""
WORD_STEPS = 10 * ROUNDS / WORDS_PER_DRAW
"""Operations of one random word: four products, four exclusive ors and two sums a round of four."""
STEPS_PER_REPORT = 4
"""Its direction, its sign, and one sum that is read and written."""


@dataclass(frozen=True)
class Work:
    """One epoch of everybody, or one kernel of it. Of tables: V, and what is made of it."""

    index_bytes: int = 0
    """The histories (or candidates), read once."""
    vector_bytes: int = 0
    """User vectors, read or written once."""
    table_bytes: int = 0
    """Tables, read once: all that memory must give where they fit a cache."""
    looked_up_bytes: int = 0
    """Tables, whenever a row of them is looked up: what memory must give where they fit none."""
    table_rows: int = 0
    """Rows looked up by item or direction: normal equations, V, rotated V."""
    additions: int = 0
    """Into sums: the normal equations, signed weights into rotated rows, predictions of items."""
    products: int = 0
    """That are added so."""
    solving: int = 0
    """Additions, products, quotients and roots that solve the normal equations."""
    butterflies: int = 0
    """(u, v) -> (u + v, u - v)."""
    dense: int = 0
    """Multiply-adds of `V x` over all rows."""
    steps: int = 0
    """Operations on whole numbers, random words aside: marks, bins, comparisons, sums of signs."""
    words: int = 0
    """64-bit random words."""

    def __add__(self, other: Work) -> Work:
        mine, theirs = asdict(self), asdict(other)
        return Work(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def floats(self) -> int:
        """Operations on floating-point numbers, all together."""
        return self.additions + self.products + self.solving + 2 * self.butterflies + 2 * self.dense

    @property
    def operations(self) -> int:
        """On numbers of any kind."""
        return self.floats + self.steps + round(WORD_STEPS * self.words)

    @property
    def least_bytes(self) -> int:
        """Through memory, if every table stays in a cache."""
        return self.index_bytes + self.vector_bytes + self.table_bytes

    @property
    def most_bytes(self) -> int:
        """Through memory, if no table stays in a cache; scratch of single people does."""
        return self.index_bytes + self.vector_bytes + self.looked_up_bytes


def work_of(histories: Histories, settings: Settings) -> Work:
    """The whole epoch, without what the server does.

    In one pass: histories are read once, and vectors need not go through memory.
    """
    both = solving_work(histories, settings.factors) + reporting_work(histories, settings)
    return replace(both, index_bytes=_index_bytes(histories), vector_bytes=0)


def solving_work(histories: Histories, factors: int) -> Work:
    """Everybody's vector: `sum v v^T` and `sum v` over their items, and the equations solved.

    The lower triangle alone; what is computed beside it to fill registers is not counted.
    """
    entries, users, size = histories.n_interactions, histories.n_users, factors
    triangle = size * (size + 1) // 2
    # 1 + alpha times the right side; alpha times the triangle, and G; the ridge.
    scaling = 2 * triangle + 2 * size
    # Column by column: a root, quotients, and a product taken off each entry that is left.
    cholesky = sum(1 + left + left * (left + 1) for left in range(size))
    there_and_back = 2 * size * size
    return Work(
        index_bytes=_index_bytes(histories),
        vector_bytes=users * factors * FLOAT,
        table_bytes=histories.n_items * factors * FLOAT,
        looked_up_bytes=entries * factors * FLOAT,
        table_rows=entries,
        additions=entries * (triangle + size),
        products=entries * triangle,
        solving=users * (scaling + cholesky + there_and_back),
    )


def reporting_work(histories: Histories, settings: Settings) -> Work:
    """Everybody's reports, from their vectors on, added up."""
    mechanism = settings.build(histories.n_items)
    return kernel_of(mechanism).work(histories, mechanism, settings.reports)


def drawing_work(
    histories: Histories, mechanism: Mechanism, reports: int, draws: int | None = None
) -> Work:
    """What every mechanism does to report: read history and vector, draw words, add up signs."""
    users = histories.n_users
    return Work(
        index_bytes=_index_bytes(histories),
        vector_bytes=users * mechanism.shape.factors * FLOAT,
        words=users * (draws or reports) * WORDS_PER_DRAW,
        steps=users * reports * STEPS_PER_REPORT,
    )


def scored_work(items: int, rows: int, factors: int) -> Work:
    """`x . v` for so many items one by one, out of a V of so many rows."""
    return Work(
        table_bytes=rows * factors * FLOAT,
        looked_up_bytes=items * factors * FLOAT,
        table_rows=items,
        additions=items * (factors - 1),
        products=items * factors,
    )


def ranking_work(candidates: Candidates, factors: int) -> Work:
    """Where everybody's test item ranks: each candidate scored, and compared twice."""
    train = candidates.split.train
    others = train.n_users * (train.n_items if candidates.full else candidates.items.shape[1])
    read = _index_bytes(train) if candidates.full else candidates.items.nbytes
    scored = others + train.n_users + (train.n_interactions if candidates.full else 0)
    return scored_work(scored, train.n_items, factors) + Work(
        index_bytes=read + candidates.split.test.nbytes,
        vector_bytes=train.n_users * factors * FLOAT,
        steps=2 * (scored - train.n_users),
    )


def _index_bytes(histories: Histories) -> int:
    return histories.n_interactions * histories.indices.itemsize
