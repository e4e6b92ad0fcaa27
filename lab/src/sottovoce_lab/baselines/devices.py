"""Everybody's vector in closed form, as each device solves it for itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, user_vectors

USERS_PER_BLOCK = 8192
"""Enough for whole-array arithmetic, few enough to fit beside the data."""


def blocks_of(train: Histories) -> Iterator[Histories]:
    """The same people in their order, some thousands at a time."""
    for first in range(0, train.n_users, USERS_PER_BLOCK):
        yield train.take(np.arange(first, min(first + USERS_PER_BLOCK, train.n_users)))


def device_vectors(
    V: NDArray[np.float32], train: Histories, *, alpha: float, regularization: float
) -> NDArray[np.float32]:
    """`model.user_vectors` for any number of people: the same bits, in bounded memory."""
    X = np.empty((train.n_users, V.shape[1]), np.float32)
    first = 0
    for some in blocks_of(train):
        X[first : first + some.n_users] = user_vectors(
            V, some, alpha=alpha, regularization=regularization
        )
        first += some.n_users
    return X


def normal_equations(
    sums: NDArray[np.float64], G: NDArray[np.float64], factors: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`G + alpha sum v v^T` and `(1 + alpha) sum v`, from sums of `outer_table` rows."""
    rows, columns = np.tril_indices(factors)
    triangle = alpha * sums[:, : len(rows)]
    system = np.empty((len(sums), factors, factors))
    system[:, rows, columns] = triangle
    system[:, columns, rows] = triangle
    return system + G, (1 + alpha) * sums[:, len(rows) :]
