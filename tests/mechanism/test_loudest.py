"""`loudest`: exactly two output probabilities, whatever the gradient."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.mechanism import Loudest, Shape
from sottovoce.mechanism.coin import WORD, exp_epsilon
from sottovoce.mechanism.loudest import best_fraction, normal_gain
from sottovoce.model import Histories, initial_items, user_vectors
from tests.people import random_people

small = st.sampled_from([1, 2, 3, 4, 7, 8])
values = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, 1.0, 2.0])


def row_probabilities(mechanism: Loudest, a: np.ndarray, mask: int, b: float) -> list[Fraction]:
    """Of every signed row, counted over all words, exactly."""
    rows, loud = mechanism.n_signed_rows, mechanism.loud
    gamma = Fraction(mechanism.blanket_below, WORD)
    out = [gamma / rows] * rows
    chosen = mechanism.loud_rows(a[None, :].astype(np.float32), np.array([[mask]]))[0]
    for rank in range(loud):
        # How many of the 2^64 words `multiply_high` sends to this rank.
        share = Fraction(-(-(rank + 1) * WORD // loud) - -(-rank * WORD // loud), WORD)
        named = rank ^ mask if b == 0 else int(chosen[rank]) ^ int(b > 0)
        out[named] += (1 - gamma) * share
    return out


@given(small, st.floats(0.05, 8), st.data())
def test_two_probabilities_with_ratio_e_to_the_epsilon(
    n_items: int, epsilon: float, data: st.DataObject
) -> None:
    """Ties, zeros and the zero gradient included; L as chosen, or any."""
    auto = Loudest(Shape(n_items, 2, 1.0), epsilon)
    loud = data.draw(st.sampled_from([0, 1, auto.rotation.rows]))
    mechanism = Loudest(Shape(n_items, 2, 1.0), epsilon, loud=loud)
    rows = mechanism.rotation.rows
    a = np.array(data.draw(st.lists(values, min_size=rows, max_size=rows)))
    mask = data.draw(st.integers(0, 2 * rows - 1))
    b = data.draw(st.sampled_from([-1.0, 0.0, 1.0]))
    probabilities = row_probabilities(mechanism, a, mask, b)
    assert sum(probabilities) == 1
    quiet = Fraction(mechanism.blanket_below, WORD) / (2 * rows)
    louder = [p for p in probabilities if p > quiet]
    assert len(louder) == mechanism.loud
    assert all(p == quiet for p in probabilities if p <= quiet)
    # The loud ones are equal but for one word in 2^64, and none is above e^eps times the quiet.
    assert max(louder) - min(louder) <= Fraction(1, WORD)
    ratio = max(louder) / quiet
    bound = exp_epsilon(epsilon)
    assert ratio <= Fraction(bound)
    assert float(ratio) == pytest.approx(exp(epsilon), rel=1e-9)


@given(small, st.data())
def test_the_loud_rows_agree_most(n_items: int, data: st.DataObject) -> None:
    mechanism = Loudest(Shape(n_items, 1, 1.0), 2.0)
    rows = mechanism.rotation.rows
    a = np.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), np.float32)
    mask = data.draw(st.integers(0, 2 * rows - 1))
    chosen = mechanism.loud_rows(a[None, :], np.array([[mask]]))[0]
    assert len(set(chosen.tolist())) == mechanism.loud
    agreement = np.stack([-a, a], axis=-1).ravel()
    others = np.setdiff1d(np.arange(2 * rows), chosen)
    if len(others):
        assert agreement[chosen].min() >= agreement[others].max()


def test_every_tied_row_has_the_same_chance() -> None:
    """Over all masks, a zero gradient makes each signed row loud equally often."""
    mechanism = Loudest(Shape(8, 1, 1.0), 2.0, loud=3)
    masks = np.arange(16)[:, None]
    chosen = mechanism.loud_rows(np.zeros((16, 8), np.float32), masks)
    assert np.bincount(chosen.ravel(), minlength=16).tolist() == [3] * 16


def test_reports_follow_the_enumerated_probabilities() -> None:
    """The whole path from words to bytes: chi-square over rows, false alarm below 1e-7."""
    h = Histories.from_lists([[0, 2, 3]], 8)
    V = initial_items(8, 1, 0.5, 0)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    mechanism = Loudest(Shape(8, 1, 1.0), 1.5)
    n = 300_000
    words = np.random.default_rng(3).integers(0, 2**64, (1, n + 1, 4), dtype=np.uint64)
    reports = mechanism.reports(V, X, h, words)[0]
    mask = int(words[0, -1, 0]) * 16 >> 64
    a = mechanism.rotation.all_rows(V, X, h)[0]
    b = float(mechanism.rotation.user_columns(X)[0, 0])
    expected = n * np.array([float(p) for p in row_probabilities(mechanism, a, mask, b)])
    chi_square = ((np.bincount(reports, minlength=16) - expected) ** 2 / expected).sum()
    assert chi_square < 15 + 6 * np.sqrt(30)


def test_an_empty_history_reports_uniformly() -> None:
    """Nothing to say: over random masks every signed row comes equally often."""
    n = 40_000
    h = Histories.from_lists([[]] * n, 4)
    V = initial_items(4, 1, 0.5, 0)
    mechanism = Loudest(Shape(4, 1, 1.0), 3.0)
    words = np.random.default_rng(3).integers(0, 2**64, (n, 2, 4), dtype=np.uint64)
    reports = mechanism.reports(V, np.zeros((n, 1), np.float32), h, words)
    chi_square = ((np.bincount(reports.ravel(), minlength=8) - n / 8) ** 2 / (n / 8)).sum()
    assert chi_square < 7 + 6 * np.sqrt(14)


@pytest.mark.parametrize(("epsilon", "gain"), [(1, 0.397), (2.5, 0.976), (5, 1.851), (10, 3.26)])
def test_gains_beat_the_sign(epsilon: float, gain: float) -> None:
    assert normal_gain(epsilon, best_fraction(epsilon)) == pytest.approx(gain, abs=1e-3)
    assert gain > 0.798 * np.tanh(epsilon / 2)


def test_the_gain_is_what_reports_carry() -> None:
    """Measured agreement of reports with normal shares: within 5 standard errors."""
    rng = np.random.default_rng(0)
    mechanism = Loudest(Shape(256, 1, 1.0), 2.5)
    agreements = []
    for _ in range(400):
        a = rng.standard_normal((1, 256)).astype(np.float32)
        mask = rng.integers(0, 512, (1, 1))
        chosen = mechanism.loud_rows(a, mask)[0]
        signed = np.stack([-a[0], a[0]], axis=-1).ravel()
        agreements.append((1 - mechanism.gamma) * signed[chosen].mean())
    error = np.std(agreements) / np.sqrt(len(agreements))
    assert abs(np.mean(agreements) - mechanism.gain) < 5 * error + 0.01


@pytest.mark.parametrize("loud", [-1, 9])
def test_an_impossible_number_of_loud_rows_is_refused(loud: int) -> None:
    with pytest.raises(SettingsError, match="loud"):
        Loudest(Shape(8, 1, 1.0), 1.0, loud=loud)


def test_a_user_who_has_everything() -> None:
    h = Histories.from_lists([list(range(8))], 8)
    V = initial_items(8, 2, 0.5, 0)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    words = np.random.default_rng(3).integers(0, 2**64, (1, 11, 4), dtype=np.uint64)
    assert Loudest(Shape(8, 2, 1.0), 1.0).reports(V, X, h, words).shape == (1, 10)


def test_loud_rows_on_real_histories_have_the_same_number_for_everybody() -> None:
    h = random_people(50, 20, seed=8)
    V = initial_items(20, 2, 0.5, 0)
    X = user_vectors(V, h, alpha=1.0, regularization=1e-6)
    mechanism = Loudest(Shape(20, 2, 1.0), 1.0)
    a = mechanism.rotation.all_rows(V, X, h)
    chosen = mechanism.loud_rows(a, np.zeros((50, 1), np.int64))
    assert chosen.shape == (50, mechanism.loud)
    assert all(len(set(row)) == mechanism.loud for row in chosen.tolist())
