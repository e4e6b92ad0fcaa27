"""A training without end over a data set in the order of its days, tested on what comes next.

Each period ends with an epoch, as a live service runs it: whoever has joined takes part by coins of
their own, with the chance `share` of the terms and never more often than a lifetime allows,
reporting from what they had touched by then. Items that arrive get rows of zeros. Before the epoch,
the model of the last one is tested on this period: nothing is tested that was trained on.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import WORDS_PER_DRAW
from sottovoce.core.recommending import WideModel, build_popularity_model, weigh_histories
from sottovoce.core.tags import make_empty_tags
from sottovoce.errors import DataError, SettingsError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import AUTO_ENGINE, build_engine, load_engine_package
from sottovoce.simulation.evaluation.metrics import Interval, compute_hits, ndcg
from sottovoce.simulation.evaluation.ranking import Ranks, rank_factors
from sottovoce.simulation.evaluation.side_information import SideInformation, rank_devices
from sottovoce.simulation.random_words import philox
from sottovoce.simulation.training import TrainingState, start_training
from sottovoce.training import Settings, compute_next_items
from sottovoce_lab.replay.timeline import YOUNG, Cases, Timeline, cases_of

# Models side by side on the same cases of a replay, each with what devices know and without.


Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
CUTOFF = 10
CHANCES = 4
"""What random words are for: another number than in `simulation.random_words`."""
RECENT = 2
"""Periods that make the popularity of today."""
MODEL, FROZEN, POPULAR, LATELY = "model", "frozen", "popularity", "popularity lately"
ALONE = " alone"
"""Ends the name of one that knows neither tags nor the order of a history."""


@dataclass(frozen=True, eq=False)
class Tested:
    """One period: of each rival, by name, the chance of a hit in each case, and the NDCG."""

    cases: Cases
    hits: dict[str, Float64]
    ndcg: dict[str, float]

    def quality(self) -> dict[str, dict[str, float]]:
        """By name, as in every evaluation."""
        return {
            name: {f"hr@{CUTOFF}": float(each.mean()), f"ndcg@{CUTOFF}": self.ndcg[name]}
            for name, each in self.hits.items()
        }


def tested(
    timeline: Timeline,
    cases: Cases,
    models: dict[str, Float32],
    settings: Settings,
    known: SideInformation,
) -> Tested:
    """The models by name, whose rows are the catalogue's, beside two kinds of popularity."""
    ranks: dict[str, Ranks] = {}
    for name, V in models.items():
        ridge = settings.compute_user_ridge(V)
        for ending, knowing in (
            ("", known),
            (ALONE, SideInformation(make_empty_tags(len(V)), None)),
        ):
            wide = WideModel.from_model(V, knowing.tags, alpha=settings.alpha, regularization=ridge)
            ranks[name + ending] = rank_devices(wide, cases.candidates, knowing.weights)
    size, people = cases.candidates.split.train.n_items, timeline.histories.n_users
    for name, first in ((POPULAR, 0), (LATELY, max(cases.period - RECENT, 0))):
        counts = timeline.counts[first : cases.period, :size].sum(axis=0)
        wide = build_popularity_model(counts, people, known.tags)
        ranks[name] = rank_devices(wide, cases.candidates, known.weights)
        same = np.ones((len(cases), 1), np.float32)
        shares = counts.astype(np.float32)[:, None]
        ranks[name + ALONE] = rank_factors(same, shares, cases.candidates)
    return Tested(
        cases,
        {name: compute_hits(each, CUTOFF) for name, each in ranks.items()},
        {name: ndcg(each, CUTOFF) for name, each in ranks.items()},
    )


def known_to_devices(
    timeline: Timeline, cases: Cases, *, tags: bool, time: bool
) -> SideInformation:
    """In the period of these cases."""
    split = cases.candidates.split
    columns = timeline.tags(cases.period) if tags else make_empty_tags(split.train.n_items)
    ordered = split.times if time else None
    return SideInformation(
        columns, None if ordered is None else weigh_histories(split.train, ordered)
    )


@dataclass(frozen=True)
class ReplayPlan:
    """What to run beside the training's own settings."""

    settings: Settings
    negatives: int = setting(99, "items that a person never touched, to rank against", min_value=1)
    people: int = setting(2_000, "people who are tested in each period, at most", min_value=1)
    tags: bool = True
    time: bool = True
    engine: str = AUTO_ENGINE
    engine_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        load_engine_package(self.engine)  # refuses one that is not there, before the data is read
        check(self)
        if not self.settings.half_life:
            raise SettingsError(
                "a replay learns without end: half_life must be above 0 (after 1000 epochs and "
                "more, nothing fades that matters)"
            )


@dataclass(frozen=True, eq=False)
class Period:
    """One period and the epoch that ends it."""

    number: int
    """From 0: as many epochs were done before it."""
    V: Float32
    """Of the epochs before it, with rows of zeros for what arrived in it."""
    people: int
    """Who took part."""
    joined: int
    """Who had touched anything by its end."""
    seconds: float
    tested: Tested | None
    """None where nobody could be tested, as in the first."""
    young: Tested | None
    """The same on new items alone, in the later periods."""


