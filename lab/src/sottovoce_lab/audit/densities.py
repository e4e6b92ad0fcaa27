"""Densities of reports.

The density of a report is its probability given a history, times the number of possible reports.
If a report is uniformly random, all densities are 1.
"""

from math import exp

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sottovoce.core import Histories, Loudest, Mechanism, solve_user_vectors
from sottovoce.simulation.cpu.cache import drop_stale
from sottovoce.simulation.cpu.kernels.select import (
    find_loud,
    get_nth_loud,
    list_tied,
    make_selection,
)
from sottovoce.training import Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
# Maximum number of densities that `compute_mean_density` has in memory at a time.
DENSITIES_PER_BLOCK = 1 << 24


def compute_report_densities(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float32:
    """Return the density of every report given every user's history.

    The table is N x 2D for N users and D directions, each of which is reported with either sign.
    """
    X = solve_user_vectors(
        V, histories, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    if not isinstance(mechanism, Loudest):
        return mechanism.densities(V, X, histories)
    densities = np.full((histories.n_users, mechanism.n_signed), mechanism.gamma, np.float32)
    rows = np.ascontiguousarray(mechanism.blocks.compute_rows(V, X, histories))
    value = np.float32(mechanism.gamma * exp(mechanism.epsilon))
    _fill_loud(rows, X, mechanism.loud, value, densities)
    return densities


def compute_mean_density(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float64:
    """Return the density of every report, averaged over everybody."""
    total = np.zeros(2 * mechanism.n_directions)
    step = max(1, DENSITIES_PER_BLOCK // total.size)
    for start in range(0, histories.n_users, step):
        users = np.arange(start, min(start + step, histories.n_users))
        densities = compute_report_densities(mechanism, settings, V, histories.take(users))
        total += densities.sum(axis=0, dtype=np.float64)
    return total / histories.n_users


# Compiled, because `Loudest.densities` takes too long for many people.
@njit(error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _fill_loud(rows: Float32, X: Float32, loud: int, value: np.float32, out: Float32) -> None:
    """Set the densities of each person's loud directions.

    If a person has no loud direction, all of their densities are 1.
    """
    selection = make_selection(rows.shape[1], X.shape[1])
    for u in range(X.shape[0]):
        a, x = rows[u], X[u]
        if not (a.any() and x.any()):
            # No direction is loud: all reports are equally likely.
            out[u] = 1
            continue
        threshold = find_loud(a, x, loud, selection)
        tied, above = list_tied(a, x, threshold, 0, selection), selection.group_ends[-1]
        for rank in range(loud):
            if rank < above:
                out[u, get_nth_loud(a, x, threshold, rank, selection)] = value
            else:
                out[u, tied[rank - above]] = value


drop_stale(_fill_loud)
