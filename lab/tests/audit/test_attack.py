"""The attack: its likelihoods are the mechanism's, linked reports betray, shuffled ones hardly.

Everything here is keyed: the same numbers every time.
"""

from dataclasses import replace
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sottovoce.core import MECHANISMS, Histories, solve_user_vectors
from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import DataError, SettingsError
from sottovoce.privacy import DEFAULT_DELTA, central_epsilon
from sottovoce.proxy.shuffle import draw_below
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.people import report_words
from sottovoce.training import Settings
from sottovoce_lab.audit import Attack, AttackPlan, run_attack
from sottovoce_lab.audit.attack import (
    AttackPoint,
    Auc,
    Knowledge,
    Question,
    Trials,
    all_trials,
    area,
    choose_targets,
    curve,
    published,
    shuffled_bound,
    takes_part,
    victims_of,
)
from sottovoce_lab.audit.audit import attack_check
from sottovoce_lab.audit.clients import mean_density, report_densities
from sottovoce_lab.paper.attacker import compute_max_auc
from tests.proxy.world import Randomness

PLAN = AttackPlan(trials=400, crowds=20, threads=1)
POINTS = ((1, 1), (10, 1), (40, 1), (40, 3))
ERRORS = 4
"""Standard errors that a fixed seed may be off by."""


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=150, n_items=60, seed=0)


def make_settings(mechanism: str, **changes: Any) -> Settings:
    return Settings.preset(mechanism, **{"reports": 40, "epochs": 3, **changes})


@pytest.fixture(scope="module")
def attacks(people: Interactions) -> dict[tuple[str, Question], Attack]:
    found: dict[tuple[str, Question], Attack] = {}
    questions: tuple[Question, ...] = ("interaction", "history")
    for mechanism in MECHANISMS:
        for question in questions:
            plan = replace(PLAN, question=question, points=POINTS)
            attack = run_attack(people.histories, make_settings(mechanism), plan)
            found[mechanism, question] = attack
    return found


