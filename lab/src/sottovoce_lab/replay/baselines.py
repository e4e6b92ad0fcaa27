"""Common baselines that see all histories: recent popularity, EASE and ALS by age, and DP-ALS.

An interaction that is `age` periods old weighs `2 ** (-age / half_life)`. All settings of a
baseline are tested in a part of the data, the periods for choosing (`Timeline.choosing`). The
setting with the best NDCG@100 in the whole catalogue is chosen, and in later periods only this
setting is tested.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from sottovoce.core import Histories, draw_initial_items
from sottovoce.simulation import Popularity
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce_lab.baselines.ease import MAX_DENSE_ITEMS, compute_item_weights
from sottovoce_lab.baselines.factorization import INITIAL_SCALE
from sottovoce_lab.baselines.models import rank_for_tests
from sottovoce_lab.baselines.trusted import DPALS, Solver, TrustedSettings
from sottovoce_lab.replay.cases import Cases
from sottovoce_lab.replay.rivals import (
    CATALOGUE_METRICS,
    PLAIN_SUFFIX,
    CaseRanks,
    rank_by_counts,
)
from sottovoce_lab.replay.timeline import Timeline

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Setting = dict[str, float]
# Names of the baselines.
RECENT_POPULARITY_NAME = "popularity lately"
RECENT_PEOPLE_NAME = "popularity lately, once"
EASE_NAME = "EASE"
ALS_NAME = "ALS"
TRUSTED_NAME = "DP-ALS"
# Settings that are tried: numbers of the last periods whose interactions count (for popularity),
# half-lives in periods, and ridges of EASE.
RECENT_PERIODS = (1, 2, 4)
HALF_LIVES = (1.0, 4.0, math.inf)
EASE_RIDGES = (30.0, 300.0, 3_000.0)
ALS_RIDGES = (3.0, 30.0)
# Numbers of the last periods whose interactions DP-ALS learns from.
TRUSTED_PERIODS = (2, 8, math.inf)
# Central budget of each training of DP-ALS.
TRUSTED_EPSILON = 1.0
# Number of factors of ALS. It is fixed, like alpha.
ALS_FACTORS = 64
# Weight of a touched item beyond 1 in ALS.
ALS_ALPHA = 10.0
# Iterations of ALS before its first test.
FIRST_ALS_ITERATIONS = 10
# Further iterations before each later test.
NEXT_ALS_ITERATIONS = 2
# All settings are tested in at most this many of the periods for choosing.
MAX_TRIAL_PERIODS = 4
# Metric of the whole catalogue by which settings are chosen.
CHOOSING_METRIC = "ndcg@100"


class Baseline(ABC):
    """One model with one setting, tested on one period after the other."""

    setting: Setting

    @abstractmethod
    def rank(self, cases: Cases, side_information: SideInformation) -> dict[str, CaseRanks]:
        """Rank with a model of the interactions before the period of the cases.

        Returns:
            Ranks by the suffix of the name: empty, or `PLAIN_SUFFIX` without side information.
        """


@dataclass(eq=False)
class RecentPopularity(Baseline):
    """Counts of the people who touched each item in the last periods."""

    timeline: Timeline
    setting: Setting
    once: bool
    """Whether only each person's latest item counts. Several latest items of the same moment share
    the weight of one."""

    def rank(self, cases: Cases, side_information: SideInformation) -> dict[str, CaseRanks]:
        timeline = self.timeline
        first = max(cases.period - int(self.setting["periods"]), 0)
        histories, times = timeline.collect_histories(
            np.arange(timeline.histories.n_users), cases.period - 1, timeline.windows[cases.period]
        )
        since = timeline.span[first][0]
        recent = Popularity.fit(histories.to_csr(), since=since, once=self.once, times=times)
        counts = recent.counts.astype(np.float64)
        return rank_by_counts(counts, timeline.histories.n_users, cases, side_information)


@dataclass(eq=False)
class RecencyCounts:
    """Products `X^T X` of the weighted histories X, updated after each period."""

    timeline: Timeline
    half_life: float
    total: Float32 = field(init=False)
    """The products for all items that ever arrive, after the first `n_periods` periods."""
    n_periods: int = 0

    def __post_init__(self) -> None:
        n_items = self.timeline.histories.n_items
        self.total = np.zeros((n_items, n_items), np.float32)

    def advance(self, n_periods: int) -> Float32:
        """Return the products after the first `n_periods` periods."""
        for period in range(self.n_periods, n_periods):
            # All earlier products fade. Only people who are active in this period add new ones.
            self.total *= np.float32(decay(1, self.half_life) ** 2)
            active = np.unique(self._find_users(period))
            weighted, ages = collect_weighted(
                self.timeline, active, period, slice(0, len(self.total)), self.half_life
            )
            is_new = ages == 0
            new, old = weighted.copy(), weighted.copy()
            new.data *= is_new
            old.data *= ~is_new
            new.eliminate_zeros()
            old.eliminate_zeros()
            across = (old.T @ new).toarray()
            self.total += across + across.T + (new.T @ new).toarray()
        self.n_periods = max(self.n_periods, n_periods)
        return self.total

    def _find_users(self, period: int) -> Int64:
        entries = np.flatnonzero(self.timeline.periods == period)
        return np.searchsorted(self.timeline.histories.indptr, entries, side="right") - 1


@dataclass(eq=False)
class RecencyEase(Baseline):
    """EASE of weighted histories."""

    counts: RecencyCounts
    setting: Setting
    arrays: Any = np
    """NumPy, or CuPy."""

    def rank(self, cases: Cases, side_information: SideInformation) -> dict[str, CaseRanks]:  # noqa: ARG002 - EASE uses none
        window = self.counts.timeline.windows[cases.period]
        products = self.counts.advance(cases.period)[window, window]
        B = compute_item_weights(products, self.setting["ridge"], self.arrays)
        B = B if self.arrays is np else self.arrays.asnumpy(B)
        own, _ = collect_weighted(
            self.counts.timeline, cases.users, cases.period - 1, window, self.counts.half_life
        )
        tests = [cases.whole_catalogue, cases.candidates]
        catalogue, sampled = rank_for_tests(WeightedItems(own, B), tests)
        return {"": CaseRanks(catalogue, sampled)}


@dataclass(frozen=True, eq=False)
class WeightedItems:
    """Scores of items: the sum of their weights for each of the person's own items."""

    own: sparse.csr_matrix
    B: Float32

    def score(self, users: Int64) -> Float32:
        return np.asarray(self.own[users] @ self.B)


