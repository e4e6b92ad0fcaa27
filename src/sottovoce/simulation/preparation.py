"""What every user's computation needs of an epoch, whatever the mechanism; computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.model import gram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]


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


def prepare(settings: Settings, mechanism: Mechanism, V: Float32, epoch: int) -> EpochConstants:
    return EpochConstants(
        seed=np.uint64(settings.seed),
        epoch=epoch,
        reports=settings.reports,
        alpha=float(settings.alpha),
        regularization=settings.user_ridge(V),
        n_directions=np.uint64(mechanism.n_directions),
        V=V,
        G=gram(V),
    )
