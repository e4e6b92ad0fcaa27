from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.mechanism import Hadamard, Rotation, Shape
from sottovoce.model import Histories, gradients, initial_items, residuals, user_vectors
from tests.people import histories, random_people


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32))
def test_exact_shares_invert_to_the_gradient(n_items: int, factors: int, seed: int) -> None:
    rotation = Rotation(Shape(n_items, factors, 1.0), seed)
    g = np.random.default_rng(seed).standard_normal((n_items, factors))
    shares = rotation.forward(g)
    assert shares.shape == (rotation.rows, rotation.columns)
    assert np.abs(rotation.backward(shares) / rotation.n_directions - g).max() < 1e-9


@given(histories(max_items=150), st.integers(1, 5))
def test_rows_and_columns_factorise_the_rotated_gradient(h: Histories, factors: int) -> None:
    """`-2 a_r b_q`, computed in O(n_u + F) a row, is the dense gradient's share."""
    V = initial_items(h.n_items, factors, 0.5, 3)
    X = user_vectors(V, h, alpha=1.5, regularization=0.1)
    rotation = Rotation(Shape(h.n_items, factors, 1.5), 9)
    dense = rotation.forward(gradients(residuals(V, X, h, alpha=1.5), X).astype(np.float64))
    a, b = rotation.all_rows(V, X, h), rotation.user_columns(X)
    rows = np.tile(np.arange(rotation.rows), (h.n_users, 1))
    assert rotation.some_rows(V, X, h, rows) == pytest.approx(a, rel=1e-4, abs=1e-4)
    assert -2.0 * a[:, :, None] * b[:, None, :] == pytest.approx(dense, rel=1e-3, abs=1e-3)


def test_hadamard_reports_the_sign_of_the_share_through_the_coin() -> None:
    """With a huge epsilon the coin never flips here: every report is the true sign."""
    h = random_people(20, 30, seed=1)
    h = h.take(np.flatnonzero(np.diff(h.indptr) > 0))
    V = initial_items(30, 3, 0.5, 3)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    mechanism = Hadamard(Shape(30, 3, 1.0), 40.0, 9)
    words = np.random.default_rng(0).integers(0, 2**64, (h.n_users, 101, 4), dtype=np.uint64)
    reports = mechanism.reports(V, X, h, words)
    dense = mechanism.rotation.forward(gradients(residuals(V, X, h, alpha=1.0), X).astype(float))
    shares = dense.reshape(h.n_users, -1)[np.arange(h.n_users)[:, None], reports >> 1]
    clear = np.abs(shares) > 1e-4
    assert clear.mean() > 0.9
    assert np.array_equal((shares > 0)[clear], (reports & 1 == 1)[clear])


def test_a_zero_gradient_gets_a_random_sign() -> None:
    """5 sigma of 20,000 fair coins; fixed seed."""
    h = Histories.from_lists([[]], 30)
    mechanism = Hadamard(Shape(30, 3, 1.0), 40.0)
    V = initial_items(30, 3, 0.5, 3)
    words = np.random.default_rng(0).integers(0, 2**64, (1, 20_001, 4), dtype=np.uint64)
    reports = mechanism.reports(V, np.zeros((1, 3), np.float32), h, words)
    assert abs((reports & 1).mean() - 0.5) < 5 * 0.5 / np.sqrt(20_000)


@pytest.mark.parametrize("epsilon", [0.5, 2.5])
def test_the_coin_flips_as_often_as_it_must(epsilon: float) -> None:
    """5 sigma of 400,000 reports; fixed seed."""
    h = random_people(40, 16, seed=1)
    V = initial_items(16, 2, 0.5, 3)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    words = np.random.default_rng(7).integers(0, 2**64, (40, 10_001, 4), dtype=np.uint64)
    shape = Shape(16, 2, 1.0)
    honest = Hadamard(shape, 40.0).reports(V, X, h, words)
    flipped = Hadamard(shape, epsilon).reports(V, X, h, words) != honest
    expected = 1 / (1 + np.exp(epsilon))
    sigma = np.sqrt(expected * (1 - expected) / flipped.size)
    assert abs(flipped.mean() - expected) < 5 * sigma
