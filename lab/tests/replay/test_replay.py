"""A training without end over data in the order of its days."""

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

from lab.tests.replay.living import living_people
from sottovoce.core import Histories, solve_user_vectors, sum_signs
from sottovoce.errors import SettingsError
from sottovoce.simulation.random_words import draw_report_words
from sottovoce.training import Settings, compute_next_items, make_first_items
from sottovoce_lab.replay.replay import (
    ALONE,
    FROZEN,
    LATELY,
    MODEL,
    POPULAR,
    Recovery,
    Replay,
    ReplayPlan,
    by_age,
    by_touched,
    overall,
    recovery,
    replay,
    takes_part,
)
from sottovoce_lab.replay.timeline import YOUNG, Timeline, cases_of

ALARM = 1e-7
SETTINGS = Settings(epsilon=8.0, reports=5, epochs=10, factors=3, half_life=7.0, seed=4)


def small_plan(**changes: Any) -> ReplayPlan:
    return ReplayPlan(**{"settings": SETTINGS, "people": 200, "negatives": 20, **changes})


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.of(living_people(), 12)


@pytest.fixture(scope="module")
def run(timeline: Timeline) -> Replay:
    return replay(timeline, small_plan())


def test_people_take_part_after_they_joined_and_within_a_lifetime(timeline: Timeline) -> None:
    settings = replace(SETTINGS, lifetime=3)
    takes = takes_part(timeline, settings)
    assert not takes[timeline.joined[None, :] > np.arange(12)[:, None]].any()
    assert takes.sum(axis=0).max() == 3
    fresh = timeline.joined == np.arange(12)[:, None]
    n, hits = int(fresh.sum()), int(takes[fresh].sum())
    assert stats.binomtest(hits, n, settings.share).pvalue > ALARM
    everybody = takes_part(timeline, SETTINGS)  # with a share of 1, ten times
    assert np.array_equal(everybody.sum(axis=0), np.minimum(12 - timeline.joined, 10))


def by_hand(timeline: Timeline, settings: Settings, epochs: int) -> np.ndarray:
    """The reference alone, from lists of what each person had touched."""
    V, takes = (
        make_first_items(settings, int(timeline.catalogue_sizes[0])),
        takes_part(timeline, settings),
    )
    for epoch in range(epochs):
        n_items = int(timeline.catalogue_sizes[epoch])
        V = np.concatenate([V, np.zeros((n_items - len(V), settings.factors), np.float32)])
        users = np.flatnonzero(takes[epoch])
        h, mask = timeline.histories, timeline.periods <= epoch
        lists = [
            h.indices[h.indptr[u] : h.indptr[u + 1]][mask[h.indptr[u] : h.indptr[u + 1]]].tolist()
            for u in users
        ]
        people, mechanism = Histories.from_lists(lists, n_items), settings.build(n_items)
        words = draw_report_words(settings.seed, epoch, users, settings.reports)
        ridge = settings.compute_user_ridge(V)
        X = solve_user_vectors(V, people, alpha=settings.alpha, regularization=ridge)
        reports = mechanism.reports(V, X, people, words)
        sums = sum_signs(reports, mechanism.n_directions)
        V = compute_next_items(V, sums, reports.size, epoch + 1, settings, mechanism)
    return V


def test_it_is_the_servers_and_the_devices_arithmetic(timeline: Timeline) -> None:
    settings = replace(SETTINGS, lifetime=4)
    found = replay(timeline, small_plan(settings=settings, people=5))
    expected = by_hand(timeline, settings, 5)
    V = found.periods[5].V
    assert np.array_equal(V[: len(expected)], expected)
    assert not V[len(expected) :].any()
    assert len(V) > len(expected)


def test_threads_and_engines_change_no_bit() -> None:
    timeline = Timeline.of(living_people(150), 6)
    many = min(2, int(numba.config.NUMBA_NUM_THREADS))
    options = [("cpu", {"threads": 1}), ("cpu", {"threads": many}), ("reference", {})]
    first, *others = (
        replay(timeline, small_plan(people=30, engine=engine, engine_options=given))
        for engine, given in options
    )
    for again in others:
        for one, other in zip(first.periods, again.periods, strict=True):
            assert np.array_equal(one.V, other.V)
            assert one.people == other.people
        assert first.curve(MODEL) == again.curve(MODEL)
        assert len(first.curve(MODEL)) == 5


