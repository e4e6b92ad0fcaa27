"""From reports to sums: the same as `sum_signs`, and no report more often than people send it."""

from math import exp

import numpy as np
import pytest
from scipy import stats

from sottovoce.core import MECHANISMS, Histories, count_reports, user_vectors
from sottovoce.privacy import Reporting
from sottovoce.simulation.people import report_words
from sottovoce.training import Settings, first_items
from sottovoce.training.counts import TAIL, capped, most_of_one
from tests.people import random_people

ITEMS, FACTORS, PEOPLE, REPORTS = 30, 2, 400, 20


@pytest.mark.parametrize("n_reports", [0, 1, 2, 10, 1000, 10**6, 10**10])
@pytest.mark.parametrize("rho", [0.5, 0.01])
def test_the_cap_is_the_binomial_quantile(n_reports: int, rho: float) -> None:
    """Exact: the least number that is exceeded by a chance of at most `TAIL`."""
    for epsilon in (0.1, 2.5, 10.0, 40.0):
        event = Reporting(epsilon, 1, 1, rho)
        for kinds in (2, 200, 2**21):
            likely = min(event.blanket * exp(epsilon) / kinds, 1.0)
            found = most_of_one(n_reports, event, kinds)
            assert found == stats.binom.isf(TAIL, n_reports, likely), (epsilon, kinds)


def reports_of(mechanism: str, people: Histories, epsilon: float) -> np.ndarray:
    """A second epoch's, of people with a model that has learnt."""
    settings = Settings.preset(
        mechanism, epsilon=epsilon, reports=REPORTS, factors=FACTORS, initial_scale=0.3
    )
    V = first_items(settings, ITEMS)
    x = user_vectors(V, people, alpha=settings.alpha, regularization=settings.regularization)
    words = report_words(5, 0, np.arange(people.n_users), REPORTS)
    return settings.build(ITEMS).reports(V, x, people, words)


@pytest.mark.parametrize("epsilon", [0.5, 2.5, 10.0])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("alike", [False, True])
def test_an_honest_crowd_is_never_capped(mechanism: str, epsilon: float, alike: bool) -> None:
    """Not even one of people who are all the same person.

    By chance it would be in less than one of a million crowds: 256 kinds of reports at 1e-9.
    """
    people = random_people(PEOPLE, ITEMS, seed=3)
    if alike:
        people = Histories.from_lists([people[1].tolist()] * PEOPLE, ITEMS)
    built = Settings.preset(mechanism, epsilon=epsilon, factors=FACTORS).build(ITEMS)
    counts = count_reports(reports_of(mechanism, people, epsilon), built.n_directions)
    assert counts.sum() == PEOPLE * REPORTS
    assert np.array_equal(capped(counts, built.event(REPORTS, 1)), counts)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_dummies_pass_where_people_are_few_and_a_flood_does_not(mechanism: str) -> None:
    """Twenty people beside 20,000 dummies, of which chance cuts one in less than 1e6 crowds."""
    built = Settings.preset(mechanism, factors=FACTORS).build(ITEMS)
    event, kinds, dummies = built.event(REPORTS, 1), 2 * built.n_directions, 20_000
    people = reports_of(mechanism, random_people(20, ITEMS, seed=3), built.epsilon)
    drawn = np.random.default_rng(4).integers(kinds, size=dummies, dtype=np.uint32)
    by_people = count_reports(people, built.n_directions)
    counts = by_people + count_reports(drawn, built.n_directions)
    assert counts.max() > most_of_one(by_people.sum(), event, kinds), (
        "people alone do not explain it"
    )
    assert np.array_equal(capped(counts, event, dummies), counts)
    flooded = counts.copy()
    flooded[7] += 20 * REPORTS
    kept = capped(flooded, event, dummies)
    assert kept[7] < capped(flooded, event)[7], "dummies make less room than as many people"
    most = most_of_one(40 * REPORTS, event, kinds) + stats.binom.isf(TAIL, dummies, 1 / kinds)
    assert counts[7] < kept[7] == most < flooded[7]
    kept[7] = counts[7]
    assert np.array_equal(kept, counts)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_flood_is_cut_to_the_cap_and_the_rest_is_left(mechanism: str) -> None:
    built = Settings.preset(mechanism, factors=FACTORS).build(ITEMS)
    people = random_people(PEOPLE, ITEMS, seed=3)
    honest = count_reports(reports_of(mechanism, people, built.epsilon), built.n_directions)
    flooded = honest.copy()
    flooded[7] += PEOPLE * REPORTS
    event = built.event(REPORTS, 1)
    kept = capped(flooded, event)
    assert kept[7] == most_of_one(2 * PEOPLE * REPORTS, event, len(flooded)) < 0.2 * flooded[7]
    kept[7] = honest[7]
    assert np.array_equal(kept, honest)
