"""Baselines of a replay: recent popularity, EASE and ALS with recency weights."""

import math

import numpy as np
import pytest

from lab.tests.replay.living import make_living_people
from sottovoce.core import Histories
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce_lab.baselines import DPALS, EASE, TrustedSettings
from sottovoce_lab.replay import baselines
from sottovoce_lab.replay.baselines import (
    ALS_ALPHA,
    ALS_NAME,
    CHOOSING_METRIC,
    EASE_NAME,
    RECENT_PEOPLE_NAME,
    RECENT_POPULARITY_NAME,
    TRUSTED_EPSILON,
    TRUSTED_NAME,
    BaselineContest,
    RecencyAls,
    RecencyCounts,
    RecencyEase,
    RecentPopularity,
    TrustedAls,
    list_trial_periods,
    make_baselines,
)
from sottovoce_lab.replay.cases import Cases, select_cases
from sottovoce_lab.replay.rivals import (
    CATALOGUE_METRICS,
    PLAIN_SUFFIX,
    collect_side_information,
)
from sottovoce_lab.replay.timeline import Timeline

N_PERIODS = 8
PERIOD = 6


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline.from_data(make_living_people(200, 40), N_PERIODS)


def select(timeline: Timeline, period: int) -> tuple[Cases, SideInformation]:
    cases = select_cases(timeline, period, 60, 10, seed=1)
    return cases, collect_side_information(timeline, cases, tags=False, time=False)


def weigh_densely(timeline: Timeline, until: int, half_life: float) -> np.ndarray:
    """Return everybody's weighted history of the end of a period, people x all items."""
    h = timeline.histories
    dense = np.zeros((h.n_users, h.n_items))
    for user in range(h.n_users):
        for entry in range(h.indptr[user], h.indptr[user + 1]):
            age = until - timeline.periods[entry]
            if age >= 0:
                dense[user, h.indices[entry]] = 2.0 ** (-age / half_life)
    return dense


def count_better(scores: np.ndarray, cases: Cases) -> list[int]:
    """Return how many items that each person had not touched score higher than their case."""
    better = []
    for row, own in enumerate(scores):
        others = np.setdiff1d(np.arange(own.size), cases.split.train[row])
        better.append(int((own[others] > own[cases.split.test[row]] + 1e-6).sum()))
    return better


@pytest.mark.parametrize("n_periods", [1, 3])
def test_recent_popularity_counts_the_last_periods(timeline: Timeline, n_periods: int) -> None:
    cases, side = select(timeline, PERIOD)
    h, size = timeline.histories, cases.split.train.n_items
    counts, once = np.zeros(h.n_items), np.zeros(h.n_items)
    for user in range(h.n_users):
        entries = np.arange(h.indptr[user], h.indptr[user + 1])
        recent = entries[
            (timeline.periods[entries] >= PERIOD - n_periods) & (timeline.periods[entries] < PERIOD)
        ]
        counts[h.indices[recent]] += 1
        if len(recent):
            latest = recent[timeline.times[recent] == timeline.times[recent].max()]
            once[h.indices[latest]] += 1 / len(latest)
    for counted, is_once in ((counts, False), (once, True)):
        baseline = RecentPopularity(timeline, {"periods": n_periods}, once=is_once)
        ranks = baseline.rank(cases, side)[PLAIN_SUFFIX]
        scores = np.tile(counted[:size], (len(cases), 1))
        assert ranks.catalogue.better.tolist() == count_better(scores, cases)
        # The chart has the counts of the last period.
        assert ranks.off_chart is not None
        assert (ranks.off_chart == 0) == (n_periods == 1 and not is_once)
    assert not np.array_equal(np.argsort(counts), np.argsort(once))


@pytest.mark.parametrize("half_life", [1.5, math.inf])
def test_products_follow_the_periods(timeline: Timeline, half_life: float) -> None:
    counts = RecencyCounts(timeline, half_life)
    for n_periods in (2, 3, N_PERIODS):
        dense = weigh_densely(timeline, n_periods - 1, half_life)
        np.testing.assert_allclose(counts.advance(n_periods), dense.T @ dense, rtol=1e-5, atol=1e-5)


def test_ease_is_that_of_weighted_histories(timeline: Timeline) -> None:
    cases, side = select(timeline, PERIOD)
    size = cases.split.train.n_items
    for half_life in (1.5, math.inf):
        dense = weigh_densely(timeline, PERIOD - 1, half_life)[:, :size]
        inverse = np.linalg.inv(dense.T @ dense + 5.0 * np.eye(size))
        B = np.eye(size) - inverse / np.diag(inverse)
        counts = RecencyCounts(timeline, half_life)
        ranks = RecencyEase(counts, {"half_life": half_life, "ridge": 5.0}).rank(cases, side)[""]
        expected = count_better(dense[cases.users] @ B, cases)
        assert ranks.catalogue.better.tolist() == expected
    # Without weights it is the baseline of the other experiments.
    everybody, _ = timeline.collect_histories(
        np.arange(timeline.histories.n_users), PERIOD - 1, slice(0, size)
    )
    plain = EASE.fit(everybody, ridge=5.0)
    assert count_better(plain.score(cases.users), cases) == expected


