"""Histories, and the closed forms against their definitions, written out densely in float64."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sottovoce.core import (
    Histories,
    gram,
    initial_items,
    predictions,
    rotate_factors,
    update,
    user_vectors,
)
from sottovoce.core.model import gradients, residuals
from sottovoce.errors import DataError, DivergedError, SettingsError
from tests.people import histories, random_people


def dense_user_vector(
    V: np.ndarray, items: np.ndarray, alpha: float, regularization: float
) -> np.ndarray:
    """Equation (4) as the paper writes it, with the M x M matrix C."""
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
def test_user_vectors_are_the_papers_equation(
    h: Histories, factors: int, alpha: float, seed: int
) -> None:
    V = initial_items(h.n_items, factors, 1.0, seed)
    X = user_vectors(V, h, alpha=alpha, regularization=0.1)
    for user in range(h.n_users):
        expected = dense_user_vector(V, h[user], alpha, 0.1)
        assert X[user] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_gradient_is_the_derivative_of_the_loss() -> None:
    h = random_people(3, 6, seed=5)
    V = initial_items(6, 2, 0.5, 5)
    X = user_vectors(V, h, alpha=1.5, regularization=0.1)
    g = gradients(residuals(V, X, h, alpha=1.5), X)

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
    """A server chooses M and F: with M F^2 numbers at once a device would run out of memory."""
    V = np.ones((2_000, 64), np.float32)
    tracemalloc.start()
    gram(V)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * V.nbytes


UNSOLVABLE = {
    "zero": (np.zeros((4, 2)), 0.0),
    "two equal factors": (np.full((4, 2), 2.0**20), 1e-12),
    "too long": (np.full((4, 2), 1e-30) * np.eye(4, 2), 0.0),
    "a NaN": (np.full((4, 2), np.nan), 1e-6),
    "an infinity": (np.full((4, 2), np.inf), 1e-6),
}


@pytest.mark.parametrize(("V", "ridge"), UNSOLVABLE.values(), ids=UNSOLVABLE)
def test_equations_without_a_usable_solution_give_the_zero_vector(
    V: np.ndarray, ridge: float
) -> None:
    """And nobody else is disturbed: what one history does must not show in another's."""
    h = Histories.from_lists([[0, 1], [], [2]], 4)
    with np.errstate(all="ignore"):
        X = user_vectors(V.astype(np.float32), h, alpha=1, regularization=ridge)
    assert X[0].tolist() == X[1].tolist() == [0, 0]


def test_update_takes_its_steps_over_the_same_estimate() -> None:
    V, g = initial_items(3, 2, 1.0, 0), np.ones((3, 2))
    by_hand = V.astype(float)
    for _ in range(20):
        by_hand = by_hand - 0.1 * (g + 2 * 0.5 * by_hand)
    once = update(V, g, rate=0.1, steps=20, regularization=0.5)
    assert once == pytest.approx(by_hand, rel=1e-6)
    with pytest.raises(SettingsError):
        update(V, g, rate=0.1, steps=0, regularization=0)
    with pytest.raises(DivergedError, match=r"1e\+300"):
        update(V, g, rate=1e300, steps=1, regularization=0)


def test_the_first_item_matrix_depends_on_the_seed_alone() -> None:
    a, b = initial_items(5, 2, 0.1, 7), initial_items(5, 2, 0.1, 7)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, initial_items(5, 2, 0.1, 8))
    with_head = initial_items(5, 2, 0.1, 7, head_start=3)
    assert (with_head[:, 0] == np.float32(0.1 * 3)).all()
    assert np.array_equal(with_head[:, 1], a[:, 1])


@given(st.integers(1, 9), st.integers(0, 2**32), st.integers(0, 50))
def test_another_basis_changes_no_score(factors: int, seed: int, epoch: int) -> None:
    h = random_people(5, 12, seed=1)
    V = initial_items(12, factors, 0.5, seed)
    turned = rotate_factors(V, seed, epoch)
    assert gram(turned.T.copy()) == pytest.approx(gram(V.T.copy()), abs=1e-4)
    before, after = (
        predictions(user_vectors(W, h, alpha=1, regularization=0.1)[:, None], W[None])
        for W in (V, turned)
    )
    assert after == pytest.approx(before, abs=1e-3)


def test_bases_are_fresh_every_epoch_and_uniform() -> None:
    """The first basis vector has mean 0 and covariance I / F, to 5 standard errors; fixed seed."""
    V = np.eye(3, dtype=np.float32)
    bases = np.array([rotate_factors(V, 1, epoch) for epoch in range(4000)], float)
    assert np.abs(bases.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / 4000)
    first = bases[:, 0, :]
    covariance = first.T @ first / 4000
    assert np.abs(covariance - np.eye(3) / 3).max() < 5 * np.sqrt(2 / 15 / 4000)


@given(histories())
def test_csr_round_trip(h: Histories) -> None:
    back = Histories.from_csr(h.to_csr())
    assert np.array_equal(back.indptr, h.indptr)
    assert np.array_equal(back.indices, h.indices)
    assert back.n_items == h.n_items


@given(histories(), st.data())
def test_take_is_what_it_says(h: Histories, data: st.DataObject) -> None:
    users = np.array(data.draw(st.lists(st.integers(0, h.n_users - 1), min_size=1)))
    taken = h.take(users)
    for position, user in enumerate(users):
        assert np.array_equal(taken[position], h[int(user)])


def test_unsorted_rows_are_sorted() -> None:
    h = Histories.from_arrays(np.array([0, 3, 4]), np.array([5, 1, 3, 0]), 6)
    assert h[0].tolist() == [1, 3, 5]


def test_values_above_zero_count_once_and_others_not() -> None:
    matrix = sparse.csr_matrix((np.array([3.0, 0.0, -1.0, 0.5]), ([0, 0, 1, 1], [0, 1, 0, 2])))
    h = Histories.from_csr(matrix)
    assert [h[0].tolist(), h[1].tolist()] == [[0], [2]]
    twice = sparse.csr_matrix((np.ones(3), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert Histories.from_csr(twice)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2], [0]), ([1, 2], [0, 1]), ([0, 2, 1], [0]), ([], []), ([0, 1], [7]), ([0, 1], [-1]),
        ([0, 2], [1, 1]),
    ],
)  # fmt: skip
def test_nonsense_is_refused(indptr: list[int], indices: list[int]) -> None:
    with pytest.raises(DataError):
        Histories.from_arrays(np.array(indptr, int), np.array(indices, int), 3)
    for value in (np.nan, np.inf):
        with pytest.raises(DataError):
            Histories.from_csr(sparse.csr_matrix([[value, 1.0]]))


def test_a_typical_length_has_two_digits() -> None:
    lists = [[*range(n)] for n in (3, 197, 250)]
    assert Histories.from_lists(lists, 300).typical_length() == 200
    assert Histories.from_lists([], 300).typical_length() == 0
