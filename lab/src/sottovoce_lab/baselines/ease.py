"""EASE (Steck 2019): a linear model of items on items in closed form, not private.

With the histories X, the ridge l and `P = (X^T X + l I)^-1` the weights are `B = I - P / diag(P)`:
each column of P is divided by its diagonal entry. The diagonal of B is 0, so no item predicts
itself. Scores are `X B`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines.models import split_into_blocks

# Maximum number of items. The matrices are dense: with this number of items a matrix takes 3.2 GB,
# and three are in memory at a time.
MAX_DENSE_ITEMS = 20_000


@dataclass(frozen=True, eq=False)
class EASE:
    """A model that scores items by their weights for the person's own items."""

    B: Any
    """M x M, an array of the library in `arrays`."""
    train: Histories
    arrays: Any
    """The library: NumPy or CuPy."""

    @classmethod
    def fit(cls, train: Histories, *, ridge: float, engine: str = "cpu") -> EASE:
        """Compute the weights.

        Args:
            train: Everybody's history.
            ridge: Added to each item's count, which is the diagonal of `X^T X`.
            engine: `cuda` computes on a graphics card, everything else with NumPy.
        """
        if train.n_items > MAX_DENSE_ITEMS:
            raise SettingsError(
                f"ease needs a dense matrix of items by items: {train.n_items:,} items are too "
                f"many, at most {MAX_DENSE_ITEMS:,}"
            )
        if not ridge > 0:
            raise SettingsError(f"ridge must be above 0, got {ridge}")
        xp: Any = import_module("cupy" if engine == "cuda" else "numpy")
        counts = xp.zeros((train.n_items, train.n_items), xp.float32)
        for people in split_into_blocks(train):  # whole numbers below 2^24: float32 is exact
            dense = xp.asarray(_to_dense(people))
            counts += dense.T @ dense
        return cls(compute_item_weights(counts, ridge, xp), train, xp)

    def score(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        scores = self.arrays.asarray(_to_dense(self.train.take(users))) @ self.B
        return np.asarray(scores if self.arrays is np else self.arrays.asnumpy(scores))


def compute_item_weights(counts: Any, ridge: float, arrays: Any = np) -> Any:
    """Return B for the products `X^T X`, with the arrays of a library: NumPy or CuPy."""
    system = arrays.asarray(counts).astype(arrays.float64)
    system[arrays.arange(len(system)), arrays.arange(len(system))] += ridge
    inverse = arrays.linalg.inv(system)
    B = (-inverse / arrays.diag(inverse)).astype(arrays.float32)
    arrays.fill_diagonal(B, 0)
    return B


def _to_dense(histories: Histories) -> NDArray[np.float32]:
    out = np.zeros((histories.n_users, histories.n_items), np.float32)
    out[histories.users_of_entries(), histories.indices] = 1
    return out
