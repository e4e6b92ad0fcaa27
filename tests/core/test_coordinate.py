"""`coordinate`: the frequencies of Algorithm 1, and its unbiased mean."""

from math import exp

import numpy as np
import pytest

from sottovoce.core import Histories, Shape, draw_initial_items, solve_user_vectors, sum_signs
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.model import compute_gradients, compute_residuals
from tests.people import random_people


def make_one_entry(value: float) -> tuple[np.ndarray, np.ndarray, Histories]:
    """Make one item, factor and person with the gradient `value`: -2 (p - x v) x with p = 0."""
    x = np.float32(1)
    v = np.float32(value / 2)
    return np.array([[v]]), np.array([[x]]), Histories.from_lists([[]], 1)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("value", [-3.0, -1.0, -0.4, 0.0, 0.05, 0.7, 1.0, 2.0])
def test_frequencies_are_those_of_algorithm_1(epsilon: float, value: float) -> None:
    """P[+] must be (v (e^eps - 1) + e^eps + 1) / (2 e^eps + 2), to 5 sigma of 200,000 draws.

    With 40 cases, a false alarm has a probability of 2e-5; the seed is fixed.
    """
    n = 200_000
    V, X, h = make_one_entry(value)
    words = np.random.default_rng(1).integers(0, 2**64, (1, n + 1, 4), dtype=np.uint64)
    reports = Coordinate(Shape(1, 1, 1.0), epsilon).reports(V, X, h, words)
    clipped = min(max(value, -1.0), 1.0)
    expected = (clipped * (exp(epsilon) - 1) + exp(epsilon) + 1) / (2 * exp(epsilon) + 2)
    sigma = np.sqrt(expected * (1 - expected) / n)
    assert abs((reports & 1).mean() - expected) < 5 * sigma


def test_estimate_of_the_mean_clipped_gradient_is_unbiased() -> None:
    # Every entry is within 5 standard errors, and the 12 x 3 z-scores vary as they should.
    h = random_people(60, 12, seed=3)
    V = draw_initial_items(12, 3, 0.4, 2)
    X = solve_user_vectors(V, h, alpha=1.0, regularization=1e-6)
    mechanism = Coordinate(Shape(12, 3, 1.0), 1.0)
    words = np.random.default_rng(5).integers(0, 2**64, (60, 20_001, 4), dtype=np.uint64)
    reports = mechanism.reports(V, X, h, words)
    estimate = mechanism.estimate(sum_signs(reports, mechanism.n_directions), reports.size)
    true = np.clip(compute_gradients(compute_residuals(V, X, h, alpha=1.0), X), -1, 1).mean(axis=0)
    standard_error = mechanism.bound / np.sqrt(mechanism.n_directions * reports.size)
    z = (estimate - true) / standard_error
    assert np.abs(z).max() < 5
    assert 0.5 < z.std() < 1.5
