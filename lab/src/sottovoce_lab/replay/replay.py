"""A training without end over a data set in the order of its days, tested on the next period.

Each period ends with an epoch, as in a live service. Each person who has joined takes part by
random draws, with the probability `share` of the terms, and at most as often as the lifetime
allows. Reports are made from the items that the person has touched until then. Items that arrive
get rows of zeros. Before the epoch of a period, the model of the last epoch is tested on the
period's interactions. So no test uses training data.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import WORDS_PER_DRAW, coin
from sottovoce.core.named import find_latest
from sottovoce.data import Interactions
from sottovoce.errors import DataError, SettingsError
from sottovoce.privacy import PrivacyReport, make_privacy_report
from sottovoce.settings import check, setting
from sottovoce.simulation.engines import AUTO_ENGINE, build_engine, load_engine_package
from sottovoce.simulation.population import Part, People, WholeParts
from sottovoce.simulation.random_words import philox
from sottovoce.simulation.start import drop_empty, select_before
from sottovoce.simulation.training import TrainingState, run_epoch, start_training
from sottovoce.training import NameCounts, Settings
from sottovoce.training.items import set_start_length
from sottovoce.training.start import learn_start
from sottovoce_lab.replay.baselines import (
    RECENT_POPULARITY_NAME,
    BaselineContest,
    Choice,
    make_baselines,
)
from sottovoce_lab.replay.cases import select_cases
from sottovoce_lab.replay.rivals import (
    FROZEN_NAME,
    MODEL_NAME,
    CaseResults,
    collect_side_information,
    rank_models,
)
from sottovoce_lab.replay.timeline import Timeline

Float32 = NDArray[np.float32]
# Number of the purpose of the random words that decide who takes part. The numbers of the other
# purposes are in `simulation.random_words`.
PARTICIPATION_PURPOSE = 4


@dataclass(frozen=True)
class ReplayPlan:
    """Settings of a replay in addition to those of the training."""

    settings: Settings
    negatives: int = setting(99, "items that a person never touched, to rank against", min_value=1)
    people: int = setting(2_000, "maximum number of people tested in each period", min_value=1)
    tags: bool = True
    time: bool = True
    baseline_models: bool = True
    """Whether to compare with EASE and ALS, and not only with recent popularity."""
    engine: str = AUTO_ENGINE
    engine_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Raises SettingsError for a missing engine, before the data is read.
        load_engine_package(self.engine)
        check(self)
        if not self.settings.half_life:
            raise SettingsError(
                "a replay learns without end: half_life must be above 0 (after 1000 epochs and "
                "more, nothing fades that matters)"
            )


@dataclass(frozen=True, eq=False)
class ReplayStart:
    """A public start, of which each period knows only what is older."""

    table: Interactions
    """Public interactions with items of the data set."""
    factors: int

    def learn(self, timeline: Timeline, period: int) -> Float32:
        """Learn the start from what is older than a period, for the items of the period.

        Without times, all interactions count in every period. Without interactions, all rows are
        zero.
        """
        table = select_before(self.table, timeline.span[period][0])
        ids = timeline.data.item_ids[timeline.rows[timeline.windows[period]]]
        rows = {str(item): row for row, item in enumerate(ids.tolist())}
        histories = drop_empty(table.match_items(rows).histories)
        if not histories.n_interactions:
            return np.zeros((len(rows), self.factors), np.float32)
        return learn_start(histories, self.factors)

    def renew(self, V: Float32, timeline: Timeline, period: int) -> Float32:
        """Return the item matrix of a training of names with the start of a period."""
        factors = set_start_length(self.learn(timeline, period))
        return np.concatenate([V[:, :1], factors], axis=1)


@dataclass(frozen=True, eq=False)
class Period:
    """One period and the epoch that ends it."""

    number: int
    """Number of the period, from 0. It is also the number of epochs before the period's test."""
    state: TrainingState
    """The model that is tested in this period, with rows of zeros for items that arrive in it."""
    people: int
    """Number of people who took part."""
    joined: int
    """Number of people who had touched anything by the end of the period."""
    seconds: float
    tested: CaseResults | None
    """Test of this period; None if nobody could be tested, as in the first period."""
    tested_on_new: CaseResults | None
    """Test with new items only, in the later periods."""


@dataclass(frozen=True, eq=False)
class Replay:
    """All periods of one replay."""

    plan: ReplayPlan
    timeline: Timeline
    periods: list[Period]
    frozen_at: int
    """Number of epochs of the frozen model."""
    choices: Mapping[str, Choice]
    """Chosen settings of the baselines."""

    @property
    def crowd(self) -> int:
        """Smallest number of people who took part in an epoch."""
        return min(period.people for period in self.periods)

    @cached_property
    def privacy_report(self) -> PrivacyReport:
        """Largest privacy cost of a person, if every epoch had the smallest crowd of the replay."""
        event = self.plan.settings.event(len(self.periods[-1].state.V))
        return make_privacy_report(event, self.crowd)

    def compute_curve(self, name: str) -> dict[int, float]:
        """Return HR@10 of a model in the whole catalogue, by period."""
        return {
            period.number: float(period.tested.hits[name].mean())
            for period in self.periods
            if period.tested is not None and name in period.tested.hits
        }


