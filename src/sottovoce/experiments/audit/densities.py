"""How likely each report is under a history: what mechanisms.md states, as a table.

The audit holds black-box clients against it, and the attacker computes her likelihoods from it.
Densities are relative to a uniform report: 1 says nothing about anybody.
"""

from __future__ import annotations

from math import exp, tanh
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.mechanism import Hadamard, Loudest
from sottovoce.model import gradients, residuals, user_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.mechanism import Mechanism, Rotation
    from sottovoce.model import Histories
    from sottovoce.training import Settings

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

CHUNK = 1 << 24
"""Densities that are held at the same time while averaging over everybody."""


def report_densities(
    mechanism: Mechanism, settings: Settings, V: Float32, histories: Histories
) -> Float32:
    """Of every report under every user's history, N x 2D; a report is its own column.

    Rows of `loudest` that tie are taken in a fixed order here, where a client asks her mask.
    """
    X = user_vectors(V, histories, alpha=settings.alpha, regularization=settings.regularization)
    if isinstance(mechanism, Loudest):
        return _loudest(mechanism, V, X, histories)
    if isinstance(mechanism, Hadamard):
        values = _rotated_signs(mechanism.rotation, V, X, histories)
    else:
        e = residuals(V, X, histories, alpha=settings.alpha)
        values = np.clip(gradients(e, X), -1, 1).reshape(histories.n_users, -1)
    lean = np.float32(tanh(mechanism.epsilon / 2)) * values
    return np.stack([1 - lean, 1 + lean], axis=-1).reshape(histories.n_users, -1)


def _rotated_signs(rotation: Rotation, V: Float32, X: Float32, histories: Histories) -> Float32:
    """The sign of `-a_r b_q`, N x R Q."""
    a, b = rotation.all_rows(V, X, histories), rotation.user_columns(X)
    signs = -np.sign(a)[:, :, None] * np.sign(b)[:, None, :]
    return signs.reshape(histories.n_users, -1)


def _loudest(mechanism: Loudest, V: Float32, X: Float32, histories: Histories) -> Float32:
    """Loud rows have `gamma e^eps`, the others `gamma`."""
    rotation, n = mechanism.rotation, histories.n_users
    a, b = rotation.all_rows(V, X, histories), rotation.user_columns(X)
    loud = np.zeros((n, mechanism.n_signed_rows), bool)
    no_mask = np.zeros((n, 1), np.int64)
    np.put_along_axis(loud, mechanism.loud_rows(a, no_mask), values=True, axis=1)
    signed = loud.reshape(n, rotation.rows, 1, 2)
    by_column = b[:, None, :, None]
    is_loud = np.where(by_column > 0, signed[..., ::-1], signed)
    gamma = mechanism.gamma
    density = np.where(is_loud, gamma * exp(mechanism.epsilon), gamma)
    return np.where(by_column == 0, 1.0, density).astype(np.float32).reshape(n, -1)


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
