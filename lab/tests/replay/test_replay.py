"""A training without end over a data set in the order of its days."""

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

from lab.tests.replay.living import make_living_people
from sottovoce.core import Histories, solve_user_vectors, sum_signs
from sottovoce.errors import SettingsError
from sottovoce.simulation.random_words import draw_report_words
from sottovoce.training import Settings, compute_next_items, make_first_items
from sottovoce_lab.bootstrap import compute_differences, resample_people
from sottovoce_lab.replay.baselines import (
    ALS_NAME,
    EASE_NAME,
    RECENT_PEOPLE_NAME,
    RECENT_POPULARITY_NAME,
    TRUSTED_NAME,
)
from sottovoce_lab.replay.cases import MAX_NEW_ITEM_AGE, select_cases
from sottovoce_lab.replay.replay import (
    Replay,
    ReplayPlan,
    ReplayStart,
    draw_participants,
    run_replay,
)
from sottovoce_lab.replay.rivals import (
    CATALOGUE_METRICS,
    FROZEN_NAME,
    MODEL_NAME,
    PLAIN_SUFFIX,
    POPULARITY_NAME,
    SAMPLED_METRIC,
)
from sottovoce_lab.replay.summary import (
    REFERENCE_NAME,
    Recovery,
    average_later_periods,
    compare_models,
    group_by_age,
    group_by_touched,
    measure_recovery,
)
from sottovoce_lab.replay.timeline import Timeline

FALSE_ALARM_RATE = 1e-7
N_PERIODS = 12
SETTINGS = Settings(epsilon=8.0, reports=5, epochs=10, factors=3, half_life=7.0, seed=4)


def make_plan(**changes: Any) -> ReplayPlan:
    small = {"settings": SETTINGS, "people": 200, "negatives": 20, "baseline_models": False}
    return ReplayPlan(**{**small, **changes})


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.from_data(make_living_people(), N_PERIODS)


@pytest.fixture(scope="module")
def replay(timeline: Timeline) -> Replay:
    return run_replay(timeline, make_plan(baseline_models=True))


def test_people_take_part_after_they_joined_and_within_a_lifetime(timeline: Timeline) -> None:
    settings = replace(SETTINGS, lifetime=3)
    takes = draw_participants(timeline, settings)
    assert not takes[timeline.joined[None, :] > np.arange(N_PERIODS)[:, None]].any()
    assert takes.sum(axis=0).max() == 3
    just_joined = timeline.joined == np.arange(N_PERIODS)[:, None]
    n, n_takes = int(just_joined.sum()), int(takes[just_joined].sum())
    assert stats.binomtest(n_takes, n, settings.share).pvalue > FALSE_ALARM_RATE
    everybody = draw_participants(timeline, SETTINGS)  # with a share of 1, ten times
    assert np.array_equal(everybody.sum(axis=0), np.minimum(N_PERIODS - timeline.joined, 10))


def compute_items(timeline: Timeline, settings: Settings, epochs: int) -> np.ndarray:
    """Return V after some epochs by the reference, from lists of everybody's items."""
    V = make_first_items(settings, int(timeline.catalogue_sizes[0]))
    takes = draw_participants(timeline, settings)
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


def test_an_epoch_uses_the_arithmetic_of_server_and_devices(timeline: Timeline) -> None:
    settings = replace(SETTINGS, lifetime=4)
    result = run_replay(timeline, make_plan(settings=settings, people=5))
    expected = compute_items(timeline, settings, 5)
    V = result.periods[5].state.V
    assert np.array_equal(V[: len(expected)], expected)
    assert not V[len(expected) :].any()
    assert len(V) > len(expected)