# What the attacker knows of a mechanism


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_densities_are_those_of_the_reports(mechanism: str) -> None:
    settings = Settings.preset(mechanism, factors=3)
    people = Histories.from_lists([[0, 2], [1, 3, 4], []], n_items=5)
    rng = np.random.default_rng(0)
    V = rng.normal(0, 0.3, (5, 3)).astype(np.float32)
    built = settings.build(5)
    expected = report_densities(built, settings, V, people)
    assert expected.shape == (3, 2 * built.n_directions)
    np.testing.assert_allclose(expected.mean(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(expected[2], 1)  # no history, nothing to say
    X = solve_user_vectors(V, people, alpha=settings.alpha, regularization=settings.regularization)
    for user in range(2):
        alone = people.take(np.array([user]))
        words = report_words(1, user, np.array([0]), 100_000)
        reports = built.reports(V, X[user : user + 1], alone, words)[0]
        seen = np.bincount(reports, minlength=expected.shape[1])
        chances = expected[user].astype(np.float64) / expected[user].sum(dtype=np.float64)
        assert stats.chisquare(seen, chances * len(reports)).pvalue > 1e-4


# What the attacker achieves


@pytest.mark.parametrize("question", ["interaction", "history"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_shuffled_reports_stay_below_the_bound(
    attacks: dict[tuple[str, Question], Attack], mechanism: str, question: Question
) -> None:
    found = attacks[mechanism, question]
    for point in found.points:
        assert point.unlinked.value < point.bound + ERRORS * point.unlinked.error
    assert attack_check(found).passed


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_linked_reports_betray_more_the_more_there_are(
    attacks: dict[tuple[str, Question], Attack], mechanism: str
) -> None:
    for question in ("interaction", "history"):
        points = attacks[mechanism, question].points
        for fewer, more in pairwise(points):
            error = sqrt(fewer.linked.error**2 + more.linked.error**2)
            assert more.linked.value >= fewer.linked.value - error
        gain = points[-1].linked.value - points[0].linked.value
        assert gain > ERRORS * points[0].linked.error
    assert attacks[mechanism, "history"].points[-1].linked.value > 0.98


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_proxy_buys_something(
    attacks: dict[tuple[str, Question], Attack], mechanism: str
) -> None:
    last = attacks[mechanism, "history"].points[-1]
    assert last.unlinked.value + ERRORS * last.unlinked.error < last.linked.value


def test_the_shuffled_attack_does_see_something(
    attacks: dict[tuple[str, Question], Attack],
) -> None:
    for mechanism in ("coordinate", "loudest"):
        last = attacks[mechanism, "history"].points[-1]
        assert last.unlinked.value > 0.5 + ERRORS * last.unlinked.error


# One person whose whole crowd is fake: the attacker knows every report but theirs and the dummies.

FILMS, WORLDS = 64, 2000
"""Trials in each of the two worlds."""
CHANCE = sqrt(log(1e6) / (2 * WORLDS))
"""By so much an area over pairs of trials is off once in a million (Hoeffding for U-statistics)."""


def area_among(dummies: int, settings: Settings) -> float:
    """Of the likelihood ratio, which no test beats: each report may be the victim's."""
    mechanism = settings.build(FILMS)
    V = np.random.default_rng(1).normal(0, 0.3, (FILMS, settings.factors)).astype(np.float32)
    both = Histories.from_lists([range(10), range(30, 45)], FILMS)
    density = report_densities(mechanism, settings, V, both).astype(np.float64)
    truth = np.repeat([0, 1], WORLDS)
    people = both.take(truth)
    X = solve_user_vectors(
        V, people, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    words = report_words(dummies, 0, np.arange(len(truth)), 1)
    own = mechanism.reports(V, X, people, words)[:, 0]
    kinds, entropy = density.shape[1], Randomness(dummies)
    scores = np.empty(len(truth))
    for trial, report in enumerate(own):
        counts = np.bincount(draw_below(dummies, kinds, entropy), minlength=kinds)
        counts[report] += 1
        scores[trial] = np.subtract(*np.log(density @ counts)[::-1])
    alike = np.zeros_like(truth)
    return area(scores, Trials(alike, alike, truth == 1)).value


def test_dummies_alone_hide_a_person_among_fakes_as_promised() -> None:
    """Nearly certain without them; with as many as make it central 1, at most what that allows."""
    options = {"block": 64, "loud": 1}
    settings = Settings("loudest", 10.0, reports=1, epochs=1, factors=2, options=options)
    event = settings.event(FILMS)
    assert event.loud_fraction == 1 / 256
    dummies = next(
        number
        for number in range(1000, 100_000, 500)
        if central_epsilon(replace(event, dummies=number), 1, DEFAULT_DELTA) <= 1
    )
    found = {number: area_among(number, settings) for number in (0, dummies // 1000, dummies)}
    hidden = replace(event, dummies=dummies)
    allowed = min(
        compute_max_auc(central_epsilon(hidden, 1, delta), delta)
        for delta in (DEFAULT_DELTA, 0.01, 0.05, 0.1)
    )
    assert allowed < compute_max_auc(1.0, DEFAULT_DELTA) - CHANCE, (
        "what holds at other deltas is sharper"
    )
    assert found[0] > 0.9 + CHANCE
    assert found[dummies // 1000] > allowed + CHANCE, "too few are seen through"
    assert found[dummies] < allowed + CHANCE


def test_a_larger_epsilon_betrays_more(people: Interactions) -> None:
    of = [make_settings("loudest", epsilon=epsilon, epochs=1) for epsilon in (0.5, 2.0, 5.0)]
    plan = replace(PLAN, question="history", points=((2, 1),))
    found = [run_attack(people.histories, settings, plan) for settings in of]
    values = [attack.points[0].linked.value for attack in found]
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.2


def test_the_same_seed_is_the_same_attack(people: Interactions) -> None:
    settings = make_settings("coordinate", reports=5, epochs=2)
    plan = AttackPlan(trials=80, crowds=4)
    one, same, other = (
        run_attack(people.histories, settings, each)
        for each in (plan, replace(plan, threads=2), replace(plan, seed=1))
    )
    assert one == same
    assert one.points != other.points


# Victims, points, curves


def test_nobody_to_attack() -> None:
    few = Histories.from_lists([[0], []], n_items=3)
    with pytest.raises(DataError):
        choose_targets(few, 4, "interaction", np.random.default_rng(0))


def test_curve_climbs_to_the_whole_training() -> None:
    assert curve(10, 3) == ((1, 1), (2, 1), (5, 1), (10, 1), (10, 2), (10, 3))
    assert curve(1, 1) == ((1, 1),)


def test_area() -> None:
    pair = Trials(np.array([0, 0, 1, 1]), np.zeros(4, np.int64), np.array([True, False] * 2))
    assert area(np.array([2.0, 1.0, 4.0, 3.0]), pair).value == 0.75
    assert area(np.array([3.0, 1.0, 4.0, 1.0]), pair) == Auc(1.0, 0.0)
    assert area(np.zeros(4), pair) == Auc(0.5, 0.0)
    assert area(np.array([1.0, 2.0, 4.0, 3.0]), pair).value == 0.5


def test_error_of_an_area_covers_its_spread() -> None:
    """Crowds and victims both have noise of their own, shared by the two worlds."""
    rng = np.random.default_rng(0)
    trials = all_trials(10, 20)
    found = []
    for _ in range(200):
        noise = rng.normal(size=20)[trials.crowd] + rng.normal(size=len(trials.crowd))
        signal = rng.uniform(0, 2, 10)[trials.victim] * trials.is_true
        found.append(area(noise + signal, trials))
    spread = np.std([each.value for each in found])
    assert spread < np.mean([each.error for each in found]) < 1.5 * spread


def test_every_victim_is_in_every_crowd_in_both_worlds() -> None:
    trials = all_trials(3, 4)
    cells = set(zip(trials.crowd, trials.victim, trials.is_true, strict=True))
    assert len(cells) == len(trials.crowd) == 3 * 4 * 2
    assert AttackPlan(trials=4000, crowds=40).victims == 50


def test_bound_grows_with_reports_and_shrinks_with_people() -> None:
    mechanism = make_settings("loudest").build(60)
    few, many = shuffled_bound(mechanism, 1, 1, 1000), shuffled_bound(mechanism, 100, 20, 1000)
    assert 0.5 < few < many <= 1
    assert shuffled_bound(mechanism, 100, 20, 100_000) < many


def test_an_attack_beyond_its_bound_fails(attacks: dict[tuple[str, Question], Attack]) -> None:
    found = attacks["loudest", "interaction"]
    sharp = AttackPoint(1, 1, Auc(1.0, 0.0), Auc(0.9, 0.01), 0.6)
    check = attack_check(replace(found, points=(sharp, *found.points)))
    assert not check.passed
    assert "0.900" in check.measured


def test_plans_that_cannot_work(people: Interactions) -> None:
    for plan in ({"trials": 7, "crowds": 2}, {"crowds": 1}, {"question": "name"}):
        with pytest.raises(SettingsError):
            AttackPlan(**plan)
    with pytest.raises(SettingsError):
        run_attack(people.histories, make_settings("loudest"), replace(PLAN, points=((41, 1),)))


EPOCHS, CROWDS, VICTIMS = 4, 150, 20
"""Standard errors that a fixed seed may be off by."""


def turns_of(mechanism: str, **changes: Any) -> Settings:
    return Settings.preset(mechanism, **{"reports": 40, "epochs": EPOCHS, **changes})


def some_items(n_items: int, factors: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(0).normal(0, 0.3, (n_items, factors)).astype(np.float32)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_compiled_densities_are_the_mechanism_s_own(people: Interactions, mechanism: str) -> None:
    settings, V = turns_of(mechanism, factors=5), some_items(60, 5)
    V[7] = V[8]  # ties
    some = Histories.from_lists([[], *(list(people.histories[user]) for user in range(30))], 60)
    built = settings.build(60)
    X = solve_user_vectors(
        V, some, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    expected = built.densities(V, X, some)
    np.testing.assert_array_equal(report_densities(built, settings, V, some), expected)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_trial_is_a_person_with_the_history_of_its_world(
    people: Interactions, mechanism: str
) -> None:
    settings, V = turns_of(mechanism), some_items(60, 5)
    targets = choose_targets(people.histories, 6, "interaction", np.random.default_rng(0))
    trials = all_trials(6, 3)
    victims = victims_of(targets, trials)
    for number, (place, is_true) in enumerate(zip(trials.victim, trials.is_true, strict=True)):
        world = targets.true if is_true else targets.other
        assert list(victims[number]) == list(world[int(place)])
    X = solve_user_vectors(
        V, victims, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    words = report_words(settings.seed, 9, np.arange(len(trials.victim)), settings.reports)
    expected = settings.build(60).reports(V, X, victims, words)
    seen = build_engine("cpu", victims, settings, threads=1).reports(V, 9)
    np.testing.assert_array_equal(seen, expected)


def test_everybody_takes_all_turns_in_every_crowd() -> None:
    settings = turns_of("loudest", lifetime=3, epochs=5)
    takes = np.array([takes_part(settings, epoch, 4, 200) for epoch in range(5)])
    assert takes.shape == (5, 4, 200)
    assert (takes.sum(axis=0) == 3).all()
    assert len({crowd.tobytes() for crowd in takes[0]}) == 4
    assert takes_part(turns_of("loudest"), 2, 4, 200).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_lie_around_zero_in_a_victim_s_turn_and_at_zero_else(
    people: Interactions, mechanism: str
) -> None:
    settings, histories = turns_of(mechanism, lifetime=1), people.histories
    always = settings.copy_with(lifetime=EPOCHS)
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
    signs = np.where(trials.is_true, 1, -1)
    off = unlinked - turn * signs * distance[trials.victim] / 2
    by_crowd = off.reshape(CROWDS, 2 * VICTIMS).sum(axis=1)
    assert abs(by_crowd.mean()) < ERRORS * by_crowd.std() / sqrt(CROWDS)
    apart = (signs * off).reshape(CROWDS, 2 * VICTIMS).sum(axis=1)
    assert abs(apart.mean()) < ERRORS * apart.std() / sqrt(CROWDS)


def test_turns_are_under_their_bounds_and_betray_less(people: Interactions) -> None:
    plan = AttackPlan(trials=1600, crowds=20, question="history", points=((1, EPOCHS),), threads=1)
    once, always = (turns_of("loudest", reports=1, lifetime=lifetime) for lifetime in (1, EPOCHS))
    (seldom,) = run_attack(people.histories, once, plan).points
    (often,) = run_attack(people.histories, always, plan).points
    assert seldom.linked.value < compute_max_auc(once.epsilon) + ERRORS * seldom.linked.error
    assert often.linked.value > compute_max_auc(once.epsilon) + ERRORS * seldom.linked.error
    assert seldom.linked.value > 0.5 + ERRORS * seldom.linked.error
    assert seldom.unlinked.value < seldom.bound + ERRORS * seldom.unlinked.error
    assert seldom.bound == shuffled_bound(once.build(60), 1, 1, once.estimate_crowd(150))
