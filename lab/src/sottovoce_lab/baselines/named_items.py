"""Own items by name: the textbook's way to tell one of M things under local differential privacy.

A report is one of the person's items, drawn at random, through randomised response over the whole
catalogue: the truth with chance e^eps / (e^eps + M - 1), else any other item. Whatever the history,
no report is more than e^eps times likelier than for another one, so n reports cost n eps.

Below ln M nearly all of them are noise; beyond it nearly all are true. Counted, they are popularity
(the best way to count where a report has eps 10). One person's reports together are a part of
their history, and anything can be learnt from it that is learnt from histories.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core import Histories, coin
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines.als import MatrixFactorization
from sottovoce_lab.baselines.simple import Popularity

USERS_PER_BLOCK = 1024
"""Who share a random stream; part of what a seed means."""


@dataclass(frozen=True)
class NamedItems:
    """How one person names own items."""

    n_items: int
    epsilon: float
    reports: int

    def __post_init__(self) -> None:
        coin.checked_epsilon(self.epsilon)
        if self.reports < 1:
            raise SettingsError(f"reports must be at least 1, got {self.reports}")

    @property
    def truth(self) -> float:
        """How often a report is the item that was drawn."""
        return 1 / (1 + (self.n_items - 1) * exp(-self.epsilon))

    def named(self, histories: Histories, draws: np.random.Generator) -> NDArray[np.int64]:
        """N x reports items; somebody without a history names any."""
        lengths = np.diff(histories.indptr)[:, None]
        shape = (histories.n_users, self.reports)
        place = histories.indptr[:-1, None] + (draws.random(shape) * lengths).astype(np.int64)
        own = np.append(histories.indices, 0)[place]
        own = np.where(lengths > 0, own, draws.integers(0, self.n_items, shape))
        other = (own + draws.integers(1, max(self.n_items, 2), shape)) % self.n_items
        return np.where(draws.random(shape) < self.truth, own, other)

    def blocks(self, train: Histories, seed: int) -> Iterator[NDArray[np.int64]]:
        for block, first in enumerate(range(0, train.n_users, USERS_PER_BLOCK)):
            users = np.arange(first, min(first + USERS_PER_BLOCK, train.n_users))
            yield self.named(train.take(users), stream(seed, "named", block))

    def counted(self, train: Histories, seed: int) -> Popularity:
        """By how often each is named; the noise is the same for all items but for chance."""
        counts = np.zeros(self.n_items, np.int64)
        for named in self.blocks(train, seed):
            counts += np.bincount(named.ravel(), minlength=self.n_items)
        return Popularity(counts.astype(np.float32), train.n_users)

    def histories(self, train: Histories, seed: int) -> Histories:
        """What was named, a row for each person."""
        rows = [
            sparse.csr_array(
                (
                    np.ones(named.size, np.float32),
                    named.ravel(),
                    np.arange(len(named) + 1) * self.reports,
                ),
                shape=(len(named), self.n_items),
            )
            for named in self.blocks(train, seed)
        ]
        return Histories.from_csr(sparse.vstack(rows, format="csr"))


def factorized(
    train: Histories, *, epsilon: float, reports: int, seed: int, **how: Any
) -> MatrixFactorization:
    """V of alternating least squares on what was named."""
    reported = NamedItems(train.n_items, epsilon, reports).histories(train, seed)
    return MatrixFactorization.fit(reported, seed=seed, **how)