@dataclass(frozen=True, eq=False)
class Replay:
    plan: ReplayPlan
    timeline: Timeline
    periods: list[Period]
    frozen_at: int

    @property
    def crowd(self) -> int:
        """The fewest people who took part in an epoch."""
        return min(period.people for period in self.periods)

    @cached_property
    def privacy_report(self) -> PrivacyReport:
        """What it cost each person at most, hidden among those of the smallest epoch."""
        event = self.plan.settings.event(len(self.periods[-1].V))
        return make_privacy_report(event, self.crowd)

    def curve(self, name: str) -> dict[int, float]:
        """HR@10 by period."""
        return {
            period.number: float(period.tested.hits[name].mean())
            for period in self.periods
            if period.tested is not None and name in period.tested.hits
        }


def replay(
    timeline: Timeline,
    plan: ReplayPlan,
    *,
    frozen_at: int | None = None,
    after: Replay | None = None,
    on_period: Callable[[Period], None] = lambda _: None,
) -> Replay:
    """All periods; the seed of the settings fixes coins, reports and whoever is tested.

    Beside the model stands the one that stopped to learn after `frozen_at` epochs, by default half
    of all. With `after`, a replay of a timeline that is the same until then, its periods up to
    there are taken over.
    """
    frozen_at = timeline.n_periods // 2 if frozen_at is None else frozen_at
    periods = [] if after is None else after.periods[:frozen_at]
    start = None if after is None else TrainingState(frozen_at, after.periods[frozen_at].V)
    for period in _periods(timeline, plan, frozen_at, start):
        periods.append(period)
        on_period(period)
    return Replay(plan, timeline, periods, frozen_at)