def test_nothing_is_tested_that_was_trained_on(timeline: Timeline) -> None:
    touched = timeline.histories.to_csr().toarray().astype(bool)
    for young in (False, True):
        found = 0
        for period in range(1, 12):
            cases = cases_of(timeline, period, 20, 20, seed=1, young=young)
            split, found = cases.candidates.split, found + len(cases)
            # Somebody of these histories, who touched the item in this very period.
            for row in range(len(cases)):
                own, item = split.train[row], int(split.test[row])
                users = np.flatnonzero(touched[:, [*own, item]].all(axis=1))
                at = [timeline.entries(np.array([u])) for u in users]
                fits = [
                    set(own) == set(timeline.histories.indices[e[timeline.periods[e] < period]])
                    and timeline.periods[e[timeline.histories.indices[e] == item]] == period
                    and not touched[u, cases.candidates.items[row]].any()
                    for u, e in zip(users, at, strict=True)
                ]
                assert any(fits)
            ages = period - timeline.arrival[split.test]
            assert np.array_equal(cases.age, ages)
            assert not young or ((ages < YOUNG) & (timeline.arrival[split.test] > 0)).all()
            before = timeline.counts[:period, split.test].sum(axis=0)
            assert np.array_equal(cases.touched, before)
        assert found > 50


def test_it_learns_and_goes_on_learning(run: Replay) -> None:
    means = {name: metrics["hr@10"].mean for name, metrics in overall([run]).items()}
    assert means[MODEL + ALONE] > means[POPULAR + ALONE] + 0.1
    assert means[MODEL + ALONE] > means[FROZEN + ALONE]
    assert set(means) == {n + e for n in (MODEL, FROZEN, POPULAR, LATELY) for e in ("", ALONE)}


def test_tables_of_new_items_have_every_case_once(run: Replay) -> None:
    young = sum(len(period.young.cases) for period in run.periods if period.young)
    assert young > 0
    ages, touched = by_age([run, run]), by_touched([run])
    assert sum(row.cases for row in ages if row.low < YOUNG) == 2 * young
    assert sum(row.cases for row in touched) == young
    assert ages[-1].label == "10 and more"
    assert all(0 <= row.quality[MODEL].mean <= 1 for row in [*ages, *touched])


def test_a_switch_is_noticed_and_what_came_before_is_shared(
    timeline: Timeline, run: Replay
) -> None:
    same = replay(timeline, small_plan(), after=run)
    for one, other in zip(same.periods, run.periods, strict=True):
        assert np.array_equal(one.V, other.V)
    moved = timeline.switched(6, seed=SETTINGS.seed)
    switched = replay(moved, small_plan(), frozen_at=6, after=run)
    assert switched.periods[:6] == run.periods[:6]
    assert np.array_equal(switched.periods[6].V, run.periods[6].V)
    found = recovery([run], [switched], MODEL + ALONE)
    assert found.lost > 0.02
    assert found.gaps[0] == 1.0
    assert len(found.gaps) == 6


def test_epochs_until_a_share_is_won_back() -> None:
    found = Recovery(0.1, [1.0, 0.4, 0.6, 0.3, 0.3, 0.0, 0.0, 0.0])
    assert (found.epochs(0.5), found.epochs(0.9), found.epochs(1.0)) == (2, 5, 6)
    assert Recovery(0.1, [1.0, 0.4, 0.6]).epochs(0.9) is None
    assert Recovery(-0.1, []).epochs(0.5) is None


def test_a_training_that_ends_cannot_be_replayed() -> None:
    for wrong in (
        {"settings": replace(SETTINGS, half_life=0.0)}, {"people": 0}, {"engine": "steam"},
    ):  # fmt: skip
        with pytest.raises(SettingsError):
            small_plan(**wrong)
