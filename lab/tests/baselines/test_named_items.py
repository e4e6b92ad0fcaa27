"""Own items by name: how often they are true, for whom, and what is made of them."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest

from sottovoce.core import Histories
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines import NamedItems, factorized

N, M, EPSILON = 20_000, 8, 1.5
DEVIATIONS = 6.0
"""False alarms: below 2e-9 for each of the numbers that are compared."""


def chances(history: list[int]) -> np.ndarray:
    """How often each item is named by people with this history."""
    people = Histories.from_lists([history] * N, M)
    named = np.concatenate(list(NamedItems(M, EPSILON, 1).blocks(people, seed=5)))
    return np.bincount(named.ravel(), minlength=M) / N


@pytest.mark.parametrize("history", [[3], [0, 7], [], list(range(M))])
def test_how_often_each_item_is_named(history: list[int]) -> None:
    truth = exp(EPSILON) / (exp(EPSILON) + M - 1)
    drawn = np.full(M, 1 / M)
    if history:
        drawn = np.isin(np.arange(M), history) / len(history)
    expected = drawn * truth + (1 - drawn) * (1 - truth) / (M - 1)
    noise = np.sqrt(expected * (1 - expected) / N)
    assert (np.abs(chances(history) - expected) < DEVIATIONS * noise).all()
    assert expected.max() / expected.min() <= exp(EPSILON) * (1 + 1e-12)


def test_no_history_makes_a_report_likelier_than_epsilon_allows() -> None:
    ratio = chances([3]) / chances([4])
    slack = 1 + DEVIATIONS * sqrt(2 * M * exp(EPSILON) / N)
    assert ratio.max() < exp(EPSILON) * slack
    assert ratio.max() > exp(EPSILON) / slack, "it is as true as it may be"


def test_much_epsilon_counts_and_factorises_what_there_is() -> None:
    people = synthetic_people(n_users=2500, n_items=40, seed=1).histories
    how = NamedItems(people.n_items, 20.0, 200)
    counted = how.counted(people, seed=0).counts
    shares = people.to_csr().multiply(1 / np.diff(people.indptr)[:, None]).sum(axis=0)
    assert np.corrcoef(counted, np.ravel(shares))[0, 1] > 0.999
    named = how.histories(people, seed=0)
    assert named.n_users == people.n_users
    assert abs(named.to_csr() - people.to_csr()).sum() < 0.01 * people.to_csr().nnz
    model = factorized(
        people, epsilon=20.0, reports=200, seed=0,
        factors=2, alpha=4.0, regularization=1.0, iterations=2,
    )  # fmt: skip
    assert model.V.shape == (40, 2)


def test_a_seed_gives_the_same_reports_and_bad_settings_are_refused() -> None:
    people = synthetic_people(n_users=30, n_items=20, seed=1).histories
    first, again, other = (
        np.concatenate(list(NamedItems(20, 2.0, 3).blocks(people, seed))) for seed in (4, 4, 5)
    )
    assert (first == again).all()
    assert (first != other).any()
    with pytest.raises(SettingsError, match="at least 1"):
        NamedItems(20, 2.0, 0)
    with pytest.raises(SettingsError, match="epsilon"):
        NamedItems(20, 0.0, 1)