def chances(seed: int, epoch: int, users: NDArray[np.integer]) -> NDArray[np.float64]:
    """In [0, 1), as a device makes one of a word: who is below the share of the terms takes part.

    The rule of a training without end. That nobody takes part beyond a lifetime is counted by
    whoever asks, for people join at different times.
    """
    random_words = philox((seed, CHANCES), np.array(epoch // WORDS_PER_DRAW), users, 0, 0)
    return np.asarray(
        (random_words[..., epoch % WORDS_PER_DRAW] >> np.uint64(11)) * 2.0**-53, np.float64
    )


def takes_part(timeline: Timeline, settings: Settings) -> NDArray[np.bool_]:
    """By period and person: the rule of a device in a training without end."""
    everybody = np.arange(timeline.histories.n_users)
    left = np.full(len(everybody), settings.max_turns)
    takes = np.zeros((timeline.n_periods, len(everybody)), bool)
    for period in range(timeline.n_periods):
        below = chances(settings.seed, period, everybody) < settings.share
        takes[period] = below & (timeline.joined <= period) & (left > 0)
        left -= takes[period]
    return takes


def grown(V: Float32, n_items: int) -> Float32:
    """With rows of zeros for the items that were appended."""
    return np.concatenate([V, np.zeros((n_items - len(V), V.shape[1]), np.float32)])


def _periods(
    timeline: Timeline, plan: ReplayPlan, frozen_at: int, start: TrainingState | None
) -> Iterator[Period]:
    settings, sizes = plan.settings, timeline.catalogue_sizes
    state = start or start_training(settings, int(sizes[0]))
    frozen, takes = state.V, takes_part(timeline, settings)
    for number in range(state.epochs_done, timeline.n_periods):
        began = time.perf_counter()
        V = grown(state.V, int(sizes[number]))
        frozen = V if number <= frozen_at else grown(frozen, len(V))
        beside = {FROZEN: frozen} if number > frozen_at else {}
        found = _test(timeline, plan, number, {MODEL: V, **beside})
        is_later = number in timeline.later
        young = _test(timeline, plan, number, {MODEL: V}, young=True) if is_later else None
        state = _epoch(timeline, plan, TrainingState(number, V), takes[number])
        people = state.n_reports // settings.reports
        joined = int((timeline.joined <= number).sum())
        yield Period(number, V, people, joined, time.perf_counter() - began, found, young)


def _test(
    timeline: Timeline,
    plan: ReplayPlan,
    number: int,
    models: dict[str, Float32],
    *,
    young: bool = False,
) -> Tested | None:
    seed = plan.settings.seed
    cases = cases_of(timeline, number, plan.people, plan.negatives, seed, young=young)
    if not len(cases):
        return None
    known = known_to_devices(timeline, cases, tags=plan.tags, time=plan.time)
    return tested(timeline, cases, models, plan.settings, known)


def _epoch(
    timeline: Timeline, plan: ReplayPlan, state: TrainingState, takes: NDArray[np.bool_]
) -> TrainingState:
    """Reports of those whose turn it is, as at the end of the period."""
    users, settings = np.flatnonzero(takes), plan.settings
    n_items, number = len(state.V), state.epochs_done
    histories, _ = timeline.so_far(users, number, n_items)
    # Whose turn it is has been drawn: to the engine all of them take part.
    everybody = replace(settings, lifetime=0)
    with build_engine(
        plan.engine, histories, everybody, numbers=users, **plan.engine_options
    ) as engine:
        collected = engine.collect(state.V, number)
    # Where few people take turns, an epoch may be nobody's: then it estimates nothing.
    n_reports = max(collected.n_reports, 1)
    mechanism = settings.build(n_items)
    V = compute_next_items(state.V, collected.sums, n_reports, number + 1, settings, mechanism)
    return TrainingState(number + 1, V, n_reports=collected.n_reports)


AGES = (0, 1, 2, 3, 4, 6, 8)
"""Where rows of a table by age begin; the last ends where an item is no longer new."""
TOUCHED = (0, 1, 10, 30, 100, 300, 1_000, 3_000)
"""The same of how many people had touched an item; the last has no end."""


@dataclass(frozen=True)
class Row:
    """Cases of one kind, and HR@10 by name."""

    low: int
    high: int | None
    """The last of them; None: no end."""
    cases: int
    quality: dict[str, Interval]

    @property
    def label(self) -> str:
        if self.high is None:
            return f"{self.low:,} and more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Recovery:
    """After a switch: how much of HR@10 was lost, and how it came back."""

    lost: float
    """In the first period of other tastes."""
    gaps: list[float]
    """What was still missing, in shares of what was lost, after 0, 1, ... epochs of them.

    Empty where nothing was lost.
    """

    def epochs(self, won: float) -> int | None:
        """Until so large a share was won back for the first time; None: never.

        Single periods are noisy: a gap is the mean of three neighbours.
        """
        for n in range(1, len(self.gaps)):
            if 1 - float(np.mean(self.gaps[n - 1 : n + 2])) >= won:
                return n
        return None


def overall(replays: Sequence[Replay]) -> dict[str, dict[str, Interval]]:
    """By name and metric: the mean over the later periods."""
    found = [[t.quality() for t in _tested(replay)] for replay in replays]
    if not all(found):
        raise DataError("nobody can be tested: somebody must come back in the later periods")
    return {
        name: {
            metric: Interval.from_values(
                [float(np.mean([q[name][metric] for q in run])) for run in found]
            )
            for metric in found[0][0][name]
        }
        for name in found[0][-1]
        if all(name in quality for run in found for quality in run)
    }


def by_age(replays: Sequence[Replay]) -> list[Row]:
    """New items by the epochs in which they were in the catalogue; at the end all cases of others.

    Those of the last row are of the usual test, in which every item may be the next.
    """
    rows = _rows(replays, "age", AGES, YOUNG - 1)
    old = [[(t.cases.age >= YOUNG, t.hits) for t in _tested(replay)] for replay in replays]
    return [*rows, *_row_of(old, YOUNG, None)] if rows else []


def by_touched(replays: Sequence[Replay]) -> list[Row]:
    """New items by how many people had touched them before."""
    return _rows(replays, "touched", TOUCHED, None)


def recovery(steady: Sequence[Replay], switched: Sequence[Replay], name: str) -> Recovery:
    """How one that learns follows, against the same with tastes that stay; means over the seeds."""
    gaps: list[list[float]] = []
    for one, other in zip(steady, switched, strict=True):
        before, after = one.curve(name), other.curve(name)
        gaps.append([before[p] - after[p] for p in after if p >= other.frozen_at])
    mean = np.mean(gaps, axis=0)
    lost = float(mean[0])
    return Recovery(lost, [float(gap / lost) for gap in mean] if lost > 0 else [])


def _tested(replay: Replay) -> list[Tested]:
    return [p.tested for p in replay.periods if p.number in replay.timeline.later and p.tested]


def _rows(
    replays: Sequence[Replay], by: str, edges: tuple[int, ...], last: int | None
) -> list[Row]:
    rows: list[Row] = []
    ends = [*(edge - 1 for edge in edges[1:]), last]
    for low, high in zip(edges, ends, strict=True):
        cells = []
        for replay in replays:
            young = [period.young for period in replay.periods if period.young]
            cells.append([(_between(getattr(t.cases, by), low, high), t.hits) for t in young])
        rows += _row_of(cells, low, high)
    return rows


def _between(values: NDArray[np.int64], low: int, high: int | None) -> NDArray[np.bool_]:
    return (values >= low) & (values <= (values.max(initial=0) if high is None else high))


def _row_of(
    cells: list[list[tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]]],
    low: int,
    high: int | None,
) -> list[Row]:
    """None where a run has no such case: it would have no mean."""
    counts = [sum(int(mask.sum()) for mask, _ in run) for run in cells]
    if not min(counts):
        return []
    names = [name for name in cells[0][0][1] if all(name in h for run in cells for _, h in run)]
    quality = {
        name: Interval.from_values(
            [
                float(np.concatenate([hits[name][mask] for mask, hits in run]).mean())
                for run in cells
            ]
        )
        for name in names
    }
    return [Row(low, high, sum(counts), quality)]