def run_replay(
    timeline: Timeline,
    plan: ReplayPlan,
    *,
    frozen_at: int | None = None,
    after: Replay | None = None,
    choices: Mapping[str, Choice] | None = None,
    start: ReplayStart | None = None,
    on_period: Callable[[Period], None] = lambda _: None,
) -> Replay:
    """Run all periods. The seed of the settings decides participation, reports and tests.

    Args:
        timeline: The data.
        plan: The settings.
        frozen_at: A second model stops learning after this many epochs; None: after half of them.
        after: A replay of another timeline that is equal for the first `frozen_at` periods. These
            periods and the replay's chosen settings are reused.
        choices: Chosen settings of the baselines; None: they are chosen in this replay.
        start: The public start; None: there is none.
        on_period: Receives each new period.
    """
    frozen_at = timeline.n_periods // 2 if frozen_at is None else frozen_at
    # Until tastes change, both timelines are the same, so `after` has these periods.
    periods = [] if after is None else after.periods[:frozen_at]
    first = None if after is None else after.periods[frozen_at].state
    baselines = make_baselines(
        timeline,
        plan.settings.seed,
        engine=plan.engine,
        threads=plan.engine_options.get("threads"),
        # A replay that continues another one shows only how the model recovers.
        with_models=plan.baseline_models and after is None,
    )
    contest = BaselineContest(timeline, baselines, after.choices if after else choices)
    for period in _run_periods(timeline, plan, frozen_at, first, contest, start):
        periods.append(period)
        on_period(period)
    return Replay(plan, timeline, periods, frozen_at, contest.choices)


def draw_participants(timeline: Timeline, settings: Settings) -> NDArray[np.bool_]:
    """Return who takes part in each period, periods x people, by the rule of devices."""
    everybody = np.arange(timeline.histories.n_users)
    # People join at different times, so the turns of each person are counted.
    turns_left = np.full(len(everybody), settings.max_turns)
    takes = np.zeros((timeline.n_periods, len(everybody)), bool)
    for period in range(timeline.n_periods):
        # A draw gives four words, so one draw is enough for four periods.
        draw, word = divmod(period, WORDS_PER_DRAW)
        words = philox((settings.seed, PARTICIPATION_PURPOSE), np.array(draw), everybody, 0, 0)
        draws_turn = coin.to_unit_floats(words[..., word]) < settings.share
        takes[period] = draws_turn & (timeline.joined <= period) & (turns_left > 0)
        turns_left -= takes[period]
    return takes


def _run_periods(
    timeline: Timeline,
    plan: ReplayPlan,
    frozen_at: int,
    first: TrainingState | None,
    contest: BaselineContest,
    start: ReplayStart | None,
) -> Iterator[Period]:
    settings, windows = plan.settings, timeline.windows
    first_items = None
    if start is not None:
        first_items = start.learn(timeline, 0)
        if not (first_items.any() or settings.asks_for_names):
            raise DataError(
                f"{start.table.name}: all {start.table.n_interactions:,} interactions are younger "
                "than the first period; name a start with older ones"
            )
    state = first or start_training(settings, windows[0].stop, first_items)
    frozen, takes = state, draw_participants(timeline, settings)
    for number in range(state.epochs_done, timeline.n_periods):
        began = time.perf_counter()
        last = windows[max(number - 1, 0)]
        before = _move_window(state, last, windows[number])
        if start is not None and settings.asks_for_names:
            before = replace(before, V=start.renew(before.V, timeline, number))
        # The frozen model no longer learns, but new items need rows in it, too.
        frozen = before if number <= frozen_at else _move_window(frozen, last, windows[number])
        models = {MODEL_NAME: before.V}
        if number > frozen_at:
            models[FROZEN_NAME] = frozen.V
        # Test before the epoch, because the model must not have learnt from this period yet.
        tested = _test(timeline, plan, number, models, contest)
        tested_on_new = None
        if number in timeline.later:
            only_model = {MODEL_NAME: before.V}
            tested_on_new = _test(timeline, plan, number, only_model, contest, only_new=True)
        state = _run_epoch(timeline, plan, before, takes[number])
        people = state.n_reports // settings.reports
        joined = int((timeline.joined <= number).sum())
        seconds = time.perf_counter() - began
        yield Period(number, before, people, joined, seconds, tested, tested_on_new)


def _move_window(state: TrainingState, last: slice, window: slice) -> TrainingState:
    """Return the state for the catalogue of the next period."""
    removed = window.start - last.start
    state = state.add_items(window.stop - last.start)
    names = None if state.names is None else NameCounts(state.names.table[:, removed:])
    return replace(state, V=state.V[removed:], names=names)


def _test(
    timeline: Timeline,
    plan: ReplayPlan,
    number: int,
    models: dict[str, Float32],
    contest: BaselineContest,
    *,
    only_new: bool = False,
) -> CaseResults | None:
    seed = plan.settings.seed
    cases = select_cases(timeline, number, plan.people, plan.negatives, seed, only_new=only_new)
    if not len(cases):
        return None
    side_information = collect_side_information(timeline, cases, tags=plan.tags, time=plan.time)
    ranks = rank_models(timeline, cases, models, plan.settings, side_information)
    # For new items, recent popularity is enough for comparison; EASE and ALS would take long.
    names = (RECENT_POPULARITY_NAME,) if only_new else ()
    return CaseResults(cases, ranks | contest.rank(cases, side_information, names))


def _run_epoch(
    timeline: Timeline, plan: ReplayPlan, state: TrainingState, takes: NDArray[np.bool_]
) -> TrainingState:
    """Return the state after the reports of those who take part at the end of a period."""
    users, settings = np.flatnonzero(takes), plan.settings
    window = timeline.windows[state.epochs_done]
    histories, times = timeline.collect_histories(users, state.epochs_done, window)
    if settings.asks_for_names:
        histories = find_latest(histories, times)
    # The participants were drawn before. The engine gets only these people, and all of them report.
    everybody = replace(settings, lifetime=0)
    people = WholeParts(Part(People(histories, chosen=users)))
    with build_engine(plan.engine, people, everybody, **plan.engine_options) as engine:
        return run_epoch(engine, state)
