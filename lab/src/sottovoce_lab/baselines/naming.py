"""Reports that name one of the person's items, by randomised response over the catalogue.

For a report, one of the person's items is drawn at random. The report is this item with probability
e^eps / (e^eps + M - 1), else any other of the M items of the catalogue. For any two histories, the
probabilities of a report differ by a factor of at most e^eps, so n reports cost n eps.

If epsilon is far below ln M, nearly all reports are noise; if it is far above, nearly all are true.
Counts of the reports give popularity, and with epsilon 10 for a report this is the best way to
count. All true reports of a person together are a part of their history, so any model can be
trained on them.
"""

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
from sottovoce.simulation import Popularity
from sottovoce_lab.baselines.factorization import MatrixFactorization

# Number of people who share a random stream. Another number would change the reports of each seed.
USERS_PER_STREAM = 1024


@dataclass(frozen=True)
class NamedItems:
    """The way in which a person names items of their history."""

    n_items: int
    epsilon: float
    reports: int

    def __post_init__(self) -> None:
        coin.check_epsilon(self.epsilon)
        if self.reports < 1:
            raise SettingsError(f"reports must be at least 1, got {self.reports}")

    @property
    def truth(self) -> float:
        """Probability that a report is the item that was drawn from the history."""
        return 1 / (1 + (self.n_items - 1) * exp(-self.epsilon))

    def name_items(self, histories: Histories, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return N x reports items; a person without a history names any item."""
        lengths = np.diff(histories.indptr)[:, None]
        shape = (histories.n_users, self.reports)
        place = histories.indptr[:-1, None] + (rng.random(shape) * lengths).astype(np.int64)
        own = np.append(histories.indices, 0)[place]
        own = np.where(lengths > 0, own, rng.integers(0, self.n_items, shape))
        other = (own + rng.integers(1, max(self.n_items, 2), shape)) % self.n_items
        return np.where(rng.random(shape) < self.truth, own, other)

    def name_in_blocks(self, train: Histories, seed: int) -> Iterator[NDArray[np.int64]]:
        """Yield the items that people name, some people at a time."""
        for block, first in enumerate(range(0, train.n_users, USERS_PER_STREAM)):
            users = np.arange(first, min(first + USERS_PER_STREAM, train.n_users))
            yield self.name_items(train.take(users), stream(seed, "named", block))

    def count_popularity(self, train: Histories, seed: int) -> Popularity:
        """Count how often each item is named."""
        # False names are uniform over the catalogue, so only chance lets them change the order of
        # the items.
        counts = np.zeros(self.n_items, np.int64)
        for items in self.name_in_blocks(train, seed):
            counts += np.bincount(items.ravel(), minlength=self.n_items)
        return Popularity(counts.astype(np.float32))

    def collect_histories(self, train: Histories, seed: int) -> Histories:
        """Return the named items as histories, one for each person."""
        blocks = [
            sparse.csr_array(
                (
                    np.ones(items.size, np.float32),
                    items.ravel(),
                    np.arange(len(items) + 1) * self.reports,
                ),
                shape=(len(items), self.n_items),
            )
            for items in self.name_in_blocks(train, seed)
        ]
        return Histories.from_csr(sparse.vstack(blocks, format="csr"))


def factorize_named_items(
    train: Histories, *, epsilon: float, reports: int, seed: int, **options: Any
) -> MatrixFactorization:
    """Fit alternating least squares to the items that people name."""
    rule = NamedItems(train.n_items, epsilon, reports)
    return MatrixFactorization.fit(rule.collect_histories(train, seed), seed=seed, **options)
