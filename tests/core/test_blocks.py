"""Blocks: directions, their transforms and their public order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core import Histories, Shape, draw_initial_items, solve_user_vectors
from sottovoce.core.blocks import Blocks, compute_public_keys
from sottovoce.core.model import compute_gradients, compute_residuals
from tests.people import histories, random_people

sizes = st.sampled_from([1, 2, 8, 64, 256])


@given(st.integers(1, 40), st.integers(1, 9), sizes, st.integers(0, 2**32))
def test_backward_inverts_forward(n: int, factors: int, size: int, seed: int) -> None:
    blocks = Blocks(Shape(n, factors, 1.0), seed, size)
    g = np.random.default_rng(seed).standard_normal((n, factors))
    shares = blocks.forward(g)
    assert shares.shape == (blocks.rows, factors)
    assert blocks.rows % size == 0
    assert blocks.rows - size < n <= blocks.rows
    assert np.abs(blocks.backward(shares) / size - g).max() < 1e-9


@given(histories(max_items=150), st.integers(1, 5), sizes)
@settings(max_examples=40)
def test_rows_times_factors_equal_the_transformed_gradient(
    h: Histories, factors: int, size: int
) -> None:
    """`-2 a_r x_f` is computed from touched items only; compare it with the dense gradient."""
    V = draw_initial_items(h.n_items, factors, 0.5, 3)
    X = solve_user_vectors(V, h, alpha=1.5, regularization=0.1)
    blocks = Blocks(Shape(h.n_items, factors, 1.5), 9, size)
    dense = blocks.forward(
        compute_gradients(compute_residuals(V, X, h, alpha=1.5), X).astype(np.float64)
    )
    a = blocks.compute_rows(V, X, h)
    assert -2.0 * a[:, :, None] * X[:, None, :] == pytest.approx(dense, rel=1e-3, abs=1e-3)


def test_pieces_do_not_change_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    h, V = random_people(30, 90, seed=2), draw_initial_items(90, 2, 0.5, 3)
    X = solve_user_vectors(V, h, alpha=1.0, regularization=1e-6)
    blocks = Blocks(Shape(90, 2, 1.0), 9, 16)
    whole = blocks.compute_rows(V, X, h)
    monkeypatch.setattr("sottovoce.core.blocks.NUMBERS_PER_PIECE", 16 * 7)
    assert np.array_equal(blocks.compute_rows(V, X, h), whole)


def test_public_keys_are_pinned() -> None:
    # Every client must compute the same keys.
    keys = compute_public_keys(1, 9)
    assert keys.tolist()[:4] == FIRST_KEYS
    assert np.array_equal(keys[:5], compute_public_keys(1, 5))


@pytest.mark.parametrize("size", [1, 4, 32])
def test_estimates_are_equally_long_for_all_block_sizes(size: int) -> None:
    """Compare the estimate of one direction that is reported 50 times."""
    blocks = Blocks(Shape(64, 2, 1.0), 5, size)
    sums = np.zeros(blocks.n_directions, np.int64)
    sums[7] = 50
    assert np.linalg.norm(blocks.mean_direction(sums, 50, 1.0)) == pytest.approx(np.sqrt(128))


FIRST_KEYS = [3523349912, 1015827666, 2202391125, 1108596588]
