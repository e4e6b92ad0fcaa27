"""The attack: its likelihoods are the mechanism's, linked reports betray, shuffled ones hardly.

Everything here is keyed: the same numbers every time.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sottovoce.core import MECHANISMS, Histories, user_vectors
from sottovoce.data import Interactions, synthetic_people
from sottovoce.errors import DataError, MissingExtraError, SettingsError
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.people import report_words
from sottovoce.training import Settings
from sottovoce_lab.audit import Attack, AttackPlan, run_attack, sweep
from sottovoce_lab.audit.attack import AttackPoint, curve, published, shuffled_bound
from sottovoce_lab.audit.audit import attack_check
from sottovoce_lab.audit.densities import mean_density, report_densities
from sottovoce_lab.audit.knowledge import Knowledge
from sottovoce_lab.audit.picture import draw_attacks
from sottovoce_lab.audit.roc import Auc, area
from sottovoce_lab.audit.worlds import Question, Trials, all_trials, choose_targets, victims_of

PLAN = AttackPlan(trials=400, crowds=20, threads=1)
POINTS = ((1, 1), (10, 1), (40, 1), (40, 3))
ERRORS = 4
"""Standard errors that a fixed seed may be off by."""


@pytest.fixture(scope="module")
def people() -> Interactions:
    return synthetic_people(n_users=150, n_items=60, seed=0)


def settings_of(mechanism: str, **changes: Any) -> Settings:
    return Settings.preset(mechanism, **{"reports": 40, "epochs": 3, **changes})


@pytest.fixture(scope="module")
def attacks(people: Interactions) -> dict[tuple[str, Question], Attack]:
    found: dict[tuple[str, Question], Attack] = {}
    questions: tuple[Question, ...] = ("interaction", "history")
    for mechanism in MECHANISMS:
        for question in questions:
            plan = replace(PLAN, question=question, points=POINTS)
            attack = run_attack(people.histories, settings_of(mechanism), plan)
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
    X = user_vectors(V, people, alpha=settings.alpha, regularization=settings.regularization)
    for user in range(2):
        alone = people.take(np.array([user]))
        words = report_words(1, user, np.array([0]), 100_000)
        reports = built.reports(V, X[user : user + 1], alone, words)[0]
        seen = np.bincount(reports, minlength=expected.shape[1])
        chances = expected[user].astype(np.float64) / expected[user].sum(dtype=np.float64)
        assert stats.chisquare(seen, chances * len(reports)).pvalue > 1e-4


def test_loudest_has_two_densities(people: Interactions) -> None:
    settings = settings_of("loudest")
    V = np.random.default_rng(0).normal(0, 0.1, (60, 5)).astype(np.float32)
    densities = report_densities(settings.build(60), settings, V, people.histories)
    assert len(np.unique(densities)) == 2
    assert densities.max() / densities.min() == pytest.approx(exp(2.5), rel=1e-5)


def test_mean_density_does_not_depend_on_chunks(
    people: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of("coordinate")
    V = np.random.default_rng(0).normal(0, 0.1, (60, 5)).astype(np.float32)
    whole = mean_density(settings.build(60), settings, V, people.histories)
    monkeypatch.setattr("sottovoce_lab.audit.densities.CHUNK", 7000)
    parts = mean_density(settings.build(60), settings, V, people.histories)
    np.testing.assert_allclose(whole, parts, rtol=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_lie_around_zero_as_far_apart_as_theory_says(
    people: Interactions, mechanism: str
) -> None:
    """Between the worlds lie `k mean((f1 - f0)^2 / fbar)`, and zero is in their middle."""
    settings = settings_of(mechanism, epochs=1)
    histories = people.histories
    engine = build_engine("cpu", histories, settings, threads=1)
    rng = np.random.default_rng(1)
    targets = choose_targets(histories, 20, "history", rng)
    trials = all_trials(20, 60)
    (V,) = published(settings, engine, histories.n_items, 1)
    own = build_engine("cpu", victims_of(targets, trials), settings, threads=1)
    seen = Knowledge(settings, engine, own, histories, targets, trials, V, 0).unlinked(40)
    built = settings.build(histories.n_items)
    f1 = report_densities(built, settings, V, targets.true).astype(np.float64)
    f0 = report_densities(built, settings, V, targets.other).astype(np.float64)
    distance = 40 * ((f1 - f0) ** 2 / mean_density(built, settings, V, histories)).mean(axis=1)
    signs = np.where(trials.is_true, 1, -1)
    off = seen - signs * distance[trials.victim] / 2
    by_crowd = off.reshape(60, 40).mean(axis=1)
    assert abs(by_crowd.mean()) < ERRORS * by_crowd.std() / sqrt(60)
    apart = (signs * seen).reshape(60, 40).mean(axis=1)
    assert abs(apart.mean() - distance.mean() / 2) < ERRORS * apart.std() / sqrt(60)


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


def test_a_larger_epsilon_betrays_more(people: Interactions) -> None:
    of = [settings_of("loudest", epsilon=epsilon, epochs=1) for epsilon in (0.5, 2.0, 5.0)]
    plan = replace(PLAN, question="history", points=((2, 1),))
    found = sweep(people.histories, of, plan)
    values = [attack.points[0].linked.value for attack in found]
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.2


def test_the_same_seed_is_the_same_attack(people: Interactions) -> None:
    settings = settings_of("coordinate", reports=5, epochs=2)
    plan = AttackPlan(trials=80, crowds=4)
    one, same, other = (
        run_attack(people.histories, settings, each)
        for each in (plan, replace(plan, threads=2), replace(plan, seed=1))
    )
    assert one == same
    assert one.points != other.points


def test_every_epoch_and_crowd_has_its_own_words(people: Interactions) -> None:
    settings = settings_of("coordinate", reports=5, epochs=2)
    engine = build_engine("cpu", people.histories, settings, threads=1)
    V = published(settings, engine, 60, 2)
    assert len(V) == 2
    used = {engine.reports(V[0], epoch).tobytes() for epoch in range(10)}
    assert len(used) == 10


# Victims, points, curves


def test_a_victim_misses_one_item(people: Interactions) -> None:
    targets = choose_targets(people.histories, 30, "interaction", np.random.default_rng(0))
    for place, victim in enumerate(targets.victims):
        own, without = set(people.histories[int(victim)]), set(targets.other[place])
        assert own == set(targets.true[place])
        assert without < own
        assert len(own - without) == 1


def test_more_victims_than_people_repeat() -> None:
    few = Histories.from_lists([[0, 1], [1, 2], [0]], n_items=3)
    targets = choose_targets(few, 10, "interaction", np.random.default_rng(0))
    assert set(targets.victims) <= {0, 1}


def test_nobody_to_attack() -> None:
    with pytest.raises(DataError, match="nobody has two"):
        choose_targets(
            Histories.from_lists([[0], []], n_items=3), 4, "interaction", np.random.default_rng(0)
        )


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
    mechanism = settings_of("loudest").build(60)
    few, many = shuffled_bound(mechanism, 1, 1, 1000), shuffled_bound(mechanism, 100, 20, 1000)
    assert 0.5 < few < many <= 1
    assert shuffled_bound(mechanism, 100, 20, 100_000) < many


def test_an_attack_beyond_its_bound_fails(attacks: dict[tuple[str, Question], Attack]) -> None:
    found = attacks["loudest", "interaction"]
    sharp = AttackPoint(1, 1, Auc(1.0, 0.0), Auc(0.9, 0.01), 0.6)
    check = attack_check(replace(found, points=(sharp, *found.points)))
    assert not check.passed
    assert "0.900" in check.measured


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"trials": 7, "crowds": 2}, "four trials"),
        ({"crowds": 1}, "two crowds"),
        ({"question": "name"}, "question"),
    ],
)
def test_plans_that_cannot_work(plan: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        AttackPlan(**plan)


def test_points_beyond_the_training(people: Interactions) -> None:
    with pytest.raises(SettingsError, match="cannot look at k = 41"):
        run_attack(people.histories, settings_of("loudest"), replace(PLAN, points=((41, 1),)))


# The picture


def test_picture(attacks: dict[tuple[str, Question], Attack], tmp_path: Path) -> None:
    path = tmp_path / "new" / "attack.png"
    draw_attacks([attacks[mechanism, "history"] for mechanism in MECHANISMS], path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [each.name for each in path.parent.iterdir()] == ["attack.png"]


def test_picture_without_matplotlib(
    attacks: dict[tuple[str, Question], Attack], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"sottovoce\[plot\]"):
        draw_attacks([attacks["loudest", "history"]], tmp_path / "a.png")
