"""The contract suite of mechanisms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sottovoce.core import (
    MECHANISMS,
    Histories,
    Mechanism,
    Shape,
    bounds,
    count_reports,
    draw_initial_items,
    solve_user_vectors,
    sum_signs,
)
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON
from sottovoce.core.coordinate import Coordinate
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.errors import SettingsError
from sottovoce.training import Settings
from tests.people import histories, random_people

GRADIENT_MECHANISMS = [name for name, kind in MECHANISMS.items() if not kind.asks_for_names]


def build(
    name: str,
    n_items: int,
    factors: int = 3,
    epsilon: float = 1.0,
    alpha: float = 1.0,
    *,
    example: bool = False,
) -> Mechanism:
    """Build a mechanism with its default options, or with those of its example."""
    options = MECHANISMS[name].example if example else {}
    plan = Settings.preset(name, factors=factors, epsilon=epsilon, alpha=alpha, **options)
    return plan.build(n_items)


def draw_words(n_users: int, reports: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**64, (n_users, reports + 1, 4), dtype=np.uint64)


def solve_vectors(V: np.ndarray, h: Histories) -> np.ndarray:
    return solve_user_vectors(V, h, alpha=1.0, regularization=1e-6)


@pytest.mark.parametrize("name", MECHANISMS)
@given(
    items=st.integers(1, 5000),
    factors=st.integers(1, 9),
    epsilon=st.floats(MIN_EPSILON, MAX_EPSILON),
    example=st.booleans(),
)
def test_manifest_describes_the_mechanism_completely(
    name: str, items: int, factors: int, epsilon: float, example: bool
) -> None:
    # All parameters are whole numbers, and epsilon is exact.
    mechanism = build(name, items, factors, epsilon, example=example)
    public = mechanism.public_parameters()
    assert all(type(value) is int and value >= 0 for value in public.values())
    read = MECHANISMS[name].from_manifest(mechanism.shape, epsilon, public)
    assert read == mechanism
    assert read.epsilon == mechanism.event(1, 1).epsilon == epsilon
    assert mechanism.gain > 0
    grown = mechanism.for_items(mechanism.limit_items(2 * items))
    one_more = grown.loud_fraction + 0.5 / grown.n_directions
    assert grown.loud_fraction <= mechanism.loud_fraction < one_more


@pytest.mark.parametrize("name", MECHANISMS)
@given(
    h=histories(),
    factors=st.integers(1, 5),
    k=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    example=st.booleans(),
)
@settings(max_examples=40)
def test_any_history_makes_k_reports_in_range(
    name: str, h: Histories, factors: int, k: int, seed: int, example: bool
) -> None:
    """Histories may be empty or full; M need not be a power of two, and F may be 1."""
    mechanism = build(name, h.n_items, factors, example=example)
    V = draw_initial_items(h.n_items, factors, 0.3, seed)
    reports = mechanism.reports(V, solve_vectors(V, h), h, draw_words(h.n_users, k, seed))
    assert reports.shape == (h.n_users, k)
    assert reports.dtype == np.uint32
    assert (reports >> 1 < mechanism.n_directions).all()
    sums = mechanism.to_sums(count_reports(reports, mechanism.n_directions))
    estimate = mechanism.estimate(sums, reports.size)
    assert estimate.shape == (h.n_items, factors)
    assert np.isfinite(estimate).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_batch_equals_its_users_one_by_one(name: str) -> None:
    # A live client is a batch of one. A batch may be empty, if nobody takes part.
    h = random_people(12, 30, seed=1)
    mechanism = build(name, 30)
    V = draw_initial_items(30, 3, 0.3, 0)
    words = draw_words(12, 7)
    together = mechanism.reports(V, solve_vectors(V, h), h, words)
    for user in range(12):
        one = h.take(np.array([user]))
        single = mechanism.reports(V, solve_vectors(V, one), one, words[user : user + 1])
        assert np.array_equal(single[0], together[user])
    empty = h.take(np.array([], np.int64))
    assert mechanism.reports(V, solve_vectors(V, empty), empty, words[:0]).shape == (0, 7)


sizes = st.sampled_from([0.0, bounds.MIN_ITEM_ENTRY, 1e-9, 1.0, 1e3, bounds.MAX_ITEM_ENTRY])
entries = st.tuples(sizes, st.sampled_from([1.0, -1.0])).map(lambda pair: pair[0] * pair[1])


@pytest.mark.parametrize("name", MECHANISMS)
@given(
    rows=st.lists(st.tuples(entries, entries, entries), min_size=8, max_size=8),
    alpha=st.sampled_from([0.0, 0.1, 40.0, bounds.MAX_ALPHA]),
    ridge=st.sampled_from([bounds.MIN_RIDGE, 1e-6, bounds.MAX_RIDGE]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_reports_are_possible_for_all_models_within_bounds(
    name: str, rows: list[tuple[float, ...]], alpha: float, ridge: float, seed: int
) -> None:
    """Overflow and invalid operations raise, so no value may become infinite or NaN."""
    h, V = random_people(6, 8, seed=seed), np.array(rows, np.float32)
    mechanism = build(name, 8, alpha=alpha)
    with np.errstate(over="raise", invalid="raise"):
        X = solve_user_vectors(V, h, alpha=alpha, regularization=ridge)
        reports = mechanism.reports(V, X, h, draw_words(6, 50))
    assert np.isfinite(X).all()
    assert (reports >> 1 < mechanism.n_directions).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_estimate_is_a_mean_and_zero_without_reports(name: str) -> None:
    mechanism = build(name, 9)
    counts = np.random.default_rng(0).integers(9, size=2 * mechanism.n_directions)
    sums, n_reports = mechanism.to_sums(counts), int(counts.sum())
    once, twice = mechanism.estimate(sums, n_reports), mechanism.estimate(2 * sums, 2 * n_reports)
    assert twice == pytest.approx(once)
    assert not mechanism.estimate(np.zeros_like(sums), 0).any()


@pytest.mark.parametrize("name", GRADIENT_MECHANISMS)
def test_estimate_of_a_gradient_is_linear(name: str) -> None:
    mechanism = build(name, 9)
    sums = np.random.default_rng(0).integers(-5, 6, mechanism.n_sums)
    once, twice = mechanism.estimate(sums, 100), mechanism.estimate(2 * sums, 100)
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize("name", MECHANISMS)
@given(
    h=histories(max_items=12),
    epsilon=st.floats(0.1, 8),
    seed=st.integers(0, 2**32),
    example=st.booleans(),
)
@settings(max_examples=25)
def test_densities_are_within_the_bounds_of_the_event(
    name: str, h: Histories, epsilon: float, seed: int, example: bool
) -> None:
    """They are between gamma and gamma e^eps, with mean 1: the proofs need nothing else."""
    mechanism = build(name, h.n_items, 2, epsilon, example=example)
    V = draw_initial_items(h.n_items, 2, 0.3, seed)
    density = mechanism.densities(V, solve_vectors(V, h), h).astype(np.float64)
    gamma = mechanism.event(1, 1).blanket
    assert density.shape == (h.n_users, 2 * mechanism.n_directions)
    rounding = 1e-6  # of float32 densities
    assert (density >= gamma - rounding).all()
    assert (density <= gamma * np.exp(epsilon) * (1 + rounding)).all()
    assert density.mean(axis=1) == pytest.approx(np.ones(h.n_users), rel=1e-5)


@pytest.mark.parametrize("example", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_reports_follow_the_densities(name: str, example: bool) -> None:
    # Chi-square tests of three people; the seed is fixed, and a new one fails once in 10^8 runs.
    h = Histories.from_lists([[0, 2, 3], [1, 4, 6, 7], [0, 1, 2, 6, 7, 8]], 9)
    V = draw_initial_items(9, 2, 0.5, 3)
    X = solve_vectors(V, h)
    mechanism = build(name, 9, 2, 1.5, example=example)
    reports = mechanism.reports(V, X, h, draw_words(3, 100_000, seed=7))
    for person, density in zip(reports, mechanism.densities(V, X, h).astype(float), strict=True):
        counts = np.bincount(person, minlength=len(density))
        expected = density / density.sum() * len(person)
        assert chisquare(counts, expected).pvalue > 3e-9


def test_report_beyond_the_directions_is_rejected() -> None:
    sum_signs(np.array([19], np.uint32), 10)
    with pytest.raises(SettingsError, match=r"\b9\b"):
        sum_signs(np.array([20], np.uint32), 10)


def test_invalid_shapes_and_too_many_directions_are_rejected() -> None:
    class Endless(Coordinate):
        n_directions = 2**31 + 1

    with pytest.raises(SettingsError):
        Endless(Shape(5, 3, 1.0), 1.0)
    for shape in ((0, 1, 1), (1, 0, 1), (1, 1, -1), (2**24 + 1, 1, 1.0), (2**24, 5, 1.0)):
        with pytest.raises(SettingsError):
            Shape(*shape)


@pytest.mark.parametrize("name", GRADIENT_MECHANISMS)
def test_estimate_correlates_with_the_gradient(name: str) -> None:
    h = random_people(400, 16, seed=4, most=8)
    V = draw_initial_items(16, 2, 0.3, 1)
    X = solve_vectors(V, h)
    mechanism = build(name, 16, factors=2, epsilon=3.0)
    reports = mechanism.reports(V, X, h, draw_words(400, 200))
    estimate = mechanism.estimate(sum_signs(reports, mechanism.n_directions), reports.size)
    true = compute_gradients(compute_residuals(V, X, h, alpha=1.0), X).mean(axis=0)
    assert np.corrcoef(estimate.ravel(), true.ravel())[0, 1] > 0.8
