"""MF-NP: implicit minimises the paper's loss, and its V ranks what it must."""

from __future__ import annotations

import numpy as np
import pytest

from lab.tests.baselines.blocks import own_block_first, two_blocks
from sottovoce.core import Histories, residuals, user_vectors
from sottovoce_lab.baselines import MatrixFactorization

ALPHA, LAMBDA = 3.0, 0.1


def loss(model: MatrixFactorization, train: Histories) -> float:
    """The paper's (2): confidence times squared error, and the regularisation of both sides."""
    X, V = model.factors()
    error = residuals(V, X, train, alpha=0.0).astype(np.float64)
    confidence = 1 + ALPHA * train.to_csr().toarray()
    return float((confidence * error**2).sum() + LAMBDA * ((X**2).sum() + (V**2).sum()))


def fit(train: Histories, factors: int, iterations: int) -> MatrixFactorization:
    return MatrixFactorization.fit(
        train, factors=factors, alpha=ALPHA, regularization=LAMBDA, iterations=iterations,
        seed=2, threads=1,
    )  # fmt: skip


def test_own_block_comes_first() -> None:
    train = two_blocks()
    assert own_block_first(fit(train, 2, 20), train)


def test_the_loss_decreases() -> None:
    train = two_blocks()
    losses = [loss(fit(train, 2, iterations), train) for iterations in (1, 2, 5, 20)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


def test_a_dense_solver_finds_nothing_to_improve() -> None:
    """After many iterations V is a fixed point of ALS written in dense numpy."""
    train = Histories.from_lists([[0, 1], [0, 1, 2], [3, 4], [2, 3, 4], [0, 4], [1, 2]], 5)
    X, V = (each.astype(np.float64) for each in fit(train, 2, 500).factors())
    P = train.to_csr().toarray().astype(np.float64)
    better = np.stack([_row(X, P[:, i]) for i in range(5)])
    assert np.stack([_row(V, P[u]) for u in range(6)]) == pytest.approx(X, abs=1e-5)
    assert better == pytest.approx(V, abs=2e-3)
    assert np.abs(V).max() > 0.3


def _row(fixed: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The best vector for one row of preferences, the other side held still."""
    c = np.diag(1 + ALPHA * p)
    system = fixed.T @ c @ fixed + LAMBDA * np.eye(fixed.shape[1])
    return np.asarray(np.linalg.solve(system, fixed.T @ c @ p))


def test_users_are_solved_as_on_a_device() -> None:
    train = two_blocks()
    X, V = fit(train, 2, 3).factors()
    assert np.array_equal(X, user_vectors(V, train, alpha=ALPHA, regularization=LAMBDA))


def test_scores_are_products() -> None:
    model = fit(two_blocks(), 2, 3)
    users = np.array([3, 0])
    assert model.scores(users) == pytest.approx(model.X[users] @ model.V.T)
