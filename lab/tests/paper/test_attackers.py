"""Tests of attackers who push an item: what they reach, what they may send, and defences."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.core import Histories, count_reports, solve_user_vectors, sum_counts
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.training import Settings
from sottovoce.training.counts import compute_max_count
from sottovoce_lab.paper.poisoning.attackers import (
    PLANNERS,
    Attackers,
    invent_histories,
)
from sottovoce_lab.paper.poisoning.audience import Audience, draw_targets, solve_vectors
from sottovoce_lab.paper.poisoning.cell import join_histories
from sottovoce_lab.paper.poisoning.reports import ReportSystem, invert_estimate, spend_reports

SPLIT = leave_one_out(synthetic_people(n_users=300, n_items=60, seed=3), "random", 0)
PEOPLE = SPLIT.train
ATTACKER_COUNT = 15
SETTINGS = Settings.preset("loudest", reports=50, epochs=6, epsilon=4.0, factors=3)
# More than any attacker can reach.
LARGE_CHANGE = 1e6


def build_system(people: Histories, attackers: int, *, is_defended: bool = False) -> ReportSystem:
    engine = build_engine("cpu", people, SETTINGS, threads=1)
    return ReportSystem(engine, people.n_users, attackers, is_defended)


def build_audience(item: int, system: ReportSystem) -> Audience:
    return Audience.from_split(item, SPLIT, system.settings.alpha, system.compute_ridge)


def push_item_7(system: ReportSystem) -> np.ndarray:
    change = np.zeros((PEOPLE.n_items, system.settings.factors))
    change[7] = LARGE_CHANGE
    return change


def train_items(
    system: ReportSystem, attackers: Attackers | None = None, strategy: str = ""
) -> np.ndarray:
    V = system.make_first_items()
    for number in range(system.settings.epochs):
        epoch = system.open_epoch(V, number, attackers.known_people if attackers else None)
        V = epoch.close(PLANNERS[strategy](attackers, epoch) if attackers else None)
    return V


@pytest.mark.parametrize("strategy", ["history", "reports", "adaptive"])
def test_every_strategy_raises_the_item(strategy: str) -> None:
    item = draw_targets(PEOPLE, 0)["cold"]
    unattacked = build_system(PEOPLE, 0)
    audience = build_audience(item, unattacked)
    V = train_items(unattacked)
    nearness, exposure = audience.compute_nearness(V), audience.compute_exposure(V)
    if strategy == "history":
        invented = invent_histories(PEOPLE, item, 5 * ATTACKER_COUNT, seed=0, size=3, pool=20)
        V = train_items(build_system(join_histories(PEOPLE, invented), 0))
        assert audience.compute_nearness(V) > nearness + 0.03
        return
    attackers = Attackers(item, audience.sample(0))
    V = train_items(build_system(PEOPLE, ATTACKER_COUNT), attackers, strategy)
    assert audience.compute_nearness(V) > nearness + 0.2
    assert audience.compute_exposure(V) > exposure + (0.8 if strategy == "adaptive" else 0.15)


def test_adaptive_attackers_stay_below_the_cap() -> None:
    system = build_system(PEOPLE, ATTACKER_COUNT, is_defended=True)
    mechanism, V = system.engine.mechanism, system.make_first_items()
    kinds = 2 * mechanism.n_directions
    cap = compute_max_count(system.n_reports, mechanism.event(1, 1), kinds)
    usual = PEOPLE.n_users * system.settings.reports / kinds
    assert 0 < system.max_added_reports < cap
    item = draw_targets(PEOPLE, 0)["cold"]
    attackers, largest = Attackers(item, build_audience(item, system).sample(0)), 0.0
    for number in range(3):
        epoch = system.open_epoch(V, number, attackers.known_people)
        plan = attackers.plan_adaptive(epoch)
        largest = max(largest, float(np.abs(plan).max()))
        assert np.abs(plan).max() + usual <= cap + 1e-6
        V = epoch.close(plan)
    assert largest > 0
    unlimited = build_system(PEOPLE, ATTACKER_COUNT)
    assert unlimited.max_added_reports == np.inf


def test_attackers_send_k_reports_each_that_add_up_to_their_plan() -> None:
    system = build_system(PEOPLE, ATTACKER_COUNT)
    epoch = system.open_epoch(system.make_first_items(), 0)
    plan = epoch.plan([push_item_7(system)])
    assert np.abs(plan).sum() == pytest.approx(system.budget)
    reports = epoch.draw_false_reports(plan)
    assert reports.shape == (ATTACKER_COUNT, system.settings.reports)
    sums = sum_counts(count_reports(reports, system.engine.mechanism.n_directions))
    assert np.abs(sums - plan).sum() < 0.2 * system.budget
    blind = epoch.draw_false_reports(np.zeros_like(plan))
    assert len(np.unique(blind)) > 0.3 * min(blind.size, 2 * len(plan))


def test_attackers_have_no_more_turns_than_others() -> None:
    settings = SETTINGS.copy_with(lifetime=2)
    with build_engine("cpu", PEOPLE, settings, threads=1) as engine:
        system = ReportSystem(engine, PEOPLE.n_users, ATTACKER_COUNT, is_defended=False)
        assert (system.honest_reporters, system.reporting_attackers) == (100, 5)
        epoch = system.open_epoch(system.make_first_items(), 0)
        reports = epoch.draw_false_reports(np.zeros(engine.mechanism.n_directions))
        assert reports.shape == (5, settings.reports)


def test_invert_estimate_is_the_inverse_of_estimate() -> None:
    mechanism: Any = Settings.preset("loudest", factors=3).build(21)
    wanted = np.random.default_rng(0).normal(size=(21, 3))
    sums: Any = invert_estimate(mechanism, wanted, 500)
    assert np.allclose(mechanism.estimate(sums, 500), wanted)


@given(
    arrays(np.float64, 6, elements=st.floats(-50, 50)),
    st.floats(0, 200),
    arrays(np.float64, 6, elements=st.floats(0, 40)),
)
def test_spend_reports_stays_within_budget_and_limits(
    wanted: np.ndarray, budget: float, limits: np.ndarray
) -> None:
    spent = spend_reports(wanted, budget, limits)
    possible = np.minimum(np.abs(wanted), limits)
    assert (np.abs(spent) <= possible + 1e-9).all()
    assert (spent * wanted >= 0).all()
    assert np.abs(spent).sum() == pytest.approx(min(budget, possible.sum()), abs=1e-6)


def list_first_ten(V: np.ndarray, X: np.ndarray) -> Iterator[set[int]]:
    scores = X @ V.T
    scores[PEOPLE.users_of_entries(), PEOPLE.indices] = -np.inf
    yield from (set(row.tolist()) for row in np.argsort(-scores, axis=1)[:, :10])


def test_exposure_is_the_share_of_lists_with_the_item() -> None:
    V = np.random.default_rng(2).normal(size=(PEOPLE.n_items, 3)).astype(np.float32)
    audience = Audience.from_split(9, SPLIT, 2.0, lambda _: 0.5)
    X = solve_user_vectors(V, PEOPLE, alpha=2.0, regularization=0.5)
    assert np.allclose(solve_vectors(V, PEOPLE, 2.0, 0.5), X, atol=1e-5)
    users = range(PEOPLE.n_users)
    in_audience = np.array([9 not in PEOPLE[user] and SPLIT.test[user] != 9 for user in users])
    sees_item = np.array([9 in shown for shown in list_first_ten(V, X)])
    expected = sees_item[in_audience].mean()
    assert 0 < expected < 1
    assert audience.compute_exposure(V) == pytest.approx(expected)
    assert audience.compute_nearness(V) > expected
    distances = audience.compute_distances(V)
    assert np.array_equal(distances[in_audience] == 0, sees_item[in_audience])


def test_invented_histories_have_the_item_and_popular_ones() -> None:
    item = draw_targets(PEOPLE, 0)["cold"]
    invented = invent_histories(PEOPLE, item, 4, seed=0, size=3, pool=5)
    popular = set(np.argsort(-PEOPLE.popularity(), kind="stable")[:5].tolist())
    for user in range(4):
        assert item in invented[user]
        assert len(invented[user]) == 4
        assert set(invented[user].tolist()) <= {item} | popular
    joined = join_histories(PEOPLE, invented)
    assert joined.n_users == PEOPLE.n_users + 4
    assert joined[PEOPLE.n_users].tolist() == invented[0].tolist()
    assert joined[5].tolist() == PEOPLE[5].tolist()


@pytest.mark.parametrize("is_defended", [False, True])
def test_defence_hardly_changes_an_honest_training(is_defended: bool) -> None:
    # Without a defence, it equals the simulator's training to the bit.
    people = synthetic_people(n_users=600, n_items=30, seed=1).histories
    settings = Settings.preset("loudest", reports=50, epochs=3, factors=2, initial_scale=0.1)
    with build_engine("cpu", people, settings, threads=1) as engine:
        system = ReportSystem(engine, people.n_users, 0, is_defended)
        V = system.make_first_items()
        expected, _ = engine.learn(V, 0)
        trained = system.open_epoch(V, 0).close()
    assert is_defended or np.array_equal(trained, expected)
    assert np.corrcoef((expected - V).ravel(), (trained - V).ravel())[0, 1] > 0.8