def test_threads_and_engines_change_no_bit() -> None:
    timeline = Timeline.from_data(make_living_people(150), 6)
    two_threads = min(2, int(numba.config.NUMBA_NUM_THREADS))
    options = [("cpu", {"threads": 1}), ("cpu", {"threads": two_threads}), ("reference", {})]
    first, *others = (
        run_replay(timeline, make_plan(people=30, engine=engine, engine_options=engine_options))
        for engine, engine_options in options
    )
    for again in others:
        for one, other in zip(first.periods, again.periods, strict=True):
            assert np.array_equal(one.state.V, other.state.V)
            assert one.people == other.people
        assert first.compute_curve(MODEL_NAME) == again.compute_curve(MODEL_NAME)
        assert len(first.compute_curve(MODEL_NAME)) == 5


def test_items_leave_models_and_counts_together() -> None:
    timeline = Timeline.from_data(make_living_people(150), 6, max_age=20.0)
    assert timeline.windows[-1].start > 0
    for settings in (SETTINGS, Settings.preset("named", half_life=2.0)):
        run = run_replay(timeline, make_plan(settings=settings, people=30))
        for period, window in zip(run.periods, timeline.windows, strict=True):
            assert len(period.state.V) == window.stop - window.start
            if period.state.names is not None:
                assert period.state.names.table.shape[1] == len(period.state.V)
        assert len(run.compute_curve(MODEL_NAME)) == 5


def test_tests_do_not_use_training_data(timeline: Timeline) -> None:
    touched = timeline.histories.to_csr().toarray().astype(bool)
    for only_new in (False, True):
        n_cases = 0
        for period in range(1, N_PERIODS):
            cases = select_cases(timeline, period, 20, 20, seed=1, only_new=only_new)
            split = cases.candidates.split
            n_cases += len(cases)
            # Somebody has this history before the period, and touched the item in this period.
            for row in range(len(cases)):
                own, item = split.train[row], int(split.test[row])
                users = np.flatnonzero(touched[:, [*own, item]].all(axis=1))
                entries = [timeline.list_entries(np.array([u])) for u in users]
                matches = [
                    set(own) == set(timeline.histories.indices[e[timeline.periods[e] < period]])
                    and timeline.periods[e[timeline.histories.indices[e] == item]] == period
                    and not touched[u, cases.candidates.items[row]].any()
                    for u, e in zip(users, entries, strict=True)
                ]
                assert any(matches)
            ages = period - timeline.arrival[split.test]
            assert np.array_equal(cases.age, ages)
            is_new = (ages < MAX_NEW_ITEM_AGE) & (timeline.arrival[split.test] > 0)
            assert is_new.all() or not only_new
            before = timeline.counts[:period, split.test].sum(axis=0)
            assert np.array_equal(cases.touched, before)
            last = timeline.counts[period - 1]
            for row, chart in enumerate(cases.charts):
                others = np.setdiff1d(np.arange(split.train.n_items), split.train[row])
                expected = others[np.argsort(-last[others], kind="stable")][:10]
                assert chart[chart >= 0].tolist() == expected.tolist()
        assert n_cases > 50


def test_the_model_goes_on_learning(replay: Replay) -> None:
    means = average_later_periods([replay])
    hit_rates = {name: metrics["hr@10"].mean for name, metrics in means.items()}
    model = hit_rates[MODEL_NAME + PLAIN_SUFFIX]
    assert model > hit_rates[POPULARITY_NAME + PLAIN_SUFFIX] + 0.1
    assert model > hit_rates[FROZEN_NAME + PLAIN_SUFFIX]
    recent = (RECENT_POPULARITY_NAME, RECENT_PEOPLE_NAME)
    names = (MODEL_NAME, FROZEN_NAME, POPULARITY_NAME, *recent)
    expected = {name + suffix for name in names for suffix in ("", PLAIN_SUFFIX)}
    assert set(means) == expected | {EASE_NAME, ALS_NAME, TRUSTED_NAME}


