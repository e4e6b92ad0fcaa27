"""Algorithm 1: its frequencies, and that its mean is unbiased."""

from math import exp

import numpy as np
import pytest

from sottovoce.core import Histories, Shape, initial_items, sum_signs, user_vectors
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.model import gradients, residuals
from tests.people import random_people


def one_entry(value: float) -> tuple[np.ndarray, np.ndarray, Histories]:
    """One item, one factor, one person whose gradient is `value`: -2 (p - x v) x with p = 0."""
    x = np.float32(1)
    v = np.float32(value / 2)
    return np.array([[v]]), np.array([[x]]), Histories.from_lists([[]], 1)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("value", [-3.0, -1.0, -0.4, 0.0, 0.05, 0.7, 1.0, 2.0])
def test_frequencies_are_algorithm_ones(epsilon: float, value: float) -> None:
    """P[+] = (v (e^eps - 1) + e^eps + 1) / (2 e^eps + 2), to 5 sigma of 200,000 draws.

    40 cases at 5 sigma: a false alarm in 2e-5 of seeds; this seed is fixed.
    """
    n = 200_000
    V, X, h = one_entry(value)
    words = np.random.default_rng(1).integers(0, 2**64, (1, n + 1, 4), dtype=np.uint64)
    reports = Coordinate(Shape(1, 1, 1.0), epsilon).reports(V, X, h, words)
    clipped = min(max(value, -1.0), 1.0)
    expected = (clipped * (exp(epsilon) - 1) + exp(epsilon) + 1) / (2 * exp(epsilon) + 2)
    sigma = np.sqrt(expected * (1 - expected) / n)
    assert abs((reports & 1).mean() - expected) < 5 * sigma


def test_the_estimator_is_unbiased_for_the_mean_clipped_gradient() -> None:
    """Every entry within 5 standard errors, and the largest of 12 x 3 z-scores is not too small."""
    h = random_people(60, 12, seed=3)
    V = initial_items(12, 3, 0.4, 2)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    mechanism = Coordinate(Shape(12, 3, 1.0), 1.0)
    words = np.random.default_rng(5).integers(0, 2**64, (60, 20_001, 4), dtype=np.uint64)
    reports = mechanism.reports(V, X, h, words)
    estimate = mechanism.estimate(sum_signs(reports, mechanism.n_directions), reports.size)
    true = np.clip(gradients(residuals(V, X, h, alpha=1.0), X), -1, 1).mean(axis=0)
    standard_error = mechanism.bound / np.sqrt(mechanism.n_directions * reports.size)
    z = (estimate - true) / standard_error
    assert np.abs(z).max() < 5
    assert 0.5 < z.std() < 1.5


def test_the_index_ignores_the_history_and_is_uniform() -> None:
    """The same words name the same entries whatever the history, and all equally often.

    Chi-square of 200,000 draws over all entries; bound at a false alarm of 1e-7, fixed seed.
    """
    mechanism = Coordinate(Shape(13, 3, 1.0), 1.0)
    V = initial_items(13, 3, 0.3, 0)
    words = np.random.default_rng(0).integers(0, 2**64, (100, 2001, 4), dtype=np.uint64)
    found = []
    for own in ([0, 1, 2], [5, 7, 11, 12]):
        h = Histories.from_lists([own] * 100, 13)
        X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
        found.append(mechanism.reports(V, X, h, words) >> 1)
    assert np.array_equal(found[0], found[1])
    counts = np.bincount(found[0].ravel(), minlength=39)
    expected = found[0].size / 39
    assert abs(((counts - expected) ** 2 / expected).sum() - 38) < 6 * np.sqrt(2 * 38)
