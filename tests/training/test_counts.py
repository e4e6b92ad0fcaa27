"""Counts of reports, and the cap that an honest crowd never reaches."""

from math import exp

import numpy as np
import pytest
from scipy import stats

from sottovoce.core import MECHANISMS, Histories, Mechanism, count_reports, solve_user_vectors
from sottovoce.privacy import Reporting
from sottovoce.simulation.random_words import draw_report_words
from sottovoce.training import Settings, make_first_items
from sottovoce.training.counts import TAIL_PROBABILITY, cap_counts, compute_max_count
from tests.people import random_people

N_ITEMS = 30
N_FACTORS = 2
N_PEOPLE = 400
N_REPORTS = 20


@pytest.mark.parametrize("n_reports", [0, 1, 2, 10, 1000, 10**6, 10**10])
@pytest.mark.parametrize("rho", [0.5, 0.01])
def test_the_cap_is_the_binomial_quantile(n_reports: int, rho: float) -> None:
    for epsilon in (0.1, 2.5, 10.0, 40.0):
        event = Reporting(epsilon, 1, 1, rho)
        for kinds in (2, 200, 2**21):
            likely = min(event.blanket * exp(epsilon) / kinds, 1.0)
            expected = stats.binom.isf(TAIL_PROBABILITY, n_reports, likely)
            assert compute_max_count(n_reports, event, kinds) == expected, (epsilon, kinds)


# A whole honest crowd may name the same item, so names have no cap.
CAPPED_MECHANISMS = [name for name, kind in MECHANISMS.items() if not kind.asks_for_names]


def build(name: str, **settings: float) -> Mechanism:
    return Settings.preset(name, factors=N_FACTORS, **settings).build(N_ITEMS)


def count_honest(name: str, people: Histories, epsilon: float) -> np.ndarray:
    """Count the reports of people whose model is not the first one, which is nearly zero."""
    settings = Settings.preset(
        name, epsilon=epsilon, reports=N_REPORTS, factors=N_FACTORS, initial_scale=0.3
    )
    V = make_first_items(settings, N_ITEMS)
    X = solve_user_vectors(V, people, alpha=settings.alpha, regularization=settings.regularization)
    words = draw_report_words(5, 0, np.arange(people.n_users), N_REPORTS)
    mechanism = settings.build(N_ITEMS)
    return count_reports(mechanism.reports(V, X, people, words), mechanism.n_directions)


@pytest.mark.parametrize("epsilon", [0.5, 2.5, 10.0])
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("identical", [False, True])
def test_an_honest_crowd_is_never_capped(name: str, epsilon: float, identical: bool) -> None:
    # Chance caps less than one crowd in a million: 256 kinds of reports at 1e-9.
    people = random_people(N_PEOPLE, N_ITEMS, seed=3)
    if identical:
        people = Histories.from_lists([people[1].tolist()] * N_PEOPLE, N_ITEMS)
    counts = count_honest(name, people, epsilon)
    assert counts.sum() == N_PEOPLE * N_REPORTS
    event = build(name, epsilon=epsilon).event(N_REPORTS, 1)
    assert np.array_equal(cap_counts(counts, event), counts)


@pytest.mark.parametrize("name", CAPPED_MECHANISMS)
def test_dummies_are_not_capped_but_a_flood_among_them_is(name: str) -> None:
    """Chance caps one of 20 people and 20,000 dummies in less than one of a million crowds."""
    mechanism = build(name)
    event, kinds, dummies = mechanism.event(N_REPORTS, 1), 2 * mechanism.n_directions, 20_000
    by_people = count_honest(name, random_people(20, N_ITEMS, seed=3), mechanism.epsilon)
    drawn = np.random.default_rng(4).integers(kinds, size=dummies, dtype=np.uint32)
    counts = by_people + count_reports(drawn, mechanism.n_directions)
    # People alone would not explain these counts.
    assert counts.max() > compute_max_count(by_people.sum(), event, kinds)
    assert np.array_equal(cap_counts(counts, event, dummies), counts)
    flooded = counts.copy()
    flooded[7] += 20 * N_REPORTS
    capped = cap_counts(flooded, event, dummies)
    assert capped[7] < cap_counts(flooded, event)[7], "dummies allow less than as many people"
    by_chance = stats.binom.isf(TAIL_PROBABILITY, dummies, 1 / kinds)
    cap = compute_max_count(40 * N_REPORTS, event, kinds) + by_chance
    assert counts[7] < capped[7] == cap < flooded[7]
    capped[7] = counts[7]
    assert np.array_equal(capped, counts)


@pytest.mark.parametrize("name", CAPPED_MECHANISMS)
def test_a_flood_is_cut_to_the_cap_and_other_counts_stay(name: str) -> None:
    mechanism = build(name)
    honest = count_honest(name, random_people(N_PEOPLE, N_ITEMS, seed=3), mechanism.epsilon)
    flooded = honest.copy()
    flooded[7] += N_PEOPLE * N_REPORTS
    event = mechanism.event(N_REPORTS, 1)
    capped = cap_counts(flooded, event)
    cap = compute_max_count(2 * N_PEOPLE * N_REPORTS, event, len(flooded))
    assert capped[7] == cap < 0.2 * flooded[7]
    capped[7] = honest[7]
    assert np.array_equal(capped, honest)