def test_models_are_compared_over_the_same_people(replay: Replay) -> None:
    means, differences = average_later_periods([replay, replay]), compare_models([replay, replay])
    for (name, metric), own in differences.items():
        expected = means[name][metric].mean - means[REFERENCE_NAME][metric].mean
        assert own.difference == pytest.approx(expected, abs=1e-9)
        assert own.low <= own.difference <= own.high
    assert {name for name, _ in differences} == means.keys() - {REFERENCE_NAME}
    assert {metric for _, metric in differences} == {*CATALOGUE_METRICS, SAMPLED_METRIC}
    # The width of one difference, by draws of the people of each period.
    key = MODEL_NAME, "hr@10"
    results = [p.tested for p in replay.periods if p.number in replay.timeline.later and p.tested]
    draws = []
    for times in resample_people(replay.timeline.histories.n_users):
        rows = [(times[one.cases.users], one) for one in results]
        draws.append(
            np.mean([
                np.average(one.hits[MODEL_NAME] - one.hits[REFERENCE_NAME], weights=weights)
                for weights, one in rows
            ])
        )  # fmt: skip
    error = np.std(draws, ddof=1)
    assert (differences[key].high - differences[key].low) / 2 > 1.96 * error
    own_only = compute_differences({key: differences[key].difference}, {key: np.array(draws)})[key]
    ratio = (own_only.high - own_only.low) / (differences[key].high - differences[key].low)
    assert 0.3 < ratio < 1


def test_tables_of_new_items_count_every_case_once(replay: Replay) -> None:
    results = [period.tested_on_new for period in replay.periods]
    n_cases = sum(len(result.cases) for result in results if result)
    assert n_cases > 0
    ages, touched = group_by_age([replay, replay]), group_by_touched([replay])
    assert sum(row.cases for row in ages if row.low < MAX_NEW_ITEM_AGE) == 2 * n_cases
    assert sum(row.cases for row in touched) == n_cases
    assert ages[-1].label == "10 and more"
    assert all(0 <= row.quality[MODEL_NAME].mean <= 1 for row in [*ages, *touched])


def test_a_switch_of_tastes_costs_hits_and_reuses_the_periods_before(
    timeline: Timeline, replay: Replay
) -> None:
    same = run_replay(timeline, make_plan(), after=replay)
    for one, other in zip(same.periods, replay.periods, strict=True):
        assert np.array_equal(one.state.V, other.state.V)
    moved = timeline.switch_tastes(6, seed=SETTINGS.seed)
    switched = run_replay(moved, make_plan(), frozen_at=6, after=replay)
    assert switched.periods[:6] == replay.periods[:6]
    assert np.array_equal(switched.periods[6].state.V, replay.periods[6].state.V)
    recovery = measure_recovery([replay], [switched], MODEL_NAME + PLAIN_SUFFIX)
    assert recovery.lost > 0.02
    assert recovery.gaps[0] == 1.0
    assert len(recovery.gaps) == 6


def test_epochs_until_a_share_is_regained() -> None:
    recovery = Recovery(0.1, [1.0, 0.4, 0.6, 0.3, 0.3, 0.0, 0.0, 0.0])
    assert [recovery.count_epochs(share) for share in (0.5, 0.9, 1.0)] == [2, 5, 6]
    assert Recovery(0.1, [1.0, 0.4, 0.6]).count_epochs(0.9) is None
    assert Recovery(-0.1, []).count_epochs(0.5) is None


def test_wrong_plans_are_refused() -> None:
    for wrong in (
        {"settings": replace(SETTINGS, half_life=0.0)}, {"people": 0}, {"engine": "steam"},
    ):  # fmt: skip
        with pytest.raises(SettingsError):
            make_plan(**wrong)


def test_each_period_knows_only_what_is_older_of_a_start(timeline: Timeline) -> None:
    start = ReplayStart(timeline.data, 4)
    settings = Settings.preset("named", half_life=1.0, factors=5, epochs=10)
    replay = run_replay(timeline, make_plan(settings=settings), start=start)
    first, last = replay.periods[0].state.V, replay.periods[-1].state.V
    # Nothing is older than the first period.
    assert not first[:, 1:].any()
    older = timeline.counts[: N_PERIODS - 1, : len(last)].sum(axis=0) > 0
    assert np.array_equal(last[:, 1:].any(axis=1), older)
