"""What every user's kernel needs of an epoch, computed once."""

from __future__ import annotations

from math import exp, pi, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from sottovoce.errors import SettingsError
from sottovoce.mechanism import Coordinate, Hadamard, Loudest
from sottovoce.mechanism.rotation import BLOCK_BITS
from sottovoce.mechanism.walsh import hadamard_signs
from sottovoce.simulation.cpu.solve import normal_equations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism

COORDINATE, HADAMARD, LOUDEST = 0, 1, 2


class Prepared(NamedTuple):
    """One epoch's public constants; fields that a mechanism does not use are empty."""

    kind: int
    seed: np.uint64
    epoch: int
    reports: int
    alpha: float
    regularization: float
    V: NDArray[np.float32]
    G: NDArray[np.float64]
    table: NDArray[np.float64]
    n_directions: np.uint64
    threshold: np.uint64
    """Of the coin: flip below, or a uniform row below."""
    item_signs: NDArray[np.float32]
    factor_signs: NDArray[np.float32]
    rows: int
    columns: int
    item_rows: NDArray[np.float32]
    """`hadamard`: R x F."""
    item_rows_by_factor: NDArray[np.float32]
    """`loudest`: F x R, so that a pass over all rows is contiguous."""
    block_signs: NDArray[np.float32]
    loud: int
    guess: float
    """Where the loud rows of normal values begin, in standard deviations: only to start looking."""
    density: float


def prepare(
    mechanism: Mechanism,
    V: NDArray[np.float32],
    *,
    seed: int,
    epoch: int,
    reports: int,
    regularization: float,
) -> Prepared:
    """The constants of one epoch."""
    G, table = normal_equations(V)
    empty, flat = np.empty((0, 0), np.float32), np.empty(0, np.float32)
    prepared = Prepared(
        kind=COORDINATE, seed=np.uint64(seed), epoch=epoch, reports=reports,
        alpha=float(mechanism.shape.alpha), regularization=regularization, V=V, G=G, table=table,
        n_directions=np.uint64(mechanism.n_directions), threshold=np.uint64(0), item_signs=flat,
        factor_signs=flat, rows=1, columns=1, item_rows=empty, item_rows_by_factor=empty,
        block_signs=empty, loud=1, guess=0.0, density=1.0,
    )  # fmt: skip
    if isinstance(mechanism, Coordinate):
        return prepared._replace(threshold=np.uint64(mechanism.flip_below))
    if not isinstance(mechanism, Hadamard | Loudest):
        raise SettingsError(f"the cpu engine does not know the mechanism {mechanism.name!r}")
    rotation = mechanism.rotation
    prepared = prepared._replace(
        item_signs=rotation.item_signs, factor_signs=rotation.factor_signs,
        rows=rotation.rows, columns=rotation.columns,
    )  # fmt: skip
    if isinstance(mechanism, Hadamard):
        return prepared._replace(
            kind=HADAMARD,
            threshold=np.uint64(mechanism.flip_below),
            item_rows=np.ascontiguousarray(rotation.item_rows(V)),
        )
    block = np.arange(min(1 << BLOCK_BITS, rotation.rows))
    z = float(special.ndtri(1 - mechanism.loud / mechanism.n_signed_rows))
    return prepared._replace(
        kind=LOUDEST,
        threshold=np.uint64(mechanism.blanket_below),
        item_rows_by_factor=np.ascontiguousarray(rotation.item_rows(V).T),
        block_signs=hadamard_signs(block[:, None], block[None, :]),
        loud=mechanism.loud,
        guess=z,
        density=2 * exp(-z * z / 2) / sqrt(2 * pi),
    )
