"""DP-ALS: how far one person moves a release, the noise that this requires, and the model."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf, nan, sqrt
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, solve_user_vectors
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.errors import DataError, SettingsError
from sottovoce.privacy.gaussian import gaussian_delta, gaussian_epsilon
from sottovoce.simulation import Popularity
from sottovoce.simulation.evaluation.metrics import summarize_ranks
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce_lab.baselines import DPALS, MatrixFactorization, TrustedSettings, rank
from sottovoce_lab.baselines.models import split_into_blocks
from sottovoce_lab.baselines.trusted import (
    REPLACED_DISTANCE,
    Aggregator,
    Noise,
    Solver,
    Sums,
    compute_published_items,
    project_into_cone,
    solve_items,
)

N_ITEMS = 7
N_FACTORS = 3
SETTINGS = TrustedSettings(factors=N_FACTORS)
SEEDS = st.integers(0, 2**32)
HISTORIES = st.sets(st.integers(0, N_ITEMS - 1)).map(sorted)


@contextmanager
def make_aggregator(people: Histories, settings: TrustedSettings) -> Iterator[Aggregator]:
    with ThreadPoolExecutor(1) as pool:
        crowd = [block.to_csr().astype(np.float64) for block in split_into_blocks(people)]
        yield Aggregator(crowd, settings, pool)


def list_sums(people: Histories, seed: int) -> list[np.ndarray]:
    """Return all sums of one step before noise, for V, weights and an axis drawn by the seed."""
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((N_ITEMS, N_FACTORS)).astype(np.float32)
    weights, axis = rng.exponential(size=N_ITEMS) + 1e-3, rng.standard_normal(N_FACTORS)
    with make_aggregator(people, SETTINGS) as aggregator:
        sums = aggregator.sum_parts(V, weights, axis)
        return [aggregator.count_items(), sums.products, sums.gram]


def measure_distances(a: list[np.ndarray], b: list[np.ndarray]) -> list[float]:
    return [float(np.sqrt(((x - y) ** 2).sum())) for x, y in zip(a, b, strict=True)]


@given(mine=HISTORIES, other=HISTORIES, seed=SEEDS)
def test_a_replaced_history_moves_no_sum_by_more_than_stated(
    mine: list[int], other: list[int], seed: int
) -> None:
    rest = [[0, 1, 2], [], [4, 6]]
    first, second, without = (
        list_sums(Histories.from_lists(rows, N_ITEMS), seed)
        for rows in ([mine, *rest], [other, *rest], rest)
    )
    assert max(measure_distances(first, second)) <= REPLACED_DISTANCE * (1 + 1e-9)
    assert max(measure_distances(first, without)) <= 1 + 1e-9


def test_the_stated_distance_is_reached() -> None:
    # Two people without a common item, whose vectors are orthogonal.
    V = np.array([[1, 1], [1, -1]], np.float32)
    settings = TrustedSettings(factors=2, regularization=1e-9)
    sums_of_both = []
    for rows in ([[0]], [[1]]):
        with make_aggregator(Histories.from_lists(rows, 2), settings) as aggregator:
            sums = aggregator.sum_parts(V, np.ones(2), np.array([1.0, 0.0]))
            sums_of_both.append([aggregator.count_items(), sums.products, sums.gram])
    assert measure_distances(*sums_of_both) == pytest.approx([sqrt(2)] * 3)


@given(seed=SEEDS, factors=st.integers(1, 6))
def test_in_the_cone_no_product_is_negative(seed: int, factors: int) -> None:
    rng = np.random.default_rng(seed)
    axis = rng.standard_normal(factors)
    X = project_into_cone(np.vstack([rng.standard_normal((20, factors)), -axis, 0 * axis]), axis)
    assert (X @ X.T).min() >= -1e-12
    assert np.sqrt((X * X).sum(axis=1)).max() <= 1 + 1e-12
    assert (X[-1] == 0).all()
    inside = axis + 0.1 * rng.standard_normal(factors) / factors * np.sqrt((axis**2).sum())
    unchanged = inside / np.sqrt((inside**2).sum())
    assert project_into_cone(inside[None], axis)[0] == pytest.approx(unchanged)


@pytest.mark.parametrize("epsilon", [0.32, 1.0, 2.87])
def test_noise_is_what_the_budget_needs(epsilon: float) -> None:
    # First as a sum of squares, then as one Gaussian vector, each entry in its own deviation.
    settings = TrustedSettings(epsilon=epsilon, steps=5)
    noise = settings.noise
    assert gaussian_epsilon(noise.compute_mu(), settings.delta) == pytest.approx(epsilon, rel=1e-9)
    deviations = [noise.count, *[noise.products, noise.gram] * 5]
    move = np.array([sqrt(2)] * len(deviations)) / deviations
    assert gaussian_delta(float(np.linalg.norm(move)), epsilon) == pytest.approx(1e-6, rel=1e-6)
    assert settings.add_remove_epsilon < epsilon
    less = gaussian_delta(float(np.linalg.norm(move)) / sqrt(2), settings.add_remove_epsilon)
    assert less == pytest.approx(1e-6, rel=1e-6)


def test_it_agrees_with_dp_accounting() -> None:
    from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    noise = TrustedSettings(epsilon=1.0).noise
    theirs = PLDAccountant()
    theirs.compose(GaussianDpEvent(noise.count / sqrt(2)))
    for deviation in (noise.products, noise.gram):
        theirs.compose(SelfComposedDpEvent(GaussianDpEvent(deviation / sqrt(2)), noise.steps))
    assert theirs.get_epsilon(1e-6) == pytest.approx(1.0, rel=2e-3)


class FakeAggregator(Aggregator):
    """An aggregator without histories, which records its calls."""

    calls: ClassVar[list[str]] = []

    def count_items(self) -> np.ndarray:
        self.calls.append("count")
        return np.arange(1.0, N_ITEMS + 1)

    def sum_parts(self, V: np.ndarray, weights: np.ndarray, axis: np.ndarray) -> Sums:
        self.calls.append("sums")
        return Sums(np.ones((N_ITEMS, N_FACTORS)), np.eye(N_FACTORS))


def test_only_releases_that_the_budget_covers_use_histories() -> None:
    # One count and as many sums as there are steps; there is no crowd to read.
    settings = TrustedSettings(factors=N_FACTORS, steps=4)
    with ThreadPoolExecutor(1) as pool:
        V = compute_published_items(FakeAggregator([], settings, pool), np.random.default_rng(0))
    assert FakeAggregator.calls == ["count", *["sums"] * settings.noise.steps]
    assert V.shape == (N_ITEMS, N_FACTORS)


def test_the_noise_has_the_stated_variance_in_every_direction() -> None:
    # Variance along fixed directions of length 1, from 5,000 draws: within 7 deviations of it.
    noise, draws = Noise(1, 1.0, 5.0, 3.0), 5_000
    rng = np.random.default_rng(0)
    zeros = Sums(np.zeros((1, 2)), np.zeros((2, 2)))
    releases = [zeros.add_noise(noise, rng) for _ in range(draws)]
    K = np.array([sums.gram for sums in releases])
    assert (K.transpose(0, 2, 1) == K).all()
    B = np.array([sums.products for sums in releases])
    for direction in (np.diag([1, 0]), np.array([[0, 1], [1, 0]]) / sqrt(2), np.eye(2) / sqrt(2)):
        along = (K * direction).sum(axis=(1, 2))
        assert along.var() == pytest.approx(9, rel=7 * sqrt(2 / draws))
    assert B.var() == pytest.approx(25, rel=7 / sqrt(draws))


def test_without_noise_a_step_is_weighted_least_squares() -> None:
    # V of a step equals a dense solution item by item, with all vectors fixed.
    n = 12
    people = synthetic_people(n_users=200, n_items=n, seed=1).histories
    rng = np.random.default_rng(0)
    V = rng.standard_normal((n, N_FACTORS)).astype(np.float32)
    axis = rng.standard_normal(N_FACTORS)
    settings = TrustedSettings(factors=N_FACTORS, item_ridge=1e-12)
    with make_aggregator(people, settings) as aggregator:
        solved = solve_items(aggregator.sum_parts(V, np.ones(n), axis), settings)
        X = project_into_cone(aggregator.build_solver(V)(aggregator.crowd[0]), axis)
    P = people.to_csr().toarray()
    Q = P / np.sqrt(np.maximum(P.sum(axis=1, keepdims=True), 1))
    expected = np.linalg.solve(X.T @ X, X.T @ Q).T
    expected *= sqrt(N_FACTORS / (expected**2).sum())
    assert solved == pytest.approx(expected, abs=1e-5)


@pytest.fixture(scope="module")
def people() -> Histories:
    return synthetic_people(n_users=3000, n_items=200, seed=3).histories


def test_the_vectors_are_those_of_devices(people: Histories) -> None:
    V = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    for alpha in (0.0, 1.0, 4.0):
        ours = Solver(V, alpha, 0.1)(people.to_csr().astype(np.float64))
        assert ours == pytest.approx(
            solve_user_vectors(V, people, alpha=alpha, regularization=0.1), abs=1e-5
        )


def test_with_a_huge_budget_it_is_as_good_as_without_privacy() -> None:
    # HR@10 on people of several tastes, compared with ALS and with popularity.
    split = leave_one_out(synthetic_people(n_users=3000, n_items=200, seed=3), "random", 0)
    candidates = sample_candidates(split, 99, 0)
    free = MatrixFactorization.fit(
        split.train, factors=8, alpha=1.0, regularization=0.1, iterations=15, seed=0, threads=1
    )
    settings = TrustedSettings(epsilon=1e7, factors=8, steps=15, item_ridge=0.01, rare_power=0.0)
    private = DPALS.fit(split.train, settings, seed=0, threads=1)
    best, ours, counted = (
        summarize_ranks(rank(model, candidates))["hr@10"]
        for model in (free, private, Popularity.fit(split.train))
    )
    assert best > counted + 0.05
    assert ours > best - 0.02


def test_the_seed_decides_and_threads_do_not(people: Histories) -> None:
    settings = TrustedSettings.choose(1.0, people=3000, items=200)
    first, again, other = (
        DPALS.fit(people, settings, seed=seed, threads=threads)
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    )
    assert np.array_equal(first.V, again.V)
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.V, other.V)


def test_more_people_and_a_larger_budget_give_more_factors() -> None:
    def count_factors(epsilon: float, people: int, items: int = 9_800) -> int:
        return TrustedSettings.choose(epsilon, people=people, items=items).factors

    assert count_factors(1.0, 75_000) > count_factors(0.32, 75_000) > count_factors(0.32, 7_500)
    assert count_factors(1e-3, 10, 10) == 1
    assert count_factors(100.0, 10**9, 10) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0}, {"epsilon": nan}, {"epsilon": inf}, {"delta": 1.0}, {"delta": 0.0},
        {"factors": 0}, {"steps": 0}, {"memory": 1.1}, {"regularization": 0.0},
        {"item_ridge": 0.0}, {"alpha": -1.0},
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        TrustedSettings(**wrong)  # type: ignore[arg-type]


def test_an_empty_crowd_and_zero_threads_are_refused(people: Histories) -> None:
    with pytest.raises(SettingsError):
        DPALS.fit(people, TrustedSettings(), seed=0, threads=0)
    with pytest.raises(DataError):
        DPALS.fit(Histories.from_lists([], 5), TrustedSettings(), seed=0)
