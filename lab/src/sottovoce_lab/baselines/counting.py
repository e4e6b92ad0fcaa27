"""Popularity learnt under local differential privacy, which a personal recommender must beat.

A report names a row of a Walsh-Hadamard matrix, drawn without looking at the data. It has the sign
of the row's product with the person's history (a random sign if the product is zero), which the
coin of `sottovoce.core.coin` may flip. So it is eps-LDP, with the same proof and the same bytes as
the mechanisms' reports. The sign is +-1 whatever the length of the history, so everybody has the
same weight.

The server's sums are unbiased estimates of the sums of signs. To compute from them the mean of all
histories, scaled to unit length, it assumes that the products of rows with histories are normally
distributed. With few items, this is less exact.

The plain alternative reports whether one uniformly drawn item was touched. Most of its reports are
about items that the person does not know. The table has HR@10 on the Netflix subset (latest split
of seed 1000), a mean over reports of seeds from 1000 on: four seeds, and two for the last line.

    reports   epsilon   a random item   a random row
          2       5.0           0.467          0.472   (within the noise: 0.02 from seed to seed)
          2       2.5           0.372          0.455
         20       2.5           0.538          0.570
      2,000       2.5           0.574          0.591

Counting without any privacy gives 0.573; with the same weight for everybody it gives 0.593.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, coin, walsh
from sottovoce.core.mechanism import check_directions, pack_reports
from sottovoce.data.streams import stream
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines.kernels import compute_walsh_rows

Float32 = NDArray[np.float32]
# Number of people who share a random stream. Another number would change the reports of each seed.
USERS_PER_STREAM = 64
# Number of rows of the small Hadamard matrix from which the products with a history are built up.
SMALL_MATRIX_ROWS = 128


@dataclass(frozen=True)
class RowReports:
    """Reports about rows: how a person makes them, and what is estimated from the sums of signs."""

    n_items: int
    epsilon: float
    directions_seed: int

    def __post_init__(self) -> None:
        coin.check_epsilon(self.epsilon)
        check_directions(self.n_rows)

    @property
    def n_rows(self) -> int:
        """Number of rows: the smallest power of two that is at least the number of items."""
        return 1 << (self.n_items - 1).bit_length()

    @cached_property
    def item_signs(self) -> Float32:
        """Public signs of the items; they make every history look random to every row."""
        return walsh.compute_public_signs(self.directions_seed, self.n_items)

    @cached_property
    def flip_threshold(self) -> int:
        """Threshold below which a word flips the sign."""
        return coin.compute_flip_threshold(self.epsilon)

    @property
    def gain(self) -> float:
        """Expectation of a reported sign times its product, if that is a standard normal number."""
        return coin.compute_sign_gain(self.epsilon)

    def multiply_rows(self, histories: Histories) -> NDArray[np.int32]:
        """Return the product of every row with every history, N x rows."""
        # Whole numbers: nothing is rounded.
        out = np.empty((histories.n_users, self.n_rows), np.int32)
        numbers = np.arange(min(SMALL_MATRIX_ROWS, self.n_rows))
        block = walsh.compute_hadamard_signs(numbers[:, None], numbers[None, :]).astype(np.int32)
        signs = self.item_signs.astype(np.int32)
        compute_walsh_rows(histories.indptr, histories.indices, signs, block, out)
        return out

    def make_reports(
        self, products: NDArray[np.int32], words: NDArray[np.uint64]
    ) -> NDArray[np.uint32]:
        """Return N x k reports `row << 1 | plus`.

        Args:
            products: The result of `multiply_rows`.
            words: 2 x N x k random words. The upper bits of a report's first word are its row; the
                lowest bit is its sign if the product is zero. The second word is for the coin.
        """
        first, second = words
        row = (first >> np.uint64(65 - self.n_rows.bit_length())).astype(np.int64)
        product = np.take_along_axis(products, row, axis=1)
        plus = (product > 0) | ((product == 0) & (first & np.uint64(1) == 1))
        return pack_reports(row, plus ^ (second < np.uint64(self.flip_threshold)))

    def estimate(self, sums: NDArray[np.integer], n_reports: int) -> NDArray[np.float64]:
        """Estimate the mean of all histories of unit length from the sums of signs by row."""
        mean = walsh.transform(sums.astype(np.float64), 0)[: self.n_items] / max(n_reports, 1)
        return np.asarray(mean * self.item_signs / self.gain)


@dataclass(frozen=True, eq=False)
class PrivatePopularity:
    """A model that scores an item by its estimated share of everybody's history."""

    shares: NDArray[np.float64]
    """Estimated share of each item; noise makes some negative."""
    n_users: int

    @classmethod
    def fit(cls, train: Histories, *, epsilon: float, reports: int, seed: int) -> Self:
        """Simulate `reports` reports of `epsilon` each from everybody, and count them."""
        if reports < 1:
            raise SettingsError(f"reports must be at least 1, got {reports}")
        rule = RowReports(train.n_items, epsilon, seed)
        counts = np.zeros(2 * rule.n_rows, np.int64)
        for block, first in enumerate(range(0, train.n_users, USERS_PER_STREAM)):
            users = np.arange(first, min(first + USERS_PER_STREAM, train.n_users))
            bits = stream(seed, "popul", block).bit_generator
            words = bits.random_raw((2, len(users), reports))
            sent = rule.make_reports(rule.multiply_rows(train.take(users)), words)
            counts += np.bincount(sent.ravel(), minlength=len(counts))
        shares = rule.estimate(counts[1::2] - counts[::2], train.n_users * reports)
        return cls(shares, train.n_users)

    def score(self, users: NDArray[np.int64]) -> Float32:
        return np.broadcast_to(self.shares.astype(np.float32), (len(users), len(self.shares)))

    def get_factors(self) -> tuple[Float32, Float32]:
        """Return one factor; everybody's entry is 1."""
        return np.ones((self.n_users, 1), np.float32), self.shares.astype(np.float32)[:, None]
