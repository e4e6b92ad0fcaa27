"""Implicit-feedback matrix factorisation, one function for each equation of the paper (section 2).

`V` is the item matrix, M x F, float32 as it is published. `x` is a user vector, `p` the 0/1
preference, `c = 1 + alpha p` the confidence. This module draws from public seeds only and adds no
privacy noise: mechanisms (`sottovoce.core.mechanism`) decide what leaves a device.

Every engine must give the same bits as this file, so the order of every sum is part of the
definition. Sums over a user's items and sums over factors run in ascending order. Every operation
is rounded by itself, without fused multiply-add. User vectors are solved in float64 and rounded to
float32 once; everything that is computed from the rounded vectors is float32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bounds import MAX_ITEM_ENTRY, zero_unusable_vectors
from sottovoce.core.histories import Histories
from sottovoce.errors import DivergedError, SettingsError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

# Key words that separate these random streams from all others of the same seed.
_ITEMS_STREAM = 0x56
_BASES_STREAM = 0x57


def draw_initial_items(
    n_items: int, factors: int, scale: float, seed: int, head_start: float = 0.0
) -> Float32:
    """Draw the first V: independent normal entries of standard deviation `scale`.

    If `head_start` is not 0, every entry of the first factor is `head_start * scale` instead.
    """
    stream = np.random.Generator(np.random.Philox(key=[seed, _ITEMS_STREAM]))
    V = scale * stream.standard_normal((n_items, factors))
    if head_start:
        # The leading singular vectors of a 0/1 matrix have no negative entries, so a power
        # iteration should start from a constant. Then the first reports of all people agree, and
        # popularity is learnt in one epoch.
        V[:, 0] = head_start * scale
    return V.astype(np.float32)


def rotate_factors(V: Float32, seed: int, epoch: int) -> Float32:
    """Return V in another orthonormal basis of the factors, drawn uniformly for each epoch.

    Scores do not change, since user vectors are solved in the new basis. But a reported sign says
    more about the factors in which a user vector is large than about the others, and the basis
    decides which factors these are. A new basis in every epoch treats all people alike.
    """
    factors = V.shape[1]
    basis = draw_factor_basis(factors, seed, epoch)
    wide = V.astype(np.float64)
    rotated = wide[:, :1] * basis[:1]
    for f in range(1, factors):
        rotated = rotated + wide[:, f : f + 1] * basis[f : f + 1]
    return rotated.astype(np.float32)


def draw_factor_basis(factors: int, seed: int, epoch: int) -> Float64:
    """Draw the orthonormal basis of an epoch, one vector in each row."""
    key, counter = [seed, _BASES_STREAM], [0, 0, 0, epoch]
    stream = np.random.Generator(np.random.Philox(key=key, counter=counter))
    # Orthonormalised normal rows are uniformly distributed.
    return _orthonormalize(stream.standard_normal((factors, factors)))


def _orthonormalize(rows: Float64) -> Float64:
    """Make rows orthonormal in place, by Gram-Schmidt."""
    # numpy's QR decomposition is not used, because its last bits differ between machines.
    for i in range(len(rows)):
        for _ in range(2):  # two passes make rows orthogonal up to rounding
            for j in range(i):
                rows[i] -= (rows[i] * rows[j]).sum() * rows[j]
        rows[i] /= np.sqrt((rows[i] * rows[i]).sum())
    return rows


def compute_gram(V: Float32) -> Float64:
    """Return `G = V^T V`, which all users share.

    It is computed once in an epoch. Then the equations of a user with n_u items take O(n_u F^2)
    operations instead of O(M F^2) as in the paper.
    """
    wide = V.astype(np.float64)
    # cumsum adds one row after the other; sum() and matmul choose their own order. The last row is
    # copied, because a view of it would keep all M rows of each factor in memory, M F^2 numbers
    # together.
    rows = [np.cumsum(wide * wide[:, f : f + 1], axis=0)[-1].copy() for f in range(V.shape[1])]
    return np.stack(rows, axis=0)


def sum_squares(numbers: NDArray[np.floating]) -> float:
    """Return the sum of the squared numbers, in the same order on every machine."""
    return float(np.cumsum(np.square(numbers, dtype=np.float64).ravel())[-1])


def solve_user_vectors(
    V: Float32, histories: Histories, *, alpha: float, regularization: float
) -> Float32:
    """Solve equation (4) for all users, and return their vectors, N x F.

    `x = (G + alpha sum v v^T + lambda I)^-1 (1 + alpha) sum v`, where the sums are over the user's
    own items. The vector of a user without a history, or without a usable solution, is zero:
    `sottovoce.core.bounds` explains why this function must not fail.
    """
    factors, n = V.shape[1], histories.n_users
    users = histories.users_of_entries()
    own = V[histories.indices].astype(np.float64)

    def by_user(values: Float64) -> Float64:
        """Return the sum of the values over each user's items."""
        # bincount adds in the order of its input.
        return np.asarray(np.bincount(users, weights=values, minlength=n), np.float64)

    G, system = compute_gram(V), np.zeros((n, factors, factors))
    for i in range(factors):
        for j in range(i + 1):
            system[:, i, j] = G[i, j] + alpha * by_user(own[:, i] * own[:, j])
        system[:, i, i] += regularization
    right = np.stack([(1.0 + alpha) * by_user(own[:, f]) for f in range(factors)], axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return zero_unusable_vectors(solve_systems(system, right).astype(np.float32))


def solve_systems(system: Float64, right: Float64) -> Float64:
    """Solve small positive definite systems by Cholesky decomposition, in a fixed order.

    Only the lower triangles of `system` are used, and they are overwritten.
    """
    lower, x = system, right.copy()
    size = right.shape[1]
    # Column k is subtracted from all later columns at once. Every entry loses the same products in
    # the same order as in a loop over single entries, which would take seconds on a device with 256
    # factors.
    for k in range(size):
        lower[:, k, k] = np.sqrt(lower[:, k, k])
        lower[:, k + 1 :, k] /= lower[:, k, k, None]
        column = lower[:, k + 1 :, k]
        lower[:, k + 1 :, k + 1 :] -= column[:, :, None] * column[:, None, :]
    for k in range(size):
        x[:, k] /= lower[:, k, k]
        x[:, k + 1 :] -= lower[:, k + 1 :, k] * x[:, k, None]
    for i in reversed(range(size)):
        products = lower[:, i + 1 :, i] * x[:, i + 1 :]
        terms = np.concatenate([x[:, i, None], products], axis=1)
        x[:, i] = np.subtract.accumulate(terms, axis=1)[:, -1] / lower[:, i, i]
    return x


def predict(X: Float32, rows: Float32) -> Float32:
    """Return the inner products `x . v`, added factor by factor in float32.

    Args:
        X: User vectors, (..., F).
        rows: Rows of V, (..., F). They broadcast with `X`.
    """
    total = X[..., 0] * rows[..., 0]
    for f in range(1, X.shape[-1]):
        total = total + X[..., f] * rows[..., f]
    return np.asarray(total, dtype=np.float32)


def compute_residuals(V: Float32, X: Float32, histories: Histories, *, alpha: float) -> Float32:
    """Return the dense residuals `e = c (p - V x)`, N x M."""
    p = np.zeros((histories.n_users, histories.n_items), np.float32)
    p[histories.users_of_entries(), histories.indices] = 1
    c = np.float32(1) + np.float32(alpha) * p
    return np.asarray(c * (p - predict(X[:, None, :], V[None, :, :])), dtype=np.float32)


def compute_gradients(e: Float32, X: Float32) -> Float32:
    """Return the gradients of equation (6), one for each user: `g[i, f] = -2 e_i x_f`, N x M x F.

    The factor -2 is missing in the paper's equation (5). Without the minus sign, Algorithm 2 would
    increase the loss.
    """
    return np.asarray((np.float32(-2) * e)[:, :, None] * X[:, None, :], dtype=np.float32)


def update_items(
    V: Float32,
    estimate: Float64,
    *,
    rate: float,
    steps: int,
    regularization: float,
    fade: float = 1.0,
) -> Float32:
    """Apply the last line of Algorithm 2: `V <- V - rate (g + 2 lambda V)`, `steps` times.

    Args:
        V: The item matrix.
        estimate: The estimated mean gradient g, M x F. All steps use the same estimate, because
            another one would need more reports, which cost privacy.
        rate: The learning rate: the factor of the gradient in each step.
        steps: Number of steps, at least 1.
        regularization: Lambda of the items.
        fade: Factor that V is multiplied by before the first step, so that old reports lose weight.

    Raises:
        DivergedError: An entry would exceed what devices accept.
        SettingsError: `steps` is below 1.
    """
    if steps < 1:
        raise SettingsError(f"steps must be at least 1, got {steps}")
    wide = fade * V.astype(np.float64)
    for _ in range(steps):
        wide = wide - rate * (estimate + 2.0 * regularization * wide)
    if not (np.abs(wide) <= compute_max_entry(V.shape[1])).all():
        raise build_diverged_error(rate)
    return wide.astype(np.float32)


def compute_max_entry(factors: int) -> float:
    """Return the largest |entry| of V that an update may produce.

    It is `MAX_ITEM_ENTRY` divided by the square root of F, because `rotate_factors` can make an
    entry larger by up to this factor.
    """
    return float(MAX_ITEM_ENTRY / np.sqrt(factors))


def build_diverged_error(rate: float) -> DivergedError:
    """Build the error for an update that exceeds `compute_max_entry`."""
    return DivergedError(
        f"the item matrix is beyond what devices accept ({MAX_ITEM_ENTRY:g}) after an update with "
        f"rate {rate}: lower the learning rate"
    )
