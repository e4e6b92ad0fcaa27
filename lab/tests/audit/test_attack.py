"""The attack: its densities are the mechanism's; linked reports reveal much, shuffled ones little.

All randomness has fixed seeds: the numbers are the same every time.
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
from sottovoce.simulation.random_words import draw_report_words
from sottovoce.training import Settings
from sottovoce_lab.audit import Attack, AttackPlan, run_attack
from sottovoce_lab.audit.attack import (
    AttackPoint,
    compute_gaussian_bound,
    list_models,
    list_points,
)
from sottovoce_lab.audit.audit import check_attack
from sottovoce_lab.audit.densities import compute_mean_density, compute_report_densities
from sottovoce_lab.audit.knowledge import Knowledge, draw_crowd_participants
from sottovoce_lab.audit.trials import (
    Auc,
    Question,
    Trials,
    choose_targets,
    compute_auc,
    list_trials,
    list_victim_histories,
)
from sottovoce_lab.paper.attacker import compute_max_auc
from tests.proxy.world import Randomness

PLAN = AttackPlan(trials=400, crowds=20, threads=1)
POINTS = ((1, 1), (10, 1), (40, 1), (40, 3))
# Standard errors by which a result of a fixed seed may differ.
MAX_STANDARD_ERRORS = 4
# The same for the scores of one of many victims. Two of their trials share each crowd.
MAX_VICTIM_STANDARD_ERRORS = 6
# The tests of people who take turns.
N_EPOCHS = 4
N_CROWDS = 150
N_VICTIMS = 20
# The crowd of fakes: items, and trials in each of the two worlds.
N_FILMS = 64
N_WORLD_TRIALS = 2000
# An area over pairs of trials differs by more once in a million (Hoeffding for U-statistics).
MAX_AREA_ERROR = sqrt(log(1e6) / (2 * N_WORLD_TRIALS))

Attacks = dict[tuple[str, Question], Attack]


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=150, n_items=60, seed=0)


def make_settings(mechanism: str, **changes: Any) -> Settings:
    return Settings.preset(mechanism, **{"reports": 40, "epochs": 3, **changes})


@pytest.fixture(scope="module")
def attacks(people: Interactions) -> Attacks:
    results: Attacks = {}
    questions: tuple[Question, ...] = ("interaction", "history")
    for mechanism in MECHANISMS:
        for question in questions:
            plan = replace(PLAN, question=question, points=POINTS)
            results[mechanism, question] = run_attack(
                people.histories, make_settings(mechanism), plan
            )
    return results


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_densities_are_those_of_the_reports(mechanism: str) -> None:
    settings = Settings.preset(mechanism, factors=3)
    people = Histories.from_lists([[0, 2], [1, 3, 4], []], n_items=5)
    rng = np.random.default_rng(0)
    V = rng.normal(0, 0.3, (5, 3)).astype(np.float32)
    built = settings.build(5)
    expected = compute_report_densities(built, settings, V, people)
    assert expected.shape == (3, 2 * built.n_directions)
    np.testing.assert_allclose(expected.mean(axis=1), 1, rtol=1e-5)
    if not settings.asks_for_names:
        np.testing.assert_allclose(expected[2], 1)  # without a history, reports are uniform
    X = solve_user_vectors(V, people, alpha=settings.alpha, regularization=settings.regularization)
    # Uniform reports of a person without a history are not independent of each other.
    for user in range(3 if settings.asks_for_names else 2):
        person = people.take(np.array([user]))
        words = draw_report_words(1, user, np.array([0]), 100_000)
        reports = built.reports(V, X[user : user + 1], person, words)[0]
        seen = np.bincount(reports, minlength=expected.shape[1])
        probabilities = expected[user].astype(np.float64) / expected[user].sum(dtype=np.float64)
        assert stats.chisquare(seen, probabilities * len(reports)).pvalue > 1e-4


@pytest.mark.parametrize("question", ["interaction", "history"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_shuffled_reports_stay_below_the_bound(
    attacks: Attacks, mechanism: str, question: Question
) -> None:
    attack = attacks[mechanism, question]
    for point in attack.points:
        assert point.unlinked.value < point.bound + MAX_STANDARD_ERRORS * point.unlinked.error
    assert check_attack(attack).passed


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_more_linked_reports_reveal_more(attacks: Attacks, mechanism: str) -> None:
    for question in ("interaction", "history"):
        points = attacks[mechanism, question].points
        for fewer, more in pairwise(points):
            error = sqrt(fewer.linked.error**2 + more.linked.error**2)
            assert more.linked.value >= fewer.linked.value - error
        gain = points[-1].linked.value - points[0].linked.value
        assert gain > MAX_STANDARD_ERRORS * points[0].linked.error
    assert attacks[mechanism, "history"].points[-1].linked.value > 0.98


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_shuffled_reports_reveal_less_than_linked_ones(attacks: Attacks, mechanism: str) -> None:
    last = attacks[mechanism, "history"].points[-1]
    assert last.unlinked.value + MAX_STANDARD_ERRORS * last.unlinked.error < last.linked.value


def test_the_attack_on_shuffled_reports_is_better_than_a_guess(attacks: Attacks) -> None:
    for mechanism in ("coordinate", "loudest"):
        last = attacks[mechanism, "history"].points[-1]
        assert last.unlinked.value > 0.5 + MAX_STANDARD_ERRORS * last.unlinked.error


def measure_area_among_dummies(dummies: int, settings: Settings) -> float:
    """Return the area of the best test, a likelihood ratio, if all other people are fakes.

    The attacker knows every report except the victim's and those of the dummies.
    """
    mechanism = settings.build(N_FILMS)
    V = np.random.default_rng(1).normal(0, 0.3, (N_FILMS, settings.factors)).astype(np.float32)
    both = Histories.from_lists([range(10), range(30, 45)], N_FILMS)
    density = compute_report_densities(mechanism, settings, V, both).astype(np.float64)
    truth = np.repeat([0, 1], N_WORLD_TRIALS)
    people = both.take(truth)
    X = solve_user_vectors(
        V, people, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    words = draw_report_words(dummies, 0, np.arange(len(truth)), 1)
    own = mechanism.reports(V, X, people, words)[:, 0]
    kinds, entropy = density.shape[1], Randomness(dummies)
    scores = np.empty(len(truth))
    for trial, report in enumerate(own):
        counts = np.bincount(draw_below(dummies, kinds, entropy), minlength=kinds)
        counts[report] += 1
        scores[trial] = np.subtract(*np.log(density @ counts)[::-1])
    zeros = np.zeros_like(truth)
    return compute_auc(scores, Trials(zeros, zeros, truth == 1)).value


def test_dummies_hide_a_person_among_fakes_as_promised() -> None:
    # Without dummies the attacker is nearly certain. With enough dummies for a central epsilon of
    # 1, the area is at most what this epsilon allows.
    options = {"block": 64, "loud": 1}
    settings = Settings("loudest", 10.0, reports=1, epochs=1, factors=2, options=options)
    event = settings.event(N_FILMS)
    assert event.loud_fraction == 1 / 256
    dummies = next(
        number
        for number in range(1000, 100_000, 500)
        if central_epsilon(replace(event, dummies=number), 1, DEFAULT_DELTA) <= 1
    )
    areas = {
        number: measure_area_among_dummies(number, settings)
        for number in (0, dummies // 1000, dummies)
    }
    hidden = replace(event, dummies=dummies)
    allowed = min(
        compute_max_auc(central_epsilon(hidden, 1, delta), delta)
        for delta in (DEFAULT_DELTA, 0.01, 0.05, 0.1)
    )
    # Other deltas give a sharper limit.
    assert allowed < compute_max_auc(1.0, DEFAULT_DELTA) - MAX_AREA_ERROR
    assert areas[0] > 0.9 + MAX_AREA_ERROR
    # A thousandth of the dummies is not enough.
    assert areas[dummies // 1000] > allowed + MAX_AREA_ERROR
    assert areas[dummies] < allowed + MAX_AREA_ERROR


def test_a_larger_epsilon_reveals_more(people: Interactions) -> None:
    plan = replace(PLAN, question="history", points=((2, 1),))
    values = []
    for epsilon in (0.5, 2.0, 5.0):
        settings = make_settings("loudest", epsilon=epsilon, epochs=1)
        values.append(run_attack(people.histories, settings, plan).points[0].linked.value)
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.2


def test_the_same_seed_gives_the_same_attack(people: Interactions) -> None:
    settings = make_settings("coordinate", reports=5, epochs=2)
    plan = AttackPlan(trials=80, crowds=4)
    one, same, other = (
        run_attack(people.histories, settings, changed)
        for changed in (plan, replace(plan, threads=2), replace(plan, seed=1))
    )
    assert one == same
    assert one.points != other.points


def test_people_with_fewer_than_two_items_are_no_victims() -> None:
    few = Histories.from_lists([[0], []], n_items=3)
    with pytest.raises(DataError):
        choose_targets(few, 4, "interaction", np.random.default_rng(0))


def test_points_lead_from_one_report_to_the_whole_training() -> None:
    assert list_points(10, 3) == ((1, 1), (2, 1), (5, 1), (10, 1), (10, 2), (10, 3))
    assert list_points(1, 1) == ((1, 1),)


def test_auc_of_pairs_and_ties() -> None:
    pair = Trials(np.array([0, 0, 1, 1]), np.zeros(4, np.int64), np.array([True, False] * 2))
    assert compute_auc(np.array([2.0, 1.0, 4.0, 3.0]), pair).value == 0.75
    assert compute_auc(np.array([3.0, 1.0, 4.0, 1.0]), pair) == Auc(1.0, 0.0)
    assert compute_auc(np.zeros(4), pair) == Auc(0.5, 0.0)
    assert compute_auc(np.array([1.0, 2.0, 4.0, 3.0]), pair).value == 0.5


def test_the_error_of_an_auc_covers_its_spread() -> None:
    # Each crowd and each victim has its own noise, the same in both worlds.
    rng = np.random.default_rng(0)
    trials = list_trials(10, 20)
    results = []
    for _ in range(200):
        noise = rng.normal(size=20)[trials.crowd] + rng.normal(size=len(trials.crowd))
        signal = rng.uniform(0, 2, 10)[trials.victim] * trials.is_true
        results.append(compute_auc(noise + signal, trials))
    spread = np.std([auc.value for auc in results])
    assert spread < np.mean([auc.error for auc in results]) < 1.5 * spread


def test_every_victim_is_in_every_crowd_in_both_worlds() -> None:
    trials = list_trials(3, 4)
    cells = set(zip(trials.crowd, trials.victim, trials.is_true, strict=True))
    assert len(cells) == len(trials.crowd) == 3 * 4 * 2
    assert AttackPlan(trials=4000, crowds=40).victims == 50


def test_the_bound_grows_with_reports_and_shrinks_with_people() -> None:
    mechanism = make_settings("loudest").build(60)
    few = compute_gaussian_bound(mechanism, 1, 1, 1000)
    many = compute_gaussian_bound(mechanism, 100, 20, 1000)
    assert 0.5 < few < many <= 1
    assert compute_gaussian_bound(mechanism, 100, 20, 100_000) < many


def test_an_attack_above_its_bound_fails(attacks: Attacks) -> None:
    attack = attacks["loudest", "interaction"]
    too_good = AttackPoint(1, 1, Auc(1.0, 0.0), Auc(0.9, 0.01), 0.6)
    check = check_attack(replace(attack, points=(too_good, *attack.points)))
    assert not check.passed
    assert "0.900" in check.measured


def test_wrong_plans_are_refused(people: Interactions) -> None:
    for plan in ({"trials": 7, "crowds": 2}, {"crowds": 1}, {"question": "name"}):
        with pytest.raises(SettingsError):
            AttackPlan(**plan)
    with pytest.raises(SettingsError):
        run_attack(people.histories, make_settings("loudest"), replace(PLAN, points=((41, 1),)))


def draw_items(n_items: int, factors: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(0).normal(0, 0.3, (n_items, factors)).astype(np.float32)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_compiled_densities_equal_the_mechanisms(people: Interactions, mechanism: str) -> None:
    settings, V = make_settings(mechanism, epochs=N_EPOCHS, factors=5), draw_items(60, 5)
    V[7] = V[8]  # ties
    histories = Histories.from_lists(
        [[], *(list(people.histories[user]) for user in range(30))], 60
    )
    built = settings.build(60)
    X = solve_user_vectors(
        V, histories, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    densities = compute_report_densities(built, settings, V, histories)
    np.testing.assert_array_equal(densities, built.densities(V, X, histories))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_victim_of_a_trial_has_the_history_of_its_world(
    people: Interactions, mechanism: str
) -> None:
    settings = make_settings(mechanism, epochs=N_EPOCHS)
    V = draw_items(60, settings.factors)
    targets = choose_targets(people.histories, 6, "interaction", np.random.default_rng(0))
    trials = list_trials(6, 3)
    victims = list_victim_histories(targets, trials)
    for number, (place, is_true) in enumerate(zip(trials.victim, trials.is_true, strict=True)):
        world = targets.true if is_true else targets.other
        assert list(victims[number]) == list(world[int(place)])
    X = solve_user_vectors(
        V, victims, alpha=settings.alpha, regularization=settings.compute_user_ridge(V)
    )
    words = draw_report_words(settings.seed, 9, np.arange(len(trials.victim)), settings.reports)
    expected = settings.build(60).reports(V, X, victims, words)
    seen = build_engine("cpu", victims, settings, threads=1).list_reports(V, 9)
    np.testing.assert_array_equal(seen, expected)


def test_everybody_takes_all_their_turns_in_every_crowd() -> None:
    settings = make_settings("loudest", lifetime=3, epochs=5)
    takes = np.array([draw_crowd_participants(settings, epoch, 4, 200) for epoch in range(5)])
    assert takes.shape == (5, 4, 200)
    assert (takes.sum(axis=0) == 3).all()
    assert len({crowd.tobytes() for crowd in takes[0]}) == 4
    assert draw_crowd_participants(make_settings("loudest", epochs=N_EPOCHS), 2, 4, 200).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("dummies", [0, 3_000])
def test_scores_lie_around_zero_in_the_turn_of_a_victim_and_are_zero_otherwise(
    people: Interactions, mechanism: str, dummies: int
) -> None:
    settings = make_settings(mechanism, epochs=N_EPOCHS, lifetime=1, dummies=dummies)
    histories = people.histories
    always = settings.copy_with(lifetime=N_EPOCHS)
    targets = choose_targets(histories, N_VICTIMS, "history", np.random.default_rng(1))
    trials = list_trials(N_VICTIMS, N_CROWDS)
    engine = build_engine("cpu", histories, always, threads=1)
    own = build_engine("cpu", list_victim_histories(targets, trials), always, threads=1)
    (V,) = list_models(settings, engine, histories.n_items, 1)
    knowledge = Knowledge(settings, engine, own, histories, targets, trials, V, 2)
    takes = draw_crowd_participants(settings, 2, N_CROWDS, histories.n_users)
    turn = takes[trials.crowd, targets.victims[trials.victim]]
    linked, unlinked = knowledge.score_linked(40), knowledge.score_unlinked(40)
    for scores in (linked, unlinked):
        assert not scores[~turn].any()
        assert scores[turn].all()
    built = settings.build(histories.n_items)
    f1 = compute_report_densities(built, settings, V, targets.true).astype(np.float64)
    f0 = compute_report_densities(built, settings, V, targets.other).astype(np.float64)
    n_reports = histories.n_users * settings.share * settings.reports
    uniform = dummies / (n_reports + dummies)
    mean = uniform + (1 - uniform) * compute_mean_density(built, settings, V, histories)
    distance = 40 * ((f1 - f0) ** 2 / mean).mean(axis=1)
    signs = np.where(trials.is_true, 1, -1)
    errors = unlinked - turn * signs * distance[trials.victim] / 2
    # Neither the middle of the two worlds nor their distance has a bias.
    for by_trial in (errors, signs * errors):
        by_crowd = by_trial.reshape(N_CROWDS, 2 * N_VICTIMS).sum(axis=1)
        assert abs(by_crowd.mean()) < MAX_STANDARD_ERRORS * by_crowd.std() / sqrt(N_CROWDS)
    # Nor is the middle shifted for some victims, who would then be hard to compare.
    for victim in range(N_VICTIMS):
        own = errors[turn & (trials.victim == victim)]
        assert abs(own.mean()) < MAX_VICTIM_STANDARD_ERRORS * own.std() / sqrt(len(own))


def test_one_turn_reveals_less_than_many_and_stays_below_its_bound(people: Interactions) -> None:
    plan = AttackPlan(
        trials=1600, crowds=20, question="history", points=((1, N_EPOCHS),), threads=1
    )
    once, always = (
        make_settings("loudest", reports=1, epochs=N_EPOCHS, lifetime=lifetime)
        for lifetime in (1, N_EPOCHS)
    )
    (seldom,) = run_attack(people.histories, once, plan).points
    (often,) = run_attack(people.histories, always, plan).points
    margin = MAX_STANDARD_ERRORS * seldom.linked.error
    assert seldom.linked.value < compute_max_auc(once.epsilon) + margin
    assert often.linked.value > compute_max_auc(once.epsilon) + margin
    assert seldom.linked.value > 0.5 + margin
    assert seldom.unlinked.value < seldom.bound + MAX_STANDARD_ERRORS * seldom.unlinked.error
    assert seldom.bound == compute_gaussian_bound(once.build(60), 1, 1, once.estimate_crowd(150))
