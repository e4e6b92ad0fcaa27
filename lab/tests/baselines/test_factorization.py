"""MF-NP: alternating least squares, compared with a dense solver."""

import numpy as np
import pytest

from lab.tests.baselines.blocks import two_blocks
from sottovoce.core import Histories, solve_user_vectors
from sottovoce_lab.baselines import MatrixFactorization

ALPHA = 3.0
REGULARIZATION = 0.1


def fit(train: Histories, iterations: int) -> MatrixFactorization:
    return MatrixFactorization.fit(
        train, factors=2, alpha=ALPHA, regularization=REGULARIZATION, iterations=iterations,
        seed=2, threads=1,
    )  # fmt: skip


def solve_row(fixed: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the best vector for one row of preferences while the other side is fixed."""
    c = np.diag(1 + ALPHA * p)
    system = fixed.T @ c @ fixed + REGULARIZATION * np.eye(fixed.shape[1])
    return np.asarray(np.linalg.solve(system, fixed.T @ c @ p))


def test_after_many_iterations_a_dense_solver_changes_nothing() -> None:
    train = Histories.from_lists([[0, 1], [0, 1, 2], [3, 4], [2, 3, 4], [0, 4], [1, 2]], 5)
    X, V = (vectors.astype(np.float64) for vectors in fit(train, 500).get_factors())
    P = train.to_csr().toarray().astype(np.float64)
    assert np.stack([solve_row(V, P[u]) for u in range(6)]) == pytest.approx(X, abs=1e-5)
    assert np.stack([solve_row(X, P[:, i]) for i in range(5)]) == pytest.approx(V, abs=2e-3)
    assert np.abs(V).max() > 0.3


def test_user_vectors_are_those_of_a_device() -> None:
    train = two_blocks()
    X, V = fit(train, 3).get_factors()
    expected = solve_user_vectors(V, train, alpha=ALPHA, regularization=REGULARIZATION)
    assert np.array_equal(X, expected)
