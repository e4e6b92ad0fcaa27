"""How much there is to do in an epoch, counted from the algorithm, and what memory could deliver.

Counts, not measurements: what any implementation of the same algorithm has to read and add. Their
use is to see how far a measured time is from the machine's limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import WORDS_PER_DRAW
from sottovoce.mechanism.rotation import BLOCK_BITS
from sottovoce.mechanism.walsh import next_power_of_two

if TYPE_CHECKING:
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
    """(u, v) -> (u + v, u - v); `loudest` only."""
    dense: int
    """Multiply-adds of `V x` over all rows; `loudest` only."""
    words: int
    """64-bit random words."""

    @classmethod
    def of(cls, histories: Histories, settings: Settings) -> Work:
        """Counted for the algorithm of `sottovoce.simulation.cpu`."""
        entries, users, k = histories.n_interactions, histories.n_users, settings.reports
        factors = settings.factors
        solve = entries * (factors * (factors + 3) // 2)
        index_bytes, words = entries * histories.indices.itemsize, users * k * WORDS_PER_DRAW
        if settings.mechanism == "coordinate":
            return cls(index_bytes, entries + users * k, solve, 0, 0, words)
        if settings.mechanism == "hadamard":
            return cls(index_bytes, 2 * entries + users * k, solve + entries * k, 0, 0, words)
        rows = next_power_of_two(histories.n_items)
        block = min(1 << BLOCK_BITS, rows)
        levels = (rows // block - 1).bit_length()
        return cls(
            index_bytes,
            2 * entries,
            solve + entries * block,
            users * levels * rows // 2,
            users * rows * factors,
            words + users * WORDS_PER_DRAW,
        )

    @property
    def operations(self) -> int:
        """Floating-point additions and multiplications, all together."""
        return self.additions + 2 * self.butterflies + 2 * self.dense


def copy_bandwidth(megabytes: int = 256) -> float:
    """Bytes that one thread moves in a second (read and written), copying a large array."""
    source = np.ones(megabytes << 17, np.float64)
    target = np.empty_like(source)
    best = float("inf")
    for _ in range(4):  # the first touches the pages
        began = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - began)
    return 2 * source.nbytes / best