@dataclass(eq=False)
class RecencyAls(Baseline):
    """ALS of the package implicit. A touched item with the weight w by age weighs `1 + alpha w`."""

    timeline: Timeline
    setting: Setting
    seed: int
    threads: int | None = None
    V: Float32 | None = field(default=None, init=False)
    """The item matrix after the last test. The next test continues from it. It keeps the rows of
    items that have left the catalogue."""

    def rank(self, cases: Cases, side_information: SideInformation) -> dict[str, CaseRanks]:  # noqa: ARG002 - ALS uses none
        everybody = np.arange(self.timeline.histories.n_users)
        window = self.timeline.windows[cases.period]
        is_first = self.V is None
        if self.V is None:
            self.V = draw_initial_items(window.stop, ALS_FACTORS, INITIAL_SCALE, self.seed)
        new_rows = np.zeros((window.stop - len(self.V), ALS_FACTORS), np.float32)
        self.V = np.concatenate([self.V, new_rows])
        # implicit starts its own threads, which threads of OpenBLAS would slow down.
        with threadpool_limits(1, user_api="blas"):
            als = AlternatingLeastSquares(
                factors=ALS_FACTORS,
                regularization=self.setting["ridge"],
                iterations=FIRST_ALS_ITERATIONS if is_first else NEXT_ALS_ITERATIONS,
                num_threads=self.threads or 0,
                random_state=self.seed,
            )
            als.item_factors = self.V[window].copy()
            als.user_factors = np.zeros((len(everybody), ALS_FACTORS), np.float32)
            als.fit(self._weigh(everybody, cases, window), show_progress=False)
            own = self._weigh(cases.users, cases, window)
            X = als.recalculate_user(np.arange(len(cases)), own)
        self.V[window] = als.item_factors
        return {"": CaseRanks.from_factors(X, als.item_factors, cases)}

    def _weigh(self, users: Int64, cases: Cases, window: slice) -> sparse.csr_matrix:
        weighted, _ = collect_weighted(
            self.timeline, users, cases.period - 1, window, self.setting["half_life"]
        )
        weighted.data = 1 + np.float32(ALS_ALPHA) * weighted.data
        return weighted


@dataclass(eq=False)
class TrustedAls(Baseline):
    """DP-ALS of the histories of the last periods, trained again for each test.

    The central budget is that of one training. A service that publishes them all would spend more,
    so these results are better than such a service can have.
    """

    timeline: Timeline
    setting: Setting
    seed: int
    threads: int | None = None

    def rank(self, cases: Cases, side_information: SideInformation) -> dict[str, CaseRanks]:  # noqa: ARG002 - DP-ALS uses none
        timeline, window = self.timeline, self.timeline.windows[cases.period]
        n_users = timeline.histories.n_users
        entries, ages = collect_weighted(
            timeline, np.arange(n_users), cases.period - 1, window, math.inf
        )
        entries.data *= ages < self.setting["periods"]
        entries.eliminate_zeros()
        recent = Histories.from_csr(entries)
        settings = TrustedSettings.choose(TRUSTED_EPSILON, people=n_users, items=recent.n_items)
        _, V = DPALS.fit(recent, settings, seed=self.seed, threads=self.threads).get_factors()
        solve = Solver(V, settings.alpha, settings.regularization)
        X = solve(cases.split.train.to_csr().astype(np.float64)).astype(np.float32)
        return {"": CaseRanks.from_factors(X, V, cases)}


