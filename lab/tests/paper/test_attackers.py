"""Tests of attackers who push an item: what they reach, what they may send, and defences."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.core import Histories, count_reports, solve_user_vectors, sum_counts
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.training import Settings
from sottovoce.training.counts import compute_max_count
from sottovoce_lab.baselines import FCF
from sottovoce_lab.paper.poisoning.attackers import PLANNERS, Attackers, invent_histories
from sottovoce_lab.paper.poisoning.audience import Audience, draw_targets, solve_vectors
from sottovoce_lab.paper.poisoning.cell import join_histories
from sottovoce_lab.paper.poisoning.defences import DEFENCES, SUB_CROWD_COUNT, assign_sub_crowds
from sottovoce_lab.paper.poisoning.gradients import GradientSystem
from sottovoce_lab.paper.poisoning.reports import ReportSystem, invert_estimate, spend_reports

SPLIT = leave_one_out(synthetic_people(n_users=300, n_items=60, seed=3), "random", 0)
PEOPLE = SPLIT.train
ATTACKER_COUNT = 15
SETTINGS = {
    "coordinate": Settings.preset("paper", reports=50, epochs=6, epsilon=4.0),
    "loudest": Settings.preset("loudest", reports=50, epochs=6, epsilon=4.0, factors=3),
    "fcf": Settings.preset("loudest", epochs=6, factors=3, alpha=4.0, initial_scale=1e-2),
}
# More than any attacker can reach.
LARGE_CHANGE = 1e6


def build_system(
    name: str, people: Histories, attackers: int, defence: Any = "none"
) -> ReportSystem | GradientSystem:
    if name == "fcf":
        return GradientSystem(people, attackers, SETTINGS[name], defence, ThreadPoolExecutor(1))
    return build_report_system(name, people, attackers, defence)


def build_report_system(
    name: str, people: Histories, attackers: int, defence: Any = "none"
) -> ReportSystem:
    engine = build_engine("cpu", people, SETTINGS[name], threads=1)
    return ReportSystem(engine, people.n_users, attackers, defence)


def build_audience(item: int, system: ReportSystem | GradientSystem) -> Audience:
    return Audience.from_split(item, SPLIT, system.settings.alpha, system.compute_ridge)


def push_item_7(system: ReportSystem) -> np.ndarray:
    change = np.zeros((PEOPLE.n_items, system.settings.factors))
    change[7] = LARGE_CHANGE
    return change


def train_items(
    system: ReportSystem | GradientSystem, attackers: Attackers | None = None, strategy: str = ""
) -> np.ndarray:
    V = system.make_first_items()
    for number in range(system.settings.epochs):
        epoch = system.open_epoch(V, number, attackers.known_people if attackers else None)
        V = epoch.close(PLANNERS[strategy](attackers, epoch) if attackers else None)
    return V


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("strategy", ["history", "reports", "adaptive"])
def test_every_strategy_raises_the_item(name: str, strategy: str) -> None:
    item = draw_targets(PEOPLE, 0)["cold"]
    unattacked = build_system(name, PEOPLE, 0)
    audience = build_audience(item, unattacked)
    V = train_items(unattacked)
    nearness, exposure = audience.compute_nearness(V), audience.compute_exposure(V)
    if strategy == "history":
        invented = invent_histories(PEOPLE, item, 5 * ATTACKER_COUNT, seed=0, size=3, pool=20)
        V = train_items(build_system(name, join_histories(PEOPLE, invented), 0))
        assert audience.compute_nearness(V) > nearness + 0.03
        return
    attackers = Attackers(item, audience.sample(0))
    V = train_items(build_system(name, PEOPLE, ATTACKER_COUNT), attackers, strategy)
    assert audience.compute_nearness(V) > nearness + 0.2
    assert audience.compute_exposure(V) > exposure + (0.8 if strategy == "adaptive" else 0.15)


@pytest.mark.parametrize("name", ["coordinate", "loudest"])
def test_adaptive_attackers_stay_below_the_cap(name: str) -> None:
    system = build_report_system(name, PEOPLE, ATTACKER_COUNT, "caps")
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
    unlimited = build_report_system(name, PEOPLE, ATTACKER_COUNT, "none")
    assert unlimited.max_added_reports == np.inf


@pytest.mark.parametrize("name", ["coordinate", "loudest"])
def test_attackers_send_k_reports_each_that_add_up_to_their_plan(name: str) -> None:
    system = build_report_system(name, PEOPLE, ATTACKER_COUNT)
    epoch = system.open_epoch(system.make_first_items(), 0)
    plan = epoch.plan([push_item_7(system)])
    assert np.abs(plan).sum() == pytest.approx(system.budget)
    reports = epoch.draw_false_reports(plan)
    assert reports.shape == (ATTACKER_COUNT, system.settings.reports)
    sums = sum_counts(count_reports(reports, system.engine.mechanism.n_directions))
    assert np.abs(sums - plan).sum() < 0.2 * system.budget
    blind = epoch.draw_false_reports(np.zeros_like(plan))
    assert len(np.unique(blind)) > 0.3 * min(blind.size, 2 * len(plan))


def test_attackers_cannot_choose_their_slices() -> None:
    with build_engine("cpu", PEOPLE, SETTINGS["loudest"], threads=1) as engine:
        system = ReportSystem(engine, PEOPLE.n_users, ATTACKER_COUNT, "none", slices=4)
        epoch, n = system.open_epoch(system.make_first_items(), 0), engine.mechanism.n_directions
        plan = epoch.plan([push_item_7(system)])
        directions = epoch.draw_false_reports(plan).ravel() >> 1
    slices = set(system.slice_of_direction[plan != 0].tolist())
    assert len(slices) == 1, "an item is in one slice"
    assert epoch.slice_budgets.sum() == system.budget
    assert np.abs(plan).sum() == pytest.approx(epoch.slice_budgets[slices.pop()])
    reports_by_slice = np.bincount(system.slice_of_direction[directions], minlength=4)
    assert np.array_equal(reports_by_slice, epoch.slice_budgets)
    assert directions.max() < n


def test_attackers_have_no_more_turns_than_others() -> None:
    settings = SETTINGS["loudest"].copy_with(lifetime=2)
    with build_engine("cpu", PEOPLE, settings, threads=1) as engine:
        system = ReportSystem(engine, PEOPLE.n_users, ATTACKER_COUNT, "none")
        assert (system.honest_reporters, system.reporting_attackers) == (100, 5)
        epoch = system.open_epoch(system.make_first_items(), 0)
        reports = epoch.draw_false_reports(np.zeros(engine.mechanism.n_directions))
        assert reports.shape == (5, settings.reports)


def test_fcf_without_attackers_equals_the_baseline() -> None:
    fitted = FCF.fit(PEOPLE, SETTINGS["fcf"], threads=1)
    assert np.allclose(train_items(build_system("fcf", PEOPLE, 0)), fitted.V, atol=1e-6)


def test_attackers_of_fcf_send_no_longer_gradient_than_honest_people() -> None:
    system, V = (
        build_system("fcf", PEOPLE, ATTACKER_COUNT),
        train_items(build_system("fcf", PEOPLE, 0)),
    )
    settings, change = system.settings, np.zeros_like(V, np.float64)
    change[3], other_change = 1e9, np.ones(V.shape)
    epoch = system.open_epoch(V, 0)
    X = solve_user_vectors(V, PEOPLE, alpha=settings.alpha, regularization=settings.regularization)
    honest = compute_gradients(compute_residuals(V, X, PEOPLE, alpha=settings.alpha), X)
    longest = np.linalg.norm(honest.reshape(len(X), -1), axis=1).max()
    assert np.linalg.norm(epoch.plan([change, other_change])) == pytest.approx(longest, rel=1e-4)
    assert np.linalg.norm(epoch.plan([other_change])) <= longest * (1 + 1e-4)


@pytest.mark.parametrize("name", ["coordinate", "loudest"])
def test_invert_estimate_is_the_inverse_of_estimate(name: str) -> None:
    mechanism = Settings.preset(name, factors=3).build(21)
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


def test_sub_crowds_have_equal_sizes_and_differ_between_epochs() -> None:
    first = assign_sub_crowds(103, seed=5, epoch=0)
    sizes = np.bincount(first)
    assert len(sizes) == SUB_CROWD_COUNT
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(first, assign_sub_crowds(103, seed=5, epoch=0))
    assert not np.array_equal(first, assign_sub_crowds(103, seed=5, epoch=1))


@pytest.mark.parametrize("mechanism", ["coordinate", "loudest"])
@pytest.mark.parametrize("defence", DEFENCES)
def test_defences_hardly_change_an_honest_training(mechanism: str, defence: Any) -> None:
    # Without a defence, or with caps, it equals the simulator's training to the bit.
    people = synthetic_people(n_users=600, n_items=30, seed=1).histories
    settings = Settings.preset(mechanism, reports=50, epochs=3, factors=2, initial_scale=0.1)
    with build_engine("cpu", people, settings, threads=1) as engine:
        system = ReportSystem(engine, people.n_users, 0, defence)
        V = system.make_first_items()
        expected, _ = engine.learn(V, 0)
        defended = system.open_epoch(V, 0).close()
    if defence in ("none", "caps"):
        assert np.array_equal(defended, expected)
    assert np.corrcoef((expected - V).ravel(), (defended - V).ravel())[0, 1] > 0.8
