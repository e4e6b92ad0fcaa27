"""The equations, compared with their definitions in dense float64."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import (
    Histories,
    compute_gram,
    draw_initial_items,
    predict,
    rotate_factors,
    solve_user_vectors,
    update_items,
)
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.errors import DivergedError, SettingsError
from tests.people import histories, random_people


def solve_densely(
    V: np.ndarray, items: np.ndarray, alpha: float, regularization: float
) -> np.ndarray:
    """Solve equation (4) as the paper writes it, with the M x M matrix C."""
    p = np.zeros(len(V))
    p[items] = 1
    C = np.diag(1 + alpha * p)
    wide = V.astype(np.float64)
    left = wide.T @ C @ wide + regularization * np.eye(V.shape[1])
    return np.linalg.solve(left, wide.T @ C @ p)


@given(
    histories(max_items=20),
    st.integers(1, 6),
    st.floats(0, 10),
    st.integers(0, 2**32),
)
def test_user_vectors_solve_equation_4(h: Histories, factors: int, alpha: float, seed: int) -> None:
    V = draw_initial_items(h.n_items, factors, 1.0, seed)
    X = solve_user_vectors(V, h, alpha=alpha, regularization=0.1)
    for user in range(h.n_users):
        expected = solve_densely(V, h[user], alpha, 0.1)
        assert X[user] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_gradient_is_the_derivative_of_the_loss() -> None:
    h = random_people(3, 6, seed=5)
    V = draw_initial_items(6, 2, 0.5, 5)
    X = solve_user_vectors(V, h, alpha=1.5, regularization=0.1)
    g = compute_gradients(compute_residuals(V, X, h, alpha=1.5), X)

    def loss(user: int, W: np.ndarray) -> float:
        p = np.zeros(6)
        p[h[user]] = 1
        return float(((1 + 1.5 * p) * (p - W @ X[user].astype(float)) ** 2).sum())

    step = 1e-6
    for user in range(3):
        for i in range(6):
            for f in range(2):
                up, down = V.astype(float), V.astype(float)
                up[i, f] += step
                down[i, f] -= step
                slope = (loss(user, up) - loss(user, down)) / (2 * step)
                assert g[user, i, f] == pytest.approx(slope, abs=1e-4)


def test_gram_needs_the_memory_of_v() -> None:
    # A server chooses M and F, so M F^2 numbers at once would exhaust a device's memory.
    V = np.ones((2_000, 64), np.float32)
    tracemalloc.start()
    compute_gram(V)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * V.nbytes


# Item matrices and ridges.
UNSOLVABLE_MODELS = {
    "zero": (np.zeros((4, 2)), 0.0),
    "two equal factors": (np.full((4, 2), 2.0**20), 1e-12),
    "too long": (np.full((4, 2), 1e-30) * np.eye(4, 2), 0.0),
    "a NaN": (np.full((4, 2), np.nan), 1e-6),
    "an infinity": (np.full((4, 2), np.inf), 1e-6),
}


@pytest.mark.parametrize(("V", "ridge"), UNSOLVABLE_MODELS.values(), ids=UNSOLVABLE_MODELS)
def test_vector_without_a_usable_solution_is_zero(V: np.ndarray, ridge: float) -> None:
    h = Histories.from_lists([[0, 1], [], [2]], 4)
    with np.errstate(all="ignore"):
        X = solve_user_vectors(V.astype(np.float32), h, alpha=1, regularization=ridge)
    assert X[0].tolist() == X[1].tolist() == [0, 0]


def test_all_steps_of_an_update_use_the_same_estimate() -> None:
    V, g = draw_initial_items(3, 2, 1.0, 0), np.ones((3, 2))
    expected = V.astype(float)
    for _ in range(20):
        expected = expected - 0.1 * (g + 2 * 0.5 * expected)
    updated = update_items(V, g, rate=0.1, steps=20, regularization=0.5)
    assert updated == pytest.approx(expected, rel=1e-6)
    with pytest.raises(SettingsError):
        update_items(V, g, rate=0.1, steps=0, regularization=0)
    with pytest.raises(DivergedError, match=r"1e\+300"):
        update_items(V, g, rate=1e300, steps=1, regularization=0)


def test_first_item_matrix_depends_only_on_the_seed() -> None:
    a, b = draw_initial_items(5, 2, 0.1, 7), draw_initial_items(5, 2, 0.1, 7)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, draw_initial_items(5, 2, 0.1, 8))
    with_head = draw_initial_items(5, 2, 0.1, 7, head_start=3)
    assert (with_head[:, 0] == np.float32(0.1 * 3)).all()
    assert np.array_equal(with_head[:, 1], a[:, 1])


@given(st.integers(1, 9), st.integers(0, 2**32), st.integers(0, 50))
def test_rotation_does_not_change_scores(factors: int, seed: int, epoch: int) -> None:
    h = random_people(5, 12, seed=1)
    V = draw_initial_items(12, factors, 0.5, seed)
    rotated = rotate_factors(V, seed, epoch)
    assert compute_gram(rotated.T.copy()) == pytest.approx(compute_gram(V.T.copy()), abs=1e-4)
    before, after = (
        predict(solve_user_vectors(W, h, alpha=1, regularization=0.1)[:, None], W[None])
        for W in (V, rotated)
    )
    assert after == pytest.approx(before, abs=1e-3)


def test_bases_are_independent_and_uniform() -> None:
    # The first basis vector has mean 0 and covariance I / F, to 5 standard errors; fixed seed.
    V = np.eye(3, dtype=np.float32)
    bases = np.array([rotate_factors(V, 1, epoch) for epoch in range(4000)], float)
    assert np.abs(bases.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / 4000)
    first = bases[:, 0, :]
    covariance = first.T @ first / 4000
    assert np.abs(covariance - np.eye(3) / 3).max() < 5 * np.sqrt(2 / 15 / 4000)
