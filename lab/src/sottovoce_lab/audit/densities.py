"""How likely each report is under a history: what mechanisms.md states, as a table.

The audit holds black-box clients against it, and the attacker computes likelihoods from it.
Densities are relative to a uniform report: 1 says nothing about anybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Mechanism, user_vectors
from sottovoce.simulation.cpu import kernels
from sottovoce.simulation.engines import has_kernel
from sottovoce.training import Settings

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

CHUNK = 1 << 24
"""Densities that are held at the same time while averaging over everybody."""


def report_densities(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float32:
    """Of every report under every user's history, N x 2D; a report is its own column."""
    X = user_vectors(V, histories, alpha=settings.alpha, regularization=settings.user_ridge(V))
    # A kernel may compute what the mechanism states, sooner.
    known = has_kernel(kernels.__name__, mechanism.name)
    compiled = getattr(kernels.kernel_of(mechanism), "densities", None) if known else None
    if compiled is None:
        return mechanism.densities(V, X, histories)
    found: Float32 = compiled(mechanism, V, X, histories)
    return found


def mean_density(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float64:
    """Everybody's average: how the crowd's reports are spread."""
    total = np.zeros(2 * mechanism.n_directions)
    step = max(1, CHUNK // total.size)
    for start in range(0, histories.n_users, step):
        users = np.arange(start, min(start + step, histories.n_users))
        some = report_densities(mechanism, settings, V, histories.take(users))
        total += some.sum(axis=0, dtype=np.float64)
    return total / histories.n_users
