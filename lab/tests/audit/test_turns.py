"""The attack on people who take turns, and the compiled code behind it.

Everything here is keyed: the same numbers every time.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

from sottovoce.core import MECHANISMS, Histories, user_vectors
from sottovoce.data import Interactions, synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.people import report_words
from sottovoce.training import Settings
from sottovoce_lab.audit import AttackPlan, run_attack
from sottovoce_lab.audit.attack import published, shuffled_bound
from sottovoce_lab.audit.densities import mean_density, report_densities
from sottovoce_lab.audit.knowledge import Knowledge, takes_part
from sottovoce_lab.audit.worlds import all_trials, choose_targets, victims_of
from sottovoce_lab.paper.attacker import largest_area

EPOCHS, CROWDS, VICTIMS = 4, 150, 20
ERRORS = 4
"""Standard errors that a fixed seed may be off by."""


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=150, n_items=60, seed=0)


def settings_of(mechanism: str, **changes: Any) -> Settings:
    return Settings.preset(mechanism, **{"reports": 40, "epochs": EPOCHS, **changes})


def some_items(n_items: int, factors: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(0).normal(0, 0.3, (n_items, factors)).astype(np.float32)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_compiled_densities_are_the_mechanism_s_own(people: Interactions, mechanism: str) -> None:
    settings, V = settings_of(mechanism, factors=5), some_items(60, 5)
    V[7] = V[8]  # ties
    some = Histories.from_lists([[], *(list(people.histories[user]) for user in range(30))], 60)
    built = settings.build(60)
    X = user_vectors(V, some, alpha=settings.alpha, regularization=settings.user_ridge(V))
    expected = built.densities(V, X, some)
    np.testing.assert_array_equal(report_densities(built, settings, V, some), expected)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_trial_is_a_person_with_the_history_of_its_world(
    people: Interactions, mechanism: str
) -> None:
    settings, V = settings_of(mechanism), some_items(60, 5)
    targets = choose_targets(people.histories, 6, "interaction", np.random.default_rng(0))
    trials = all_trials(6, 3)
    victims = victims_of(targets, trials)
    for number, (place, is_true) in enumerate(zip(trials.victim, trials.is_true, strict=True)):
        world = targets.true if is_true else targets.other
        assert list(victims[number]) == list(world[int(place)])
    X = user_vectors(V, victims, alpha=settings.alpha, regularization=settings.user_ridge(V))
    words = report_words(settings.seed, 9, np.arange(len(trials.victim)), settings.reports)
    expected = settings.build(60).reports(V, X, victims, words)
    seen = build_engine("cpu", victims, settings, threads=1).reports(V, 9)
    np.testing.assert_array_equal(seen, expected)


def test_everybody_takes_all_turns_in_every_crowd() -> None:
    settings = settings_of("loudest", lifetime=3, epochs=5)
    takes = np.array([takes_part(settings, epoch, 4, 200) for epoch in range(5)])
    assert takes.shape == (5, 4, 200)
    assert (takes.sum(axis=0) == 3).all()
    assert len({crowd.tobytes() for crowd in takes[0]}) == 4
    assert takes_part(settings_of("loudest"), 2, 4, 200).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_lie_around_zero_in_a_victim_s_turn_and_at_zero_else(
    people: Interactions, mechanism: str
) -> None:
    settings, histories = settings_of(mechanism, lifetime=1), people.histories
    always = settings.changed(lifetime=EPOCHS)
    targets = choose_targets(histories, VICTIMS, "history", np.random.default_rng(1))
    trials = all_trials(VICTIMS, CROWDS)
    engine = build_engine("cpu", histories, always, threads=1)
    own = build_engine("cpu", victims_of(targets, trials), always, threads=1)
    (V,) = published(settings, engine, histories.n_items, 1)
    seen = Knowledge(settings, engine, own, histories, targets, trials, V, 2)
    takes = takes_part(settings, 2, CROWDS, histories.n_users)
    turn = takes[trials.crowd, targets.victims[trials.victim]]
    linked, unlinked = seen.linked(40), seen.unlinked(40)
    for scores in (linked, unlinked):
        assert not scores[~turn].any()
        assert scores[turn].all()
    built = settings.build(histories.n_items)
    f1 = report_densities(built, settings, V, targets.true).astype(np.float64)
    f0 = report_densities(built, settings, V, targets.other).astype(np.float64)
    distance = 40 * ((f1 - f0) ** 2 / mean_density(built, settings, V, histories)).mean(axis=1)
    off = unlinked - turn * np.where(trials.is_true, 1, -1) * distance[trials.victim] / 2
    by_crowd = off.reshape(CROWDS, 2 * VICTIMS).sum(axis=1)
    assert abs(by_crowd.mean()) < ERRORS * by_crowd.std() / sqrt(CROWDS)


def test_turns_are_under_their_bounds_and_betray_less(people: Interactions) -> None:
    plan = AttackPlan(trials=1600, crowds=20, question="history", points=((1, EPOCHS),), threads=1)
    once, always = (
        settings_of("loudest", reports=1, lifetime=lifetime) for lifetime in (1, EPOCHS)
    )
    (seldom,) = run_attack(people.histories, once, plan).points
    (often,) = run_attack(people.histories, always, plan).points
    assert seldom.linked.value < largest_area(once.epsilon) + ERRORS * seldom.linked.error
    assert often.linked.value > largest_area(once.epsilon) + ERRORS * seldom.linked.error
    assert seldom.linked.value > 0.5 + ERRORS * seldom.linked.error
    assert seldom.unlinked.value < seldom.bound + ERRORS * seldom.unlinked.error
    assert seldom.bound == shuffled_bound(once.build(60), 1, 1, once.crowd(150))
