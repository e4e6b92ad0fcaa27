"""What every user's computation needs of an epoch, whatever the mechanism; computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.model import gram, outer_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

_LANES = 8
"""Rows of the table are padded to whole SIMD registers."""


class EpochConstants(NamedTuple):
    """Public numbers of one epoch; a kernel gets the mechanism's own constants beside them."""

    seed: np.uint64
    epoch: int
    reports: int
    alpha: float
    regularization: float
    n_directions: np.uint64
    V: Float32
    G: Float64
    table: Float64
    """See `normal_equations`."""


def prepare(settings: Settings, mechanism: Mechanism, V: Float32, epoch: int) -> EpochConstants:
    G, table = normal_equations(V)
    return EpochConstants(
        seed=np.uint64(settings.seed),
        epoch=epoch,
        reports=settings.reports,
        alpha=float(settings.alpha),
        regularization=settings.regularization,
        n_directions=np.uint64(mechanism.n_directions),
        V=V,
        G=G,
        table=table,
    )


def normal_equations(V: Float32) -> tuple[Float64, Float64]:
    """`gram(V)` and `outer_table(V)`, the latter padded."""
    table = outer_table(V)
    return gram(V), np.pad(table, [(0, 0), (0, -table.shape[1] % _LANES)])
