"""MF-NP and FCF: alternating least squares, and the descent that ends where it does."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lab.tests.baselines.blocks import two_blocks
from sottovoce.core import Histories, draw_initial_items, solve_user_vectors
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.data import synthetic_people
from sottovoce.training import Settings
from sottovoce_lab.baselines import FCF, MatrixFactorization, models
from sottovoce_lab.baselines.federated import MeanGradient, compute_mean_gradient
from sottovoce_lab.baselines.models import solve_device_vectors

ALS_ALPHA, ALS_LAMBDA = 3.0, 0.1


def fit(train: Histories, factors: int, iterations: int) -> MatrixFactorization:
    return MatrixFactorization.fit(
        train, factors=factors, alpha=ALS_ALPHA, regularization=ALS_LAMBDA, iterations=iterations,
        seed=2, threads=1,
    )  # fmt: skip


def test_a_dense_solver_finds_nothing_to_improve() -> None:
    """After many iterations V is a fixed point of ALS written in dense numpy."""
    train = Histories.from_lists([[0, 1], [0, 1, 2], [3, 4], [2, 3, 4], [0, 4], [1, 2]], 5)
    X, V = (each.astype(np.float64) for each in fit(train, 2, 500).get_factors())
    P = train.to_csr().toarray().astype(np.float64)
    better = np.stack([_row(X, P[:, i]) for i in range(5)])
    assert np.stack([_row(V, P[u]) for u in range(6)]) == pytest.approx(X, abs=1e-5)
    assert better == pytest.approx(V, abs=2e-3)
    assert np.abs(V).max() > 0.3


def _row(fixed: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The best vector for one row of preferences, the other side held still."""
    c = np.diag(1 + ALS_ALPHA * p)
    system = fixed.T @ c @ fixed + ALS_LAMBDA * np.eye(fixed.shape[1])
    return np.asarray(np.linalg.solve(system, fixed.T @ c @ p))


def test_users_are_solved_as_on_a_device() -> None:
    train = two_blocks()
    X, V = fit(train, 2, 3).get_factors()
    assert np.array_equal(
        X, solve_user_vectors(V, train, alpha=ALS_ALPHA, regularization=ALS_LAMBDA)
    )


ALPHA, LAMBDA = 2.0, 0.05
SETTINGS = Settings.preset(
    "paper", factors=3, alpha=ALPHA, regularization=LAMBDA, epochs=20, steps=20
)


@pytest.fixture(scope="module")
def people() -> Histories:
    return synthetic_people(n_users=150, n_items=40, seed=3).histories


def mean_of(V: np.ndarray, people: Histories) -> MeanGradient:
    crowd = [some.to_csr().astype(np.float64) for some in models.split_into_blocks(people)]
    with ThreadPoolExecutor(2) as pool:
        return compute_mean_gradient(V, crowd, alpha=ALPHA, regularization=LAMBDA, pool=pool)


def mean_loss(V: np.ndarray, X: np.ndarray, people: Histories) -> float:
    """What the server descends, with everybody's vector held still."""
    P = people.to_csr().toarray()
    error = (1 + ALPHA * P) * (P - X.astype(np.float64) @ V.astype(np.float64).T) ** 2
    return float(error.sum() / people.n_users + LAMBDA * (V.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize("users_per_block", [7, 8192])
def test_the_mean_gradient_is_the_mean_of_the_models(
    people: Histories, users_per_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "USERS_PER_BLOCK", users_per_block)
    V = draw_initial_items(40, 3, 0.5, 0)
    X = solve_user_vectors(V, people, alpha=ALPHA, regularization=LAMBDA)
    each = compute_gradients(compute_residuals(V, X, people, alpha=ALPHA), X)
    found = mean_of(V, people).gradient
    assert found == pytest.approx(each.mean(axis=0, dtype=np.float64), abs=1e-6)
    assert np.abs(found).max() > 0.01


def test_the_step_is_where_the_loss_is_least(people: Histories) -> None:
    V = draw_initial_items(40, 3, 0.5, 0)
    X = solve_user_vectors(V, people, alpha=ALPHA, regularization=LAMBDA)
    mean = mean_of(V, people)
    downhill = mean.gradient + 2 * LAMBDA * V
    best = mean.find_best_step(V, LAMBDA)
    losses = [mean_loss(V - t * best * downhill, X, people) for t in (0.0, 0.9, 1.0, 1.1)]
    assert min(losses) == losses[2]
    assert losses[2] < 0.95 * losses[0]


def test_at_rest_there_is_no_step() -> None:
    still = MeanGradient(np.zeros((2, 1)), np.zeros((2, 1, 1)))
    assert still.find_best_step(np.zeros((2, 1), np.float32), 0.0) == 0.0


def test_devices_are_solved_block_by_block_to_the_same_bits(
    people: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    V = draw_initial_items(40, 3, 0.5, 0)
    whole = solve_user_vectors(V, people, alpha=ALPHA, regularization=LAMBDA)
    monkeypatch.setattr(models, "USERS_PER_BLOCK", 7)
    assert np.array_equal(
        solve_device_vectors(V, people, alpha=ALPHA, regularization=LAMBDA), whole
    )


def test_it_ends_where_alternating_least_squares_does(people: Histories) -> None:
    V = FCF.fit(people, Settings.preset("paper", factors=1, alpha=ALPHA, epochs=60)).V
    X = solve_user_vectors(V, people, alpha=ALPHA, regularization=1e-6)
    P, x = people.to_csr().toarray(), X[:, 0].astype(np.float64)
    c = 1 + ALPHA * P
    best = (c * P * x[:, None]).sum(axis=0) / (c * (x * x)[:, None]).sum(axis=0)
    assert V[:, 0] == pytest.approx(best, rel=1e-3)
