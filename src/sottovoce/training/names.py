"""The server's memory in a training of names: recent names, and names of the long run.

The first column of the item matrix of such a training, `now`, is the share of each item among
recent names. It is smoothed, because counts of few reports are noisy. The smoothing hides nothing:
anyone who follows the published models can estimate the counts of each epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import round_items
from sottovoce.core.mechanism import Mechanism
from sottovoce.core.recommending import estimate_popularity

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

# The shares are smoothed by this number of imaginary reports, which name items in the proportions
# of the long run.
LONG_RUN_REPORTS = 1_000.0
# The long run begins with this number of imaginary reports, which name all items equally often.
EQUAL_REPORTS = 100.0
# Number of rows of the table of counts.
TABLE_ROWS = 4


@dataclass(frozen=True, eq=False)
class NameCounts:
    """Estimates of how often each item was named.

    An item that joins the catalogue later has fewer reports in which it could be named.
    """

    table: Float64
    """4 x M. Row 0: the estimated number of recent names of each item, in which older epochs weigh
    less. Row 1: the number of reports behind row 0. Row 2: the estimated number of names in all
    epochs. Row 3: the number of reports behind row 2."""

    @classmethod
    def make_empty(cls, n_items: int) -> Self:
        """Return the counts before the first epoch."""
        return cls(np.zeros((TABLE_ROWS, n_items)))

    @classmethod
    def from_items(cls, V: Float32) -> Self:
        """Return counts whose long run has the popularities that an item matrix estimates.

        They count as few reports. An item with a row of zeros is new: nobody could name it yet.
        """
        popularity = estimate_popularity(V.astype(np.float64))
        counts = cls.make_empty(len(V))
        is_known = V.any(axis=1)
        shares = np.where(is_known, popularity, 0.0) / max(popularity[is_known].sum(), 1e-300)
        counts.table[2:] = LONG_RUN_REPORTS * np.stack([shares, is_known])
        return counts

    def add_items(self, n_items: int) -> Self:
        """Return the counts for a catalogue of `n_items` items, of which the last ones are new."""
        new_items = np.zeros((TABLE_ROWS, n_items - self.table.shape[1]))
        return type(self)(np.concatenate([self.table, new_items], axis=1))

    def add_epoch(self, mechanism: Mechanism, counts: Int64, n_reports: int, fade: float) -> Self:
        """Return the counts after another epoch.

        Args:
            mechanism: The mechanism of the epoch.
            counts: How often each outcome was reported, dummies included.
            n_reports: Number of reports of people, without dummies.
            fade: The factor by which earlier epochs lose weight.
        """
        named = n_reports * mechanism.estimate(counts, n_reports)[:, 0]
        both = np.stack([named, np.full(len(named), float(n_reports))])
        recent, lasting = self.table[:2], self.table[2:]
        return type(self)(np.concatenate([fade * recent + both, lasting + both]))

    def compute_shares(self) -> Float32:
        """Return the smoothed share of each item among present names.

        An item that nobody could name yet has the share 0, which tells devices that it is new.
        """
        recent, recent_reports, lasting, lasting_reports = self.table
        n_items = len(recent)
        # Estimates of rare items are often below 0, but a share cannot be.
        lasting = np.maximum(lasting, 0.0) + EQUAL_REPORTS / n_items
        long_run = lasting / (lasting_reports + EQUAL_REPORTS)
        shares = np.maximum(recent, 0.0) + LONG_RUN_REPORTS * long_run
        shares /= recent_reports + LONG_RUN_REPORTS
        is_old = lasting_reports > 0
        # Before the first epoch, all items have the same share.
        shares = np.where(is_old, shares, 0.0) if is_old.any() else np.ones(n_items)
        return np.asarray(shares / shares.sum(), np.float32)

    def update_items(self, V: Float32) -> Float32:
        """Return V with the rounded shares as its first column, `now`.

        The other columns stay: zeros, or those of a public start, because names teach nothing else.

        Args:
            V: The item matrix, M x F.
        """
        return np.concatenate([round_items(self.compute_shares())[:, None], V[:, 1:]], axis=1)
