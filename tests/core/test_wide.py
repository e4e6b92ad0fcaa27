"""The model of a device, `W = [V | D]`, against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sottovoce.core import Histories, initial_items, user_vectors
from sottovoce.core.recommending import (
    Tag,
    Tags,
    WideModel,
    no_tags,
    popularity_of,
    with_companions,
)

ITEMS, FACTORS, COLUMNS = 14, 3, 5
ALPHA, LAMBDA = 4.0, 0.125


def tags_like(table: np.ndarray) -> Tags:
    names = tuple(Tag("genre", str(number)) for number in range(table.shape[1]))
    return Tags(names, sparse.csr_array(table.astype(np.float64)))


def random_tags(seed: int, columns: int = COLUMNS) -> Tags:
    return tags_like(np.random.default_rng(seed).random((ITEMS, columns)) < 0.4)


def model_of(V: np.ndarray, tags: Tags, **changes: float) -> WideModel:
    return WideModel.of(
        V.astype(np.float32), tags, **{"alpha": ALPHA, "regularization": LAMBDA, **changes}
    )


def with_zero_rows(seed: int, zeros: list[int]) -> np.ndarray:
    V = initial_items(ITEMS, FACTORS, 0.3, seed)
    V[:, 0] += 0.2
    V[zeros] = 0
    return V


def dense(model: WideModel) -> np.ndarray:
    return np.concatenate([model.V, model.D.toarray()], axis=1)


seeds = st.integers(0, 2**32)
zero_rows = st.lists(st.integers(0, ITEMS - 1), unique=True, max_size=ITEMS)


@given(seeds, zero_rows)
def test_gram_and_rows_are_those_of_the_dense_matrix(seed: int, zeros: list[int]) -> None:
    model = model_of(with_zero_rows(seed, zeros), random_tags(seed))
    W = dense(model)
    assert model.gram == pytest.approx(W.T @ W, rel=1e-12, abs=1e-12)
    assert np.array_equal(model.rows(np.arange(ITEMS)), W)
    assert np.array_equal(model.rows([3, 1]), W[[3, 1]])
    x = np.random.default_rng(seed).standard_normal(FACTORS + COLUMNS)
    assert model.scores(x) == pytest.approx(W @ x, rel=1e-9, abs=1e-12)


def diagonal(model: WideModel, n_own: int) -> np.ndarray:
    return np.repeat(model.ridges(n_own), [FACTORS, COLUMNS])


@given(seeds, zero_rows, st.sets(st.integers(0, ITEMS - 1), min_size=1), st.floats(0, 20))
def test_shares_solve_the_normal_equations(
    seed: int, zeros: list[int], own: set[int], alpha: float
) -> None:
    model = model_of(with_zero_rows(seed, zeros), random_tags(seed), alpha=alpha)
    weights = np.random.default_rng(seed).uniform(0.03, 1, len(own))
    rows, W = sorted(own), dense(model)
    p = np.zeros(ITEMS)
    p[rows] = weights
    left = W.T @ np.diag(1 + alpha * p) @ W + np.diag(diagonal(model, len(own)))
    shares = model.shares(rows, weights)
    assert shares.shape == (FACTORS + COLUMNS, len(rows))
    for share, row, weight in zip(shares.T, rows, weights, strict=True):
        assert left @ share == pytest.approx((1 + alpha) * weight * W[row], rel=1e-7, abs=1e-9)


def test_nobodys_items_have_no_shares() -> None:
    model = model_of(with_zero_rows(1, []), random_tags(1))
    assert model.shares([], np.zeros(0)).shape == (FACTORS + COLUMNS, 0)


@given(seeds, zero_rows)
def test_columns_of_tags_are_popularities_as_long_as_a_mean_factor(
    seed: int, zeros: list[int]
) -> None:
    tags = random_tags(seed)
    model = model_of(with_zero_rows(seed, zeros), tags)
    squared = (model.V**2).sum() / FACTORS or 1.0
    for column, has in zip(model.D.toarray().T, tags.table.toarray().T, strict=True):
        wanted = has * model.popularity
        length = np.linalg.norm(wanted)
        if length > 0:
            wanted *= np.sqrt(squared) / length
            assert column @ column == pytest.approx(squared, rel=1e-9)
        assert column == pytest.approx(wanted, rel=1e-9, abs=1e-15)


def test_a_tag_of_items_that_nobody_wants_is_a_column_of_zeros() -> None:
    V = np.array([[1.0], [2.0], [-0.5], [-0.1]])
    model = model_of(V, tags_like(np.array([[0], [0], [1], [1]])))
    assert model.popularity[2:].tolist() == [0, 0]
    assert not model.D.toarray().any()
    assert np.isfinite(model.shares([0, 2], np.ones(2))).all()


def test_the_ridge_is_lambda_for_factors_and_grows_with_the_columns_for_tags() -> None:
    V = with_zero_rows(5, [])
    model = model_of(V, random_tags(5))
    squared = float((V.astype(float) ** 2).sum()) / FACTORS
    for own, times in ((1, 61), (60, 2), (600, 1.1)):
        expected = (LAMBDA, 0.2 * (1 + ALPHA) * times * squared)
        assert model.ridges(own) == pytest.approx(expected, rel=1e-12)


@given(seeds)
def test_popularity_is_the_row_sum_of_v_v_transposed(seed: int) -> None:
    V = initial_items(ITEMS, FACTORS, 1.0, seed).astype(float)
    expected = np.maximum((V @ V.T).sum(axis=1), 0)
    assert popularity_of(V) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_model_of_zeros_finds_all_items_equally_popular() -> None:
    """And leaves a length of 1 to the tags, which then are all that speaks."""
    tags = random_tags(2)
    model = model_of(np.zeros((ITEMS, FACTORS)), tags)
    assert model.popularity.tolist() == [1.0] * ITEMS
    assert not model.learnt.any()
    assert not model.V.any()
    assert np.linalg.norm(model.D.toarray(), axis=0) == pytest.approx([1.0] * COLUMNS)
    assert model.tag_ridge == pytest.approx(0.2 * (1 + ALPHA))
    x = model.shares([0, 1], np.ones(2)).sum(axis=1)
    assert not x[:FACTORS].any()
    assert x[FACTORS:].any()


def learnt(V: np.ndarray) -> np.ndarray:
    return np.asarray(V.any(axis=1))


def companions(V: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The definition, an item after another."""
    old, filled = learnt(V), V.copy()
    for item in np.flatnonzero(~old):
        theirs = [old & (column > 0) for column in table.T[table[item] > 0]]
        means = [V[known].mean(axis=0) for known in theirs if known.any()]
        filled[item] = np.mean(means, axis=0) if means else V[old].mean(axis=0)
    return filled


