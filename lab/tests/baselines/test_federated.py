"""FCF: exact gradients, the line search, and the minimum that it reaches."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sottovoce.core import Histories, draw_initial_items, solve_user_vectors
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.data import synthetic_people
from sottovoce.training import Settings
from sottovoce_lab.baselines import FCF, models
from sottovoce_lab.baselines.federated import MeanGradient, compute_mean_gradient
from sottovoce_lab.baselines.models import solve_device_vectors

ALPHA = 2.0
REGULARIZATION = 0.05


@pytest.fixture(scope="module")
def people() -> Histories:
    return synthetic_people(n_users=150, n_items=40, seed=3).histories


@pytest.fixture(scope="module", name="V")
def make_items() -> np.ndarray:
    return draw_initial_items(40, 3, 0.5, 0)


@pytest.fixture(scope="module", name="X")
def solve_users(V: np.ndarray, people: Histories) -> np.ndarray:
    return solve_user_vectors(V, people, alpha=ALPHA, regularization=REGULARIZATION)


def average(V: np.ndarray, people: Histories) -> MeanGradient:
    crowd = [block.to_csr().astype(np.float64) for block in models.split_into_blocks(people)]
    with ThreadPoolExecutor(2) as pool:
        return compute_mean_gradient(
            V, crowd, alpha=ALPHA, regularization=REGULARIZATION, pool=pool
        )


def compute_mean_loss(V: np.ndarray, X: np.ndarray, people: Histories) -> float:
    """Return the loss that the server minimises while all user vectors are fixed."""
    P = people.to_csr().toarray()
    error = (1 + ALPHA * P) * (P - X.astype(np.float64) @ V.astype(np.float64).T) ** 2
    return float(error.sum() / people.n_users + REGULARIZATION * (V.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize("users_per_block", [7, 8192])
def test_the_mean_gradient_is_the_mean_of_the_gradients_of_the_model(
    V: np.ndarray,
    X: np.ndarray,
    people: Histories,
    users_per_block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "USERS_PER_BLOCK", users_per_block)
    gradients = compute_gradients(compute_residuals(V, X, people, alpha=ALPHA), X)
    mean = average(V, people).gradient
    assert mean == pytest.approx(gradients.mean(axis=0, dtype=np.float64), abs=1e-6)
    assert np.abs(mean).max() > 0.01


def test_the_step_minimises_the_loss(V: np.ndarray, X: np.ndarray, people: Histories) -> None:
    mean = average(V, people)
    downhill = mean.gradient + 2 * REGULARIZATION * V
    best = mean.find_best_step(V, REGULARIZATION)
    losses = [compute_mean_loss(V - t * best * downhill, X, people) for t in (0.0, 0.9, 1.0, 1.1)]
    assert min(losses) == losses[2]
    assert losses[2] < 0.95 * losses[0]


def test_the_step_is_zero_where_the_gradient_is_zero() -> None:
    mean = MeanGradient(np.zeros((2, 1)), np.zeros((2, 1, 1)))
    assert mean.find_best_step(np.zeros((2, 1), np.float32), 0.0) == 0.0


def test_devices_are_solved_block_by_block_to_the_same_bits(
    V: np.ndarray, X: np.ndarray, people: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "USERS_PER_BLOCK", 7)
    in_blocks = solve_device_vectors(V, people, alpha=ALPHA, regularization=REGULARIZATION)
    assert np.array_equal(in_blocks, X)


def test_training_ends_where_alternating_least_squares_does(people: Histories) -> None:
    V = FCF.fit(people, Settings.preset("paper", factors=1, alpha=ALPHA, epochs=60)).V
    X = solve_user_vectors(V, people, alpha=ALPHA, regularization=1e-6)
    P, x = people.to_csr().toarray(), X[:, 0].astype(np.float64)
    c = 1 + ALPHA * P
    best = (c * P * x[:, None]).sum(axis=0) / (c * (x * x)[:, None]).sum(axis=0)
    assert V[:, 0] == pytest.approx(best, rel=1e-3)
