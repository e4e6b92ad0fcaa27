"""Liars raise their item where nobody defends, and send no more than they may; defences hold."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.core import MECHANISMS, Histories, count_reports, solve_user_vectors, sum_counts
from sottovoce.core.model import compute_gradients, compute_residuals
from sottovoce.data import leave_one_out, synthetic_people
from sottovoce.simulation.engines import build_engine
from sottovoce.training import Settings
from sottovoce.training.counts import compute_max_count
from sottovoce_lab.baselines import FCF
from sottovoce_lab.paper.lying import (
    DEFENCES,
    GROUPS,
    Audience,
    Liars,
    Reporters,
    Senders,
    afforded,
    groups,
    invented,
    joined,
    solved,
    sums_for,
    targets,
)

SPLIT = leave_one_out(synthetic_people(n_users=300, n_items=60, seed=3), "random", 0)
PEOPLE = SPLIT.train
LIARS = 15
SETTINGS = {
    "coordinate": Settings.preset("paper", reports=50, epochs=6, epsilon=4.0),
    "loudest": Settings.preset("loudest", reports=50, epochs=6, epsilon=4.0, factors=3),
    "fcf": Settings.preset("loudest", epochs=6, factors=3, alpha=4.0, initial_scale=1e-2),
}


def system_of(
    name: str, people: Histories, liars: int, defence: Any = "none"
) -> Reporters | Senders:
    if name == "fcf":
        return Senders(people, liars, SETTINGS[name], defence, ThreadPoolExecutor(1))
    engine = build_engine("cpu", people, SETTINGS[name], threads=1)
    return Reporters(engine, people.n_users, liars, defence)


def audience_of(item: int, system: Reporters | Senders) -> Audience:
    return Audience.of(item, SPLIT, system.settings.alpha, system.ridge)


def trained(system: Reporters | Senders, who: Liars | None = None, how: str = "") -> np.ndarray:
    V = system.first()
    for number in range(system.settings.epochs):
        epoch = system.open(V, number, who.known if who else None)
        V = epoch.close(getattr(who, how)(epoch) if who else None)
    return V


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("how", ["history", "blunt", "adapted"])
def test_each_attacker_raises_its_item(name: str, how: str) -> None:
    item = targets(PEOPLE, 0)["cold"]
    peaceful = system_of(name, PEOPLE, 0)
    audience = audience_of(item, peaceful)
    V = trained(peaceful)
    before, shown = audience.nearness(V), audience.exposure(V)
    if how == "history":
        many = invented(PEOPLE, item, 5 * LIARS, seed=0, company=3, pool=20)
        after = audience.nearness(trained(system_of(name, joined(PEOPLE, many), 0)))
        assert after > before + 0.03
        return
    who = Liars(item, audience.sample(0))
    V = trained(system_of(name, PEOPLE, LIARS), who, how)
    assert audience.nearness(V) > before + 0.2
    assert audience.exposure(V) > shown + (0.8 if how == "adapted" else 0.15)


@pytest.mark.parametrize("name", ["coordinate", "loudest"])
def test_adaptive_liars_stay_below_the_cap(name: str) -> None:
    system = system_of(name, PEOPLE, LIARS, "caps")
    assert isinstance(system, Reporters)
    mechanism, V = system.engine.mechanism, system.first()
    kinds = 2 * mechanism.n_directions
    cap = compute_max_count(system.n_reports, mechanism.event(1, 1), kinds)
    usual = PEOPLE.n_users * system.settings.reports / kinds
    assert 0 < system.room < cap
    item = targets(PEOPLE, 0)["cold"]
    who, fullest = Liars(item, audience_of(item, system).sample(0)), 0.0
    for number in range(3):
        epoch = system.open(V, number, who.known)
        sums = who.adapted(epoch)
        fullest = max(fullest, float(np.abs(sums).max()))
        assert np.abs(sums).max() + usual <= cap + 1e-6
        V = epoch.close(sums)
    unlimited = system_of(name, PEOPLE, LIARS, "none")
    assert isinstance(unlimited, Reporters)
    assert fullest > 0
    assert unlimited.room == np.inf


@pytest.mark.parametrize("name", ["coordinate", "loudest"])
def test_liars_send_k_reports_each_that_add_up_to_what_they_want(name: str) -> None:
    system = system_of(name, PEOPLE, LIARS)
    assert isinstance(system, Reporters)
    epoch = system.open(system.first(), 0)
    wanted = np.zeros((PEOPLE.n_items, system.settings.factors))
    wanted[7] = 1e6
    sums = epoch.ask([wanted])
    assert np.abs(sums).sum() == pytest.approx(system.budget)
    reports = epoch.lies(sums)
    assert reports.shape == (LIARS, system.settings.reports)
    counted = sum_counts(count_reports(reports, system.engine.mechanism.n_directions))
    assert np.abs(counted - sums).sum() < 0.2 * system.budget
    blind = epoch.lies(np.zeros_like(sums))
    assert len(np.unique(blind)) > 0.3 * min(blind.size, 2 * len(sums))


def test_liars_take_the_slices_that_chance_gives_them() -> None:
    with build_engine("cpu", PEOPLE, SETTINGS["loudest"], threads=1) as engine:
        system = Reporters(engine, PEOPLE.n_users, LIARS, "none", slices=4)
        epoch, n = system.open(system.first(), 0), engine.mechanism.n_directions
        wanted = np.zeros((PEOPLE.n_items, system.settings.factors))
        wanted[7] = 1e6
        sums = epoch.ask([wanted])
        index = epoch.lies(sums).ravel() >> 1
    target = set(system.part[sums != 0].tolist())
    assert len(target) == 1, "one item is in one slice"
    assert epoch.dealt.sum() == system.budget
    assert np.abs(sums).sum() == pytest.approx(epoch.dealt[target.pop()])
    assert np.array_equal(np.bincount(system.part[index], minlength=4), epoch.dealt)
    assert index.max() < n


def test_liars_have_no_more_turns_than_others() -> None:
    settings = SETTINGS["loudest"].copy_with(lifetime=2)
    with build_engine("cpu", PEOPLE, settings, threads=1) as engine:
        system = Reporters(engine, PEOPLE.n_users, LIARS, "none")
        assert (system.reporting, system.lying) == (100, 5)
        epoch = system.open(system.first(), 0)
        assert epoch.lies(np.zeros(engine.mechanism.n_directions)).shape == (5, settings.reports)


def test_with_nobody_lying_fcf_is_fcf() -> None:
    fitted = FCF.fit(PEOPLE, SETTINGS["fcf"], threads=1)
    assert np.allclose(trained(system_of("fcf", PEOPLE, 0)), fitted.V, atol=1e-6)


def test_no_liar_of_fcf_sends_a_longer_gradient_than_honest_people() -> None:
    system, V = system_of("fcf", PEOPLE, LIARS), trained(system_of("fcf", PEOPLE, 0))
    settings, wanted = system.settings, np.zeros_like(V, np.float64)
    wanted[3], away = 1e9, np.ones(V.shape)
    epoch = system.open(V, 0)
    X = solve_user_vectors(V, PEOPLE, alpha=settings.alpha, regularization=settings.regularization)
    sent = compute_gradients(compute_residuals(V, X, PEOPLE, alpha=settings.alpha), X)
    longest = np.linalg.norm(sent.reshape(len(X), -1), axis=1).max()
    assert np.linalg.norm(epoch.ask([wanted, away])) == pytest.approx(longest, rel=1e-4)
    assert np.linalg.norm(epoch.ask([away])) <= longest * (1 + 1e-4)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_sums_for_undoes_the_estimate(name: str) -> None:
    mechanism = Settings.preset(name, factors=3).build(21)
    wanted = np.random.default_rng(0).normal(size=(21, 3))
    found = mechanism.estimate(sums_for(mechanism, wanted, 500), 500)  # type: ignore[arg-type]
    assert np.allclose(found, wanted)


@given(
    arrays(np.float64, 6, elements=st.floats(-50, 50)),
    st.floats(0, 200),
    arrays(np.float64, 6, elements=st.floats(0, 40)),
)
def test_nothing_is_afforded_beyond_budget_and_room(
    wanted: np.ndarray, budget: float, room: np.ndarray
) -> None:
    taken = afforded(wanted, budget, room)
    possible = np.minimum(np.abs(wanted), room)
    assert (np.abs(taken) <= possible + 1e-9).all()
    assert (taken * wanted >= 0).all()
    assert np.abs(taken).sum() == pytest.approx(min(budget, possible.sum()), abs=1e-6)


# Items and people.


def lists_of_ten(V: np.ndarray, X: np.ndarray) -> Iterator[set[int]]:
    scores = X @ V.T
    scores[PEOPLE.users_of_entries(), PEOPLE.indices] = -np.inf
    yield from (set(row.tolist()) for row in np.argsort(-scores, axis=1)[:, :10])


def test_exposure_is_the_share_of_lists_with_the_item() -> None:
    V = np.random.default_rng(2).normal(size=(PEOPLE.n_items, 3)).astype(np.float32)
    audience = Audience.of(9, SPLIT, 2.0, lambda _: 0.5)
    X = solve_user_vectors(V, PEOPLE, alpha=2.0, regularization=0.5)
    assert np.allclose(solved(V, PEOPLE, 2.0, 0.5), X, atol=1e-5)
    may = [9 not in PEOPLE[user] and SPLIT.test[user] != 9 for user in range(PEOPLE.n_users)]
    has = [9 in shown for shown in lists_of_ten(V, X)]
    expected = np.mean([found for found, able in zip(has, may, strict=True) if able])
    assert 0 < expected < 1
    assert audience.exposure(V) == pytest.approx(expected)
    assert audience.nearness(V) > expected
    far = audience.distances(V)
    able = np.array(may)
    assert np.array_equal(far[able] == 0, np.array(has)[able])


def test_invented_histories_hold_the_item_and_popular_ones() -> None:
    item = targets(PEOPLE, 0)["cold"]
    made = invented(PEOPLE, item, 4, seed=0, company=3, pool=5)
    best = set(np.argsort(-PEOPLE.popularity(), kind="stable")[:5].tolist())
    for user in range(4):
        assert item in made[user]
        assert len(made[user]) == 4
        assert set(made[user].tolist()) <= {item} | best
    both = joined(PEOPLE, made)
    assert both.n_users == PEOPLE.n_users + 4
    assert both[PEOPLE.n_users].tolist() == made[0].tolist()
    assert both[5].tolist() == PEOPLE[5].tolist()


def test_sub_crowds_are_of_equal_size_and_drawn_anew() -> None:
    first = groups(103, seed=5, epoch=0)
    sizes = np.bincount(first)
    assert len(sizes) == GROUPS
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(first, groups(103, seed=5, epoch=0))
    assert not np.array_equal(first, groups(103, seed=5, epoch=1))


@pytest.mark.parametrize("mechanism", ["coordinate", "loudest"])
@pytest.mark.parametrize("defence", DEFENCES)
def test_an_honest_crowd_is_left_nearly_alone(mechanism: str, defence: str) -> None:
    """Without any defence it is the simulator's own training, to the bit."""
    people = synthetic_people(n_users=600, n_items=30, seed=1).histories
    settings = Settings.preset(mechanism, reports=50, epochs=3, factors=2, initial_scale=0.1)
    with build_engine("cpu", people, settings, threads=1) as engine:
        system = Reporters(engine, people.n_users, 0, defence)  # type: ignore[arg-type]
        V = system.first()
        alone, _ = engine.learn(V, 0)
        defended = system.open(V, 0).close()
    moved, other = (alone - V).ravel(), (defended - V).ravel()
    if defence in ("none", "caps"):
        assert np.array_equal(defended, alone)
    assert np.corrcoef(moved, other)[0, 1] > 0.8
