from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core import Histories, initial_items, predictions
from sottovoce.data import Interactions, Split, leave_one_out
from sottovoce.errors import SettingsError
from sottovoce.simulation.evaluation import (
    Candidates,
    hit_ratio,
    rank_factors,
    rank_scores,
    sample_candidates,
)
from tests.people import histories, random_people


def split_of(h: Histories, seed: int = 0) -> Split:
    data = Interactions("test", h, np.arange(h.n_users), np.arange(h.n_items))
    return leave_one_out(data, "random", seed)


class FactorScorer:
    """A factor model seen as any model."""

    def __init__(self, X: np.ndarray, V: np.ndarray):
        self.X, self.V = X, V

    def scores(self, users: np.ndarray) -> np.ndarray:
        return predictions(self.X[users][:, None, :], self.V[None])


@given(histories(max_items=30), st.integers(0, 40), st.integers(0, 2**63))
def test_negatives_are_distinct_and_untouched(h: Histories, wanted: int, seed: int) -> None:
    split = split_of(h)
    candidates = sample_candidates(split, wanted, seed)
    for user in range(h.n_users):
        drawn = [int(i) for i in candidates.items[user] if i >= 0]
        untouched = set(range(h.n_items)) - set(h[user].tolist())
        assert len(set(drawn)) == len(drawn) == min(wanted, len(untouched))
        assert set(drawn) <= untouched


def test_negatives_are_uniform_and_the_same_for_the_same_seed() -> None:
    """Chi-square over the 190 untouched items of 4,000 users, false alarm below 1e-7."""
    h = Histories.from_lists([list(range(10))] * 4000, 200)
    split = split_of(h)
    drawn = sample_candidates(split, 20, 5).items
    counts = np.bincount(drawn.ravel(), minlength=200)
    assert not counts[:10].any()
    expected = drawn.size / 190
    chi_square = ((counts[10:] - expected) ** 2 / expected).sum()
    assert abs(chi_square - 189) < 6 * np.sqrt(2 * 189)
    assert np.array_equal(sample_candidates(split, 20, 5).items, drawn)
    assert not np.array_equal(sample_candidates(split, 20, 6).items, drawn)


@given(histories(max_users=8, max_items=25), st.sampled_from([0, 1, 5, 99]), st.booleans())
def test_both_ways_in_give_the_same_ranks(h: Histories, negatives: int, tied: bool) -> None:
    """Compiled factors, dense scores, and a count by hand."""
    split = split_of(h)
    candidates = sample_candidates(split, negatives, 3)
    X, V = initial_items(h.n_users, 2, 1.0, 1), initial_items(h.n_items, 2, 1.0, 2)
    if tied:
        X, V = np.round(X), np.round(V)
    fast = rank_factors(X, V, candidates)
    general = rank_scores(FactorScorer(X, V), candidates)
    assert np.array_equal(fast.better, general.better)
    assert np.array_equal(fast.ties, general.ties)
    by_hand = []
    for user in range(h.n_users):
        others = competitors(candidates, h, user)
        if split.test[user] >= 0 and others:
            own = predictions(X[user], V[split.test[user]])
            by_hand.append(sum(predictions(X[user], V[i]) > own for i in others))
    assert fast.better.tolist() == by_hand


def competitors(candidates: Candidates, h: Histories, user: int) -> list[int]:
    if candidates.full:
        return sorted(set(range(h.n_items)) - set(h[user].tolist()))
    return [int(i) for i in candidates.items[user] if i >= 0]


def test_chance_is_chance() -> None:
    """Random factors: HR@10 of 100 is 0.10 within 5 sigma; full ranking is 10 of the untouched."""
    h = random_people(3000, 300, seed=1, most=50)
    split = split_of(h)
    X, V = initial_items(3000, 4, 1.0, 1), initial_items(300, 4, 1.0, 2)
    ranks = rank_factors(X, V, sample_candidates(split, 99, 0))
    n = len(ranks.better)
    assert abs(hit_ratio(ranks, 10) - 0.1) < 5 * np.sqrt(0.09 / n)
    full = rank_factors(X, V, sample_candidates(split, 0, 0))
    assert hit_ratio(full, 10) < 0.06


def test_users_who_cannot_be_tested_are_left_out() -> None:
    h = Histories.from_lists([[0], [0, 1, 2], [0, 1]], 3)
    split = split_of(h)
    X, V = initial_items(3, 1, 1.0, 1), initial_items(3, 1, 1.0, 2)
    for negatives in (0, 99):
        ranks = rank_factors(X, V, sample_candidates(split, negatives, 0))
        assert len(ranks.better) == 1  # one item only; everything touched; tested


def test_negative_negatives_are_refused() -> None:
    with pytest.raises(SettingsError, match="negatives"):
        sample_candidates(split_of(random_people(3, 5)), -1, 0)
