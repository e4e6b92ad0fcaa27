"""Items that people name: how likely each name is, and what many names show."""

from math import exp

import numpy as np
import pytest

from sottovoce.core import Histories
from sottovoce.data import synthetic_people
from sottovoce.errors import SettingsError
from sottovoce_lab.baselines import NamedItems, factorize_named_items

N_PEOPLE = 20_000
N_ITEMS = 8
EPSILON = 1.5
# A false alarm is below 2e-9 for each of the numbers that are compared.
MAX_DEVIATIONS = 6.0


def name_all(rule: NamedItems, people: Histories, seed: int) -> np.ndarray:
    return np.concatenate(list(rule.name_in_blocks(people, seed)))


@pytest.mark.parametrize("history", [[3], [0, 7], [], list(range(N_ITEMS))])
def test_how_often_each_item_is_named(history: list[int]) -> None:
    truth = exp(EPSILON) / (exp(EPSILON) + N_ITEMS - 1)
    drawn = np.full(N_ITEMS, 1 / N_ITEMS)
    if history:
        drawn = np.isin(np.arange(N_ITEMS), history) / len(history)
    expected = drawn * truth + (1 - drawn) * (1 - truth) / (N_ITEMS - 1)
    people = Histories.from_lists([history] * N_PEOPLE, N_ITEMS)
    names = name_all(NamedItems(N_ITEMS, EPSILON, 1), people, seed=5)
    frequencies = np.bincount(names.ravel(), minlength=N_ITEMS) / N_PEOPLE
    deviations = np.sqrt(expected * (1 - expected) / N_PEOPLE)
    assert (np.abs(frequencies - expected) < MAX_DEVIATIONS * deviations).all()
    assert expected.max() / expected.min() <= exp(EPSILON) * (1 + 1e-12)


def test_with_a_large_epsilon_names_show_popularity_and_histories() -> None:
    people = synthetic_people(n_users=2500, n_items=40, seed=1).histories
    rule = NamedItems(people.n_items, 20.0, 200)
    counts = rule.count_popularity(people, seed=0).counts
    shares = people.to_csr().multiply(1 / np.diff(people.indptr)[:, None]).sum(axis=0)
    assert np.corrcoef(counts, np.ravel(shares))[0, 1] > 0.999
    histories = rule.collect_histories(people, seed=0)
    assert histories.n_users == people.n_users
    assert abs(histories.to_csr() - people.to_csr()).sum() < 0.01 * people.to_csr().nnz
    model = factorize_named_items(
        people, epsilon=20.0, reports=200, seed=0,
        factors=2, alpha=4.0, regularization=1.0, iterations=2,
    )  # fmt: skip
    assert model.V.shape == (40, 2)


def test_names_depend_only_on_the_seed() -> None:
    people = synthetic_people(n_users=30, n_items=20, seed=1).histories
    first, again, other = (name_all(NamedItems(20, 2.0, 3), people, seed) for seed in (4, 4, 5))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(("epsilon", "reports"), [(2.0, 0), (0.0, 1)])
def test_wrong_options_are_refused(epsilon: float, reports: int) -> None:
    with pytest.raises(SettingsError):
        NamedItems(20, epsilon, reports)
