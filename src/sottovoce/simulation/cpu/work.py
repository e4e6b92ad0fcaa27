"""How much there is to do in an epoch, counted from the algorithm of this engine.

Counts, not measurements: what any implementation of the same algorithm has to read and add. Their
use is to see how far a measured time is from the machine's limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sottovoce.mechanism import WORDS_PER_DRAW
from sottovoce.simulation.cpu.kernels import kernel_of

if TYPE_CHECKING:
    from sottovoce.mechanism import Mechanism
    from sottovoce.model import Histories
    from sottovoce.training import Settings


@dataclass(frozen=True)
class Work:
    """One epoch of everybody."""

    index_bytes: int
    """The histories, read once."""
    table_rows: int
    """Rows looked up by item or direction: normal equations, V, rotated V."""
    additions: int
    """Into sums: the normal equations, and the signed weights of histories into rotated rows."""
    butterflies: int
    """(u, v) -> (u + v, u - v)."""
    dense: int
    """Multiply-adds of `V x` over all rows."""
    words: int
    """64-bit random words."""

    def plus(self, **more: int) -> Work:
        """With so much more of some."""
        return replace(self, **{name: getattr(self, name) + value for name, value in more.items()})

    @property
    def operations(self) -> int:
        """Floating-point additions and multiplications, all together."""
        return self.additions + 2 * self.butterflies + 2 * self.dense


def work_of(histories: Histories, settings: Settings) -> Work:
    mechanism = settings.build(histories.n_items)
    return kernel_of(mechanism).work(histories, mechanism, settings.reports)


def common_work(
    histories: Histories, mechanism: Mechanism, reports: int, draws: int | None = None
) -> Work:
    """What every mechanism does: read histories, solve user vectors, look up k rows, draw words."""
    entries, users = histories.n_interactions, histories.n_users
    factors = mechanism.shape.factors
    return Work(
        index_bytes=entries * histories.indices.itemsize,
        table_rows=entries + users * reports,
        additions=entries * (factors * (factors + 3) // 2),
        butterflies=0,
        dense=0,
        words=users * (draws or reports) * WORDS_PER_DRAW,
    )
