"""How a device recommends: models with tags, weights by recency, and ranking."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.core import Histories, draw_initial_items, solve_user_vectors
from sottovoce.core.bounds import MAX_ITEM_ENTRY, MIN_ITEM_ENTRY
from sottovoce.core.recommending import (
    Taste,
    WideModel,
    estimate_popularity,
    find_best_rows,
    weigh_histories,
    weigh_history,
)
from sottovoce.core.tags import Tag, Tags, make_empty_tags

N_ITEMS = 14
N_FACTORS = 3
N_TAGS = 5
MODEL_ALPHA = 4.0
MODEL_RIDGE = 0.125


def make_tags(table: np.ndarray) -> Tags:
    names = tuple(Tag("genre", str(number)) for number in range(table.shape[1]))
    return Tags(names, sparse.csr_array(table.astype(np.float64)))


def draw_tags(seed: int, columns: int = N_TAGS) -> Tags:
    return make_tags(np.random.default_rng(seed).random((N_ITEMS, columns)) < 0.4)


def make_model(V: np.ndarray, tags: Tags, **changes: float) -> WideModel:
    ridges = {"alpha": MODEL_ALPHA, "regularization": MODEL_RIDGE, **changes}
    return WideModel.from_model(V.astype(np.float32), tags, **ridges)  # type: ignore[arg-type]


def draw_matrix_with_zero_rows(seed: int, zeros: list[int]) -> np.ndarray:
    V = draw_initial_items(N_ITEMS, N_FACTORS, 0.3, seed)
    V[:, 0] += 0.2
    V[zeros] = 0
    return V


def to_dense(model: WideModel) -> np.ndarray:
    return np.concatenate([model.V, model.D.toarray()], axis=1)


seeds = st.integers(0, 2**32)
zero_rows = st.lists(st.integers(0, N_ITEMS - 1), unique=True, max_size=N_ITEMS)


@given(seeds, zero_rows)
def test_gram_and_rows_equal_the_dense_matrix(seed: int, zeros: list[int]) -> None:
    model = make_model(draw_matrix_with_zero_rows(seed, zeros), draw_tags(seed))
    W = to_dense(model)
    assert model.gram == pytest.approx(W.T @ W, rel=1e-12, abs=1e-12)
    assert np.array_equal(model.rows(np.arange(N_ITEMS)), W)
    assert np.array_equal(model.rows([3, 1]), W[[3, 1]])
    x = np.random.default_rng(seed).standard_normal(N_FACTORS + N_TAGS)
    assert model.scores(x) == pytest.approx(W @ x, rel=1e-9, abs=1e-12)


def make_diagonal(model: WideModel, n_own: int) -> np.ndarray:
    return np.repeat(model.ridges(n_own), [N_FACTORS, N_TAGS])


@given(seeds, zero_rows, st.sets(st.integers(0, N_ITEMS - 1), min_size=1), st.floats(0, 20))
def test_shares_solve_the_normal_equations(
    seed: int, zeros: list[int], own: set[int], alpha: float
) -> None:
    model = make_model(draw_matrix_with_zero_rows(seed, zeros), draw_tags(seed), alpha=alpha)
    weights = np.random.default_rng(seed).uniform(0.03, 1, len(own))
    rows, W = sorted(own), to_dense(model)
    p = np.zeros(N_ITEMS)
    p[rows] = weights
    left = W.T @ np.diag(1 + alpha * p) @ W + np.diag(make_diagonal(model, len(own)))
    shares = model.shares(rows, weights)
    assert shares.shape == (N_FACTORS + N_TAGS, len(rows))
    for share, row, weight in zip(shares.T, rows, weights, strict=True):
        assert left @ share == pytest.approx((1 + alpha) * weight * W[row], rel=1e-7, abs=1e-9)


@given(seeds)
def test_popularity_is_the_row_sum_of_v_v_transposed(seed: int) -> None:
    V = draw_initial_items(N_ITEMS, N_FACTORS, 1.0, seed).astype(float)
    expected = np.maximum((V @ V.T).sum(axis=1), 0)
    assert estimate_popularity(V) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def fill_by_definition(V: np.ndarray, table: np.ndarray) -> np.ndarray:
    learnt, filled = V.any(axis=1), V.copy()
    for item in np.flatnonzero(~learnt):
        items_by_tag = [learnt & (column > 0) for column in table.T[table[item] > 0]]
        means = [V[items].mean(axis=0) for items in items_by_tag if items.any()]
        filled[item] = np.mean(means, axis=0) if means else V[learnt].mean(axis=0)
    return filled


@given(seeds, zero_rows.filter(lambda zeros: 0 < len(zeros) < N_ITEMS))
def test_new_item_has_the_mean_row_of_its_tags(seed: int, zeros: list[int]) -> None:
    V, tags = draw_matrix_with_zero_rows(seed, zeros), draw_tags(seed)
    model = make_model(V, tags)
    expected = fill_by_definition(V.astype(float), tags.table.toarray())
    np.testing.assert_allclose(model.V, expected, rtol=1e-6, atol=1e-7)
    assert np.array_equal(model.V[model.learnt], V[model.learnt].astype(float))
    assert np.flatnonzero(~model.learnt).tolist() == sorted(zeros)
    assert np.array_equal(model.V, model.V.astype(np.float32)), "new rows must be float32, too"


UNSOLVABLE_MODELS: dict[str, Any] = {
    "two equal factors": (np.full((4, 2), 2.0**20), 1e-12),
    "a NaN": (np.full((4, 2), np.nan), 1e-6),
    "an infinity": (np.full((4, 2), np.inf), 1e-6),
}


@pytest.mark.parametrize(("V", "ridge"), UNSOLVABLE_MODELS.values(), ids=UNSOLVABLE_MODELS)
def test_shares_are_zero_without_a_finite_solution(V: np.ndarray, ridge: float) -> None:
    with np.errstate(all="ignore"):
        model = make_model(V, make_empty_tags(4), regularization=ridge)
        shares = model.shares([0, 2], np.ones(2))
    assert shares.tolist() == [[0, 0], [0, 0]]


@given(seeds, st.sets(st.integers(0, N_ITEMS - 1), min_size=1))
def test_shares_add_up_to_the_vector_of_the_paper(seed: int, own: set[int]) -> None:
    V, rows = draw_initial_items(N_ITEMS, N_FACTORS, 0.5, seed), sorted(own)
    model = make_model(V, make_empty_tags(N_ITEMS))
    expected = solve_user_vectors(
        V, Histories.from_lists([rows], N_ITEMS), alpha=MODEL_ALPHA, regularization=MODEL_RIDGE
    )
    vector = model.shares(rows, np.ones(len(rows))).sum(axis=1)
    assert vector == pytest.approx(expected[0], rel=1e-5, abs=1e-6)


MOMENT_LISTS = st.lists(st.integers(-5, 20) | st.integers(-(2**62), 2**62), max_size=40)


@pytest.mark.parametrize("scale", [MIN_ITEM_ENTRY, 1.0, MAX_ITEM_ENTRY])
@pytest.mark.parametrize("shares", [[-1, -1], [1, -1, 0], [0, 1], [1, 1e-3, -1e-3]])
def test_lists_are_finite_whatever_shares_a_server_publishes(
    shares: list[float], scale: float
) -> None:
    """Let a server publish negative, huge and tiny shares, which the model file may hold."""
    column = np.maximum(np.abs(scale * np.resize(shares, N_ITEMS)), MIN_ITEM_ENTRY)
    column *= np.sign(np.resize(shares, N_ITEMS))
    V, tags = column[:, None].astype(np.float32), draw_tags(1)
    model = WideModel.from_model(V, tags, alpha=1.0, regularization=1e-6, has_shares=True)
    for own in ([], [0, 3]):
        taste = Taste(model, tags, own, model.shares(own, np.ones(len(own))))
        assert np.isfinite(taste.scores()).all()
        for item in range(N_ITEMS):
            fractions = [share for _, share in taste.list_reasons(item)]
            assert all(0 <= share <= 1 for share in fractions)


def weigh_by_definition(moments: list[int]) -> list[float]:
    """Weigh by 20 / (2 + later + others at the same moment / 2); 1 if there is one moment."""
    if len(set(moments)) == 1:
        return [1.0] * len(moments)
    weights = []
    for own in moments:
        later = sum(other > own for other in moments)
        others = moments.count(own) - 1
        weights.append(20 / (2 + later + others / 2))
    return weights


@given(MOMENT_LISTS)
def test_weights_follow_the_definition(moments: list[int]) -> None:
    assert weigh_history(np.array(moments, np.int64)) == pytest.approx(
        weigh_by_definition(moments), rel=1e-12
    )


@given(st.lists(MOMENT_LISTS | st.lists(st.integers(0, 2), max_size=5), max_size=6))
def test_histories_are_weighed_independently(people: list[list[int]]) -> None:
    histories = Histories.from_lists([list(range(len(moments))) for moments in people], 40)
    times = np.array([moment for moments in people for moment in moments], np.int64)
    weights = [weigh_history(np.array(moments, np.int64)) for moments in people]
    expected = np.concatenate([np.zeros(0), *weights])
    assert np.array_equal(weigh_histories(histories, times), expected)


N_ROWS = 200_000
values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324]) | st.floats()


def sort_plainly(scores: list[float], own: set[int], n: int) -> list[int]:
    rows = [row for row in range(len(scores)) if row not in own]
    keys = [float("inf") if np.isnan(score) else -score for score in scores]
    return sorted(rows, key=lambda row: keys[row])[:n]


@given(st.lists(values, max_size=60), st.sets(st.integers(0, 59)), st.integers(1, 70))
def test_best_rows_equal_a_plain_sort(scores: list[float], some: set[int], n: int) -> None:
    own = {row for row in some if row < len(scores)}
    best = find_best_rows(np.array(scores, np.float64), sorted(own), n)
    assert best.tolist() == sort_plainly(scores, own, n)


def make_orders() -> dict[str, NDArray[np.float64]]:
    ascending = np.sort(np.random.default_rng(1).standard_normal(N_ROWS))
    return {
        "ascending": ascending,
        "descending": ascending[::-1].copy(),
        "random": np.random.default_rng(2).permutation(ascending),
        "constant": np.full(N_ROWS, 0.5),
    }


def measure_time_ratio(work: Callable[[NDArray[np.float64]], object]) -> float:
    """Return the processor time of the slowest order over that of the fastest, best of 9 each."""
    cases = make_orders()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(9):
        for name, scores in cases.items():
            start = time.process_time()
            work(scores)
            seconds[name].append(time.process_time() - start)
    best = [min(times) for times in seconds.values()]
    return max(best) / min(best)


def test_time_does_not_depend_on_the_order_of_scores() -> None:
    # A sort that compares reveals the order.
    assert measure_time_ratio(lambda scores: np.argsort(-scores, kind="stable")) > 8
    # The processor's cache makes a small difference.
    assert measure_time_ratio(lambda scores: find_best_rows(scores, [3, 5], 10)) < 3