def collect_weighted(
    timeline: Timeline, users: Int64, until: int, window: slice, half_life: float
) -> tuple[sparse.csr_matrix, Int64]:
    """Return the weighted histories at the end of a period, and the ages of their entries."""
    histories, times = timeline.collect_histories(users, until, window)
    ages = until - timeline.find_periods(times)
    weighted = histories.to_csr().astype(np.float32)
    weighted.data = decay(ages, half_life).astype(np.float32)
    return weighted, ages


def decay(ages: Any, half_life: float) -> Any:
    """Return the weights of interactions by age; with an infinite half-life, all of them are 1."""
    return 0.5 ** (ages / half_life)


@dataclass(frozen=True)
class Choice:
    """The chosen setting of one baseline."""

    setting: Setting
    tried: list[tuple[Setting, float]]
    """Settings and their mean NDCG@100 in the periods for choosing; empty if nobody was tested."""

    @property
    def gain(self) -> float | None:
        """Mean NDCG@100 of the chosen setting in the periods for choosing, if it was tested."""
        return max((gain for _, gain in self.tried), default=None)


class BaselineContest:
    """Baselines by name, each with all of its settings until one is chosen."""

    def __init__(
        self,
        timeline: Timeline,
        baselines: Mapping[str, Sequence[Baseline]],
        choices: Mapping[str, Choice] | None = None,
    ):
        """Begin a contest without results.

        Args:
            timeline: The data.
            baselines: Each baseline with its settings.
            choices: Settings that were chosen before; None: they are chosen here.
        """
        self.choices = dict(choices or {})
        self._timeline = timeline
        self._baselines = {name: list(settings) for name, settings in baselines.items()}
        self._gains: dict[str, list[list[float]]] = {
            name: [[] for _ in settings] for name, settings in baselines.items()
        }

    def rank(
        self, cases: Cases, side_information: SideInformation, names: Sequence[str] = ()
    ) -> dict[str, CaseRanks]:
        """Return the ranks of the chosen settings in a later period, by the name of the model.

        Args:
            cases: Cases of a period: the same as in the last call, or a later one.
            side_information: The side information of devices.
            names: Names of the baselines. If empty, all of them.
        """
        if cases.period in list_trial_periods(self._timeline) and not self.choices:
            for name, baselines in self._baselines.items():
                for gains, baseline in zip(self._gains[name], baselines, strict=True):
                    ranks = baseline.rank(cases, side_information)
                    plain = ranks.get(PLAIN_SUFFIX) or ranks[""]
                    gains.append(float(CATALOGUE_METRICS[CHOOSING_METRIC](plain.catalogue).mean()))
        if cases.period not in self._timeline.later:
            return {}
        self._keep_chosen()
        return {
            name + suffix: ranks
            for name in names or self._baselines
            for suffix, ranks in self._baselines[name][0].rank(cases, side_information).items()
        }

    def _keep_chosen(self) -> None:
        """Keep only the chosen settings; the matrices of all others would fill the memory."""
        for name, baselines in self._baselines.items():
            if name not in self.choices:
                means = [float(np.mean(gains)) for gains in self._gains[name] if gains]
                tried = list(zip([one.setting for one in baselines], means, strict=False))
                best = int(np.argmax(means)) if means else 0
                self.choices[name] = Choice(baselines[best].setting, tried)
            chosen = self.choices[name].setting
            self._baselines[name] = [one for one in baselines if one.setting == chosen]


def list_trial_periods(timeline: Timeline) -> range:
    """Return the periods on which all settings are tested, spread over those for choosing."""
    step = -(-len(timeline.choosing) // MAX_TRIAL_PERIODS)
    return timeline.choosing[::step]


def make_baselines(
    timeline: Timeline, seed: int, *, engine: str, threads: int | None, with_models: bool
) -> dict[str, list[Baseline]]:
    """Return all baselines with all their settings.

    Args:
        timeline: The data.
        seed: Seed of the first item matrix of ALS.
        engine: `cuda` solves EASE on a graphics card, everything else with NumPy.
        threads: Threads of ALS; None: one for each core.
        with_models: Whether EASE, ALS and DP-ALS are among them. EASE is left out if its dense
            matrices would be too large.
    """
    baselines: dict[str, list[Baseline]] = {
        name: [RecentPopularity(timeline, {"periods": n}, once=once) for n in RECENT_PERIODS]
        for name, once in ((RECENT_POPULARITY_NAME, False), (RECENT_PEOPLE_NAME, True))
    }
    if not with_models:
        return baselines
    if timeline.histories.n_items <= MAX_DENSE_ITEMS:
        arrays = import_module("cupy") if engine == "cuda" else np
        baselines[EASE_NAME] = [
            RecencyEase(counts, {"half_life": counts.half_life, "ridge": ridge}, arrays)
            for counts in (RecencyCounts(timeline, half_life) for half_life in HALF_LIVES)
            for ridge in EASE_RIDGES
        ]
    baselines[ALS_NAME] = [
        RecencyAls(timeline, {"half_life": half_life, "ridge": ridge}, seed, threads)
        for half_life, ridge in product(HALF_LIVES, ALS_RIDGES)
    ]
    baselines[TRUSTED_NAME] = [
        TrustedAls(timeline, {"periods": n}, seed, threads) for n in TRUSTED_PERIODS
    ]
    return baselines