@given(seeds, zero_rows.filter(lambda zeros: 0 < len(zeros) < ITEMS))
def test_a_new_item_has_the_mean_row_of_its_companions(seed: int, zeros: list[int]) -> None:
    V, tags = with_zero_rows(seed, zeros), random_tags(seed)
    model = model_of(V, tags)
    expected = companions(V.astype(float), tags.table.toarray())
    np.testing.assert_allclose(model.V, expected, rtol=1e-6, atol=1e-7)
    assert np.array_equal(model.V[model.learnt], V[model.learnt].astype(float))
    assert np.flatnonzero(~model.learnt).tolist() == sorted(zeros)
    assert np.array_equal(model.V, model.V.astype(np.float32)), "as precise as all others"


def test_new_items_without_tags_or_whose_tags_nobody_knows_have_the_mean_of_all() -> None:
    V = np.array([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    table = np.array([[1, 0], [0, 0], [0, 0], [0, 1], [1, 1]])
    filled = with_companions(V, learnt(V), tags_like(table))
    assert filled.tolist() == [[2, 0], [0, 4], [1, 2], [1, 2], [2, 0]]


def test_a_model_without_new_items_or_of_them_alone_is_left_as_it_is() -> None:
    for V in (np.ones((ITEMS, 2)), np.zeros((ITEMS, 2))):
        assert with_companions(V, learnt(V), random_tags(1)) is V


UNSOLVABLE: dict[str, Any] = {
    "two equal factors": (np.full((4, 2), 2.0**20), 1e-12),
    "a NaN": (np.full((4, 2), np.nan), 1e-6),
    "an infinity": (np.full((4, 2), np.inf), 1e-6),
}


@pytest.mark.parametrize(("V", "ridge"), UNSOLVABLE.values(), ids=UNSOLVABLE)
def test_a_model_without_a_finite_solution_says_nothing(V: np.ndarray, ridge: float) -> None:
    with np.errstate(all="ignore"):
        model = model_of(V, no_tags(4), regularization=ridge)
        shares = model.shares([0, 2], np.ones(2))
    assert shares.tolist() == [[0, 0], [0, 0]]


@given(seeds, st.sets(st.integers(0, ITEMS - 1), min_size=1))
def test_without_tags_and_with_equal_weights_it_is_the_papers_vector(
    seed: int, own: set[int]
) -> None:
    V, rows = initial_items(ITEMS, FACTORS, 0.5, seed), sorted(own)
    model = model_of(V, no_tags(ITEMS))
    expected = user_vectors(
        V, Histories.from_lists([rows], ITEMS), alpha=ALPHA, regularization=LAMBDA
    )
    found = model.shares(rows, np.ones(len(rows))).sum(axis=1)
    assert found == pytest.approx(expected[0], rel=1e-5, abs=1e-6)


def test_a_fan_of_a_tag_is_shown_more_of_it() -> None:
    """All factors are popularity: nothing but the tag tells the two kinds of item apart."""
    V = np.linspace(1, 0.9, ITEMS)[:, None]
    model = model_of(V, tags_like(np.arange(ITEMS)[:, None] % 2 == np.array([0, 1])))
    for kind in (0, 1):
        own = list(range(kind, 8, 2))
        scores = model.scores(model.shares(own, np.ones(len(own))).sum(axis=1))
        best = max(set(range(ITEMS)) - set(own), key=lambda item: scores[item])
        assert best % 2 == kind
