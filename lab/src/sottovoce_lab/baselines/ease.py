"""EASE (Steck 2019): a linear model of items on items in closed form, not private.

With the histories X, the ridge l and `P = (X^T X + l I)^-1` the weights are `B = I - P / diag(P)`,
column by column, which is 0 on the diagonal: no item speaks for itself. Scores are `X B`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sottovoce.core import Histories
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines.models import blocks_of

MOST_ITEMS = 20_000
"""The matrices are dense: at this size one has 3.2 GB, and two are held."""


@dataclass(frozen=True, eq=False)
class EASE:
    B: NDArray[np.float32]
    """M x M."""
    train: Histories

    @classmethod
    def fit(cls, train: Histories, *, ridge: float) -> EASE:
        """`ridge` is added to each item's count."""
        if train.n_items > MOST_ITEMS:
            raise SettingsError(
                f"ease needs a dense matrix of items by items: {train.n_items:,} items are too "
                f"many, at most {MOST_ITEMS:,}"
            )
        if not ridge > 0:
            raise SettingsError(f"ridge must be above 0, got {ridge}")
        counts = np.zeros((train.n_items, train.n_items), np.float32)
        for some in blocks_of(train):  # whole numbers below 2^24: exact
            dense = _dense(some)
            counts += dense.T @ dense
        system = counts.astype(np.float64, order="F")
        system[np.diag_indices_from(system)] += ridge
        factor, failed = lapack.dpotrf(system, overwrite_a=True, clean=False)
        if failed:
            raise SettingsError(
                f"ridge {ridge:g} is too small for these histories: use a larger one"
            )
        inverse, _ = lapack.dpotri(factor, overwrite_c=True)
        return cls(_weights(np.asarray(inverse)), train)

    def scores(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(_dense(self.train.take(users)) @ self.B)


def _dense(histories: Histories) -> NDArray[np.float32]:
    out = np.zeros((histories.n_users, histories.n_items), np.float32)
    out[histories.users_of_entries(), histories.indices] = 1
    return out


def _weights(inverse: NDArray[np.float64]) -> NDArray[np.float32]:
    """From the upper triangle, which is all that LAPACK gives."""
    B = np.triu(inverse, 1).astype(np.float32)
    B += B.T
    B /= -np.diag(inverse).astype(np.float32)
    np.fill_diagonal(B, 0)
    return B