def test_als_solves_the_weighted_least_squares(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "ALS_FACTORS", 4)
    als = RecencyAls(timeline, {"half_life": 2.0, "ridge": 3.0}, seed=0, threads=1)
    gains = []
    for period in (PERIOD, PERIOD + 1):
        cases, side = select(timeline, period)
        ranks = als.rank(cases, side)[""]
        assert als.V is not None
        V, size = als.V.astype(float), cases.split.train.n_items
        assert V.shape == (size, 4)
        weights = ALS_ALPHA * weigh_densely(timeline, period - 1, 2.0)[cases.users, :size]
        scores = []
        for own in weights:
            system = V.T @ V + (V.T * own) @ V + 3.0 * np.eye(4)
            scores.append(V @ np.linalg.solve(system, V.T @ ((1 + own) * (own > 0))))
        expected = np.array(count_better(np.array(scores), cases))
        assert np.abs(ranks.catalogue.better - expected).max() <= 1  # in float32
        gains.append(CATALOGUE_METRICS[CHOOSING_METRIC](ranks.catalogue).mean())
    assert min(gains) > 0.3


def test_dp_als_learns_from_the_last_periods_and_ranks_by_whole_histories(
    timeline: Timeline,
) -> None:
    cases, side = select(timeline, PERIOD)
    size = cases.split.train.n_items
    age = -np.log2(np.maximum(weigh_densely(timeline, PERIOD - 1, 1.0)[:, :size], 1e-9))
    recent = Histories.from_lists([np.flatnonzero(row < 2).tolist() for row in age], size)
    settings = TrustedSettings.choose(TRUSTED_EPSILON, people=len(age), items=size)
    _, V = DPALS.fit(recent, settings, seed=3).get_factors()
    expected = []
    for own in cases.split.train.to_csr().toarray():
        weights = 1 + settings.alpha * own
        system = V.T @ V + settings.alpha * (V.T * own) @ V
        system += settings.regularization * np.eye(V.shape[1])
        expected.append(V @ np.linalg.solve(system, V.T @ (weights * own)))
    ranks = TrustedAls(timeline, {"periods": 2}, seed=3).rank(cases, side)[""]
    better = np.array(count_better(np.array(expected), cases))
    assert np.abs(ranks.catalogue.better - better).max() <= 1  # in float32


def test_settings_are_chosen_before_the_later_periods_and_shown_on_them(
    timeline: Timeline,
) -> None:
    assert list(timeline.choosing) == [2, 3, 4]
    assert list(timeline.later) == [5, 6, 7]
    assert list(list_trial_periods(timeline)) == [2, 3, 4]
    assert len(list_trial_periods(Timeline.from_data(make_living_people(), 40))) == 4
    settings = [RecentPopularity(timeline, {"periods": n}, once=False) for n in (1, 4)]
    contest = BaselineContest(timeline, {"recent": settings})
    tried: dict[int, list[float]] = {1: [], 4: []}
    for period in range(1, N_PERIODS):
        cases, side = select(timeline, period)
        ranks = contest.rank(cases, side)
        if period < 5:
            assert ranks == {}
        if period in timeline.choosing:
            for n, one in zip((1, 4), settings, strict=True):
                plain = one.rank(cases, side)[PLAIN_SUFFIX].catalogue
                tried[n].append(float(CATALOGUE_METRICS[CHOOSING_METRIC](plain).mean()))
        if period >= 5:
            means = {n: float(np.mean(gains)) for n, gains in tried.items()}
            best = max(means, key=lambda n: means[n])
            choice = contest.choices["recent"]
            assert choice.setting == {"periods": best}
            assert choice.tried == [({"periods": n}, mean) for n, mean in means.items()]
            assert choice.gain == means[best]
            shown = RecentPopularity(timeline, {"periods": best}, once=False).rank(cases, side)
            for suffix, own in shown.items():
                assert np.array_equal(
                    ranks["recent" + suffix].catalogue.better, own.catalogue.better
                )
    # A second run shows the same setting, although it never tried any.
    other = BaselineContest(timeline, {"recent": settings[::-1]}, contest.choices)
    again = other.rank(*select(timeline, 7))
    assert np.array_equal(again["recent"].catalogue.better, ranks["recent"].catalogue.better)


def test_ease_is_left_out_where_its_matrices_would_be_too_large(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_names(*, with_models: bool) -> list[str]:
        return list(
            make_baselines(timeline, 0, engine="cpu", threads=None, with_models=with_models)
        )

    popularity = [RECENT_POPULARITY_NAME, RECENT_PEOPLE_NAME]
    assert list_names(with_models=False) == popularity
    assert list_names(with_models=True) == [*popularity, EASE_NAME, ALS_NAME, TRUSTED_NAME]
    monkeypatch.setattr(baselines, "MAX_DENSE_ITEMS", 39)
    assert list_names(with_models=True) == [*popularity, ALS_NAME, TRUSTED_NAME]
