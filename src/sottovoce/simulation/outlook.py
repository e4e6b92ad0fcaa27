"""An estimate of whether a shop is large enough, for both kinds of reports.

A plan of tastes is tried in invented shops with the shop's numbers of people and items. Nobody
knows the tastes of a shop's people before it learns, so several kinds are tried: few tastes or
many, sharp or blurred. The differences between their results show how uncertain the estimate is.
With the tags of the shop's catalogue, lists use them and tastes follow them in part.

A plan of names is not tried, because invented people have no days on which they touch one thing and
not another. What counts is the supply of reports: a person sends few of them in a lifetime, so in
the long run all reports come from new people.

If a plan is not enough, the same estimates are repeated for more people, and for public starts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, Loudest, Named
from sottovoce.core.tags import Tags, make_empty_tags
from sottovoce.data import Interactions, Split, leave_one_out
from sottovoce.data.shops import LENGTH_SIGMA, shop
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport, Promise, make_privacy_report
from sottovoce.protocol.terms import Terms
from sottovoce.simulation.engines import build_engine, should_use_reference
from sottovoce.simulation.evaluation.lists import make_device_model, to_factors
from sottovoce.simulation.evaluation.metrics import hit_ratio
from sottovoce.simulation.evaluation.ranking import rank_hidden
from sottovoce.simulation.training import Record, TrainingLog, TrainingState
from sottovoce.training import (
    Budget,
    Participation,
    Settings,
    make_first_items,
    make_items_from_start,
    plan_open_ended,
    plan_training,
)
from sottovoce.training.naming import (
    DAYS_PER_WEEK,
    MIN_USEFUL_REPORTS,
    WANTED_REPORTS,
    choose_epoch_days,
    choose_naming_epochs,
)
from sottovoce.training.planning import PublicNumbers, plan_without_reports
from sottovoce.training.start import learn_start

Verdict = Literal["yes", "barely", "no", "unknown"]

# The invented shops: the number of tastes, and the share of choices that follow a person's taste.
SHOP_KINDS = tuple((tastes, focus) for tastes in (3, 6, 10) for focus in (0.6, 0.8))
# Number of items in a recommended list.
LIST_LENGTH = 10
# The largest number of people in each shop whose lists are measured.
MAX_TESTED_PEOPLE = 2_000
# Lists that are better than popularity by less than this share are hardly worth a training.
MIN_GAIN = 0.1
# Time of one core for one shop. If all people would take longer, fewer people are simulated.
MAX_SECONDS_PER_SHOP = 35.0
# A simulation with fewer people says nothing about a larger shop.
MIN_PEOPLE_TRIED = 1_000
# Plans with more epochs are refused, because they would take too long to try.
MAX_EPOCHS_TRIED = 260
# The search for enough people tries at most this many times as many, and this much time of one core
# for each shop.
MAX_PEOPLE_RATIO = 64
MAX_SEARCH_SECONDS_PER_SHOP = 8.0
# Numbers of people in the public starts that are tried, and of the people whose lists are measured.
START_SIZES = (50, 100, 200, 400, 800, 1_600)
START_TESTED_PEOPLE = 500
# If a shop has fewer items, a list of ten shows more than half of them.
MIN_SHOP_ITEMS = 20


@dataclass(frozen=True)
class ShopResult:
    """The quality of lists in one invented shop: HR@10 among the whole catalogue."""

    tastes: int
    focus: float
    seed: int
    lists: list[float]
    """HR@10 after each epoch."""
    popularity: float
    """HR@10 of the most popular items, by counts that are not private."""
    chance: float
    """HR@10 of a random list."""
    tags_alone: float | None = None
    """HR@10 of lists without reports; None if the items have no tags."""

    @property
    def baseline(self) -> float:
        """HR@10 that reports must exceed to be worth anything."""
        return max(self.popularity, self.tags_alone or 0.0)


@dataclass(frozen=True)
class Range:
    """The mean, the lowest and the highest value of a number in the invented shops."""

    mean: float
    lowest: float
    highest: float

    @classmethod
    def from_values(cls, values: list[float]) -> "Range":
        return cls(float(np.mean(values)), min(values), max(values))


@dataclass(frozen=True)
class PlanOutlook:
    """A plan for a shop, and its privacy."""

    public_numbers: PublicNumbers
    budget: Budget
    settings: Settings
    accounts: bool = field(default=False, kw_only=True)
    """Whether reports need accounts; the promise is then for one account."""

    @property
    def min_clients(self) -> int:
        """The minimum size of the crowd that the terms can promise to devices.

        It is the number of people who report in an epoch, but not below the usual minimum. With
        dummies it is 1.
        """
        if self.settings.dummies:
            return 1
        return max(
            self.settings.estimate_crowd(self.public_numbers.people), Participation.min_clients
        )

    @cached_property
    def privacy_report(self) -> PrivacyReport:
        """The privacy report of the plan, as `sottovoce privacy` shows it."""
        crowd = max(self.settings.estimate_crowd(self.public_numbers.people), self.min_clients)
        return make_privacy_report(self.settings.event(self.public_numbers.items), crowd)

    @cached_property
    def terms(self) -> Terms:
        """The terms that devices are asked to accept."""
        participation = Participation(min_clients=self.min_clients, accounts=self.accounts)
        return Terms.from_settings(
            bytes(16), self.settings, participation, self.public_numbers.items
        )

    @cached_property
    def promise(self) -> Promise:
        """The promise that a device makes to its owner."""
        return self.terms.promise()


@dataclass(frozen=True)
class NamesOutlook(PlanOutlook):
    """A plan of names for a shop, and how many reports an epoch has in the long run.

    `public_numbers.people` is the number of people who come while one person takes all their turns.
    """

    present: int
    """Number of people who come in a week when the training begins."""
    newcomers: int
    """Number of new people in a week."""
    epoch_days: int

    @property
    def reports_each(self) -> int:
        """Reports of one person in a lifetime."""
        return self.settings.turns * self.settings.reports

    @property
    def reports(self) -> float:
        """The expected number of reports in an epoch, in the long run."""
        return self.newcomers * self.epoch_days / DAYS_PER_WEEK * self.reports_each

    @property
    def first_reports(self) -> float:
        """The expected number of reports that `present` people add to each of the first epochs."""
        return self.present * self.settings.share * self.settings.reports

    @property
    def verdict(self) -> Verdict:
        """Whether the reports are enough: `yes`, `barely`, or `no`."""
        if self.reports >= WANTED_REPORTS:
            return "yes"
        return "barely" if self.reports >= MIN_USEFUL_REPORTS else "no"


@dataclass(frozen=True)
class ShopOutlook(PlanOutlook):
    """A plan of tastes for a shop, its duration, and how good lists were in invented shops."""

    simulated: int
    """Number of people in each invented shop: all of the real shop, or as many as time allows."""
    shops: list[ShopResult]

    @property
    def weeks(self) -> int:
        """The number of weeks that an epoch takes until its crowd is complete; at least one."""
        return max(ceil(self.min_clients / (self.public_numbers.people * self.settings.share)), 1)

    @property
    def lists(self) -> Range:
        return Range.from_values([result.lists[-1] for result in self.shops])

    @property
    def popularity(self) -> Range:
        return Range.from_values([result.popularity for result in self.shops])

    @property
    def baseline(self) -> Range:
        return Range.from_values([result.baseline for result in self.shops])

    @property
    def tags_alone(self) -> Range | None:
        """The quality of lists without reports; None if the items have no tags."""
        values = [result.tags_alone for result in self.shops if result.tags_alone is not None]
        return Range.from_values(values) if values else None

    @property
    def chance(self) -> Range:
        return Range.from_values([result.chance for result in self.shops])

    @property
    def curve(self) -> list[float]:
        """The mean HR@10 of the lists of all shops, after each epoch."""
        epochs = zip(*(result.lists for result in self.shops), strict=True)
        return [float(np.mean(values)) for values in epochs]

    @property
    def better_after(self) -> int | None:
        """The first epoch after which the mean of `lists` stays above `baseline`; None: never."""
        worse = [n for n, hr in enumerate(self.curve, 1) if hr <= self.baseline.mean]
        first = max(worse, default=0) + 1
        return None if first > len(self.curve) else first

    @property
    def verdict(self) -> Verdict:
        """Whether recommended lists are better than popularity, and than lists from tags alone.

        `yes`: in every shop, and in the mean by at least a tenth of the better one's HR@10.
        `barely`: only in the mean. `no`: not even in the mean. `unknown`: the verdict is not `yes`,
        but fewer people were simulated than the shop has.
        """
        if all(result.lists[-1] > result.baseline for result in self.shops) and (
            self.lists.mean >= (1 + MIN_GAIN) * self.baseline.mean
        ):
            return "yes"
        # Lists do not become worse with more people, so a `yes` for fewer people holds for all.
        if self.simulated < self.public_numbers.people:
            return "unknown"
        return "barely" if self.is_better else "no"

    @property
    def is_better(self) -> bool:
        """Whether lists are better in the mean than without reports."""
        return self.lists.mean > self.baseline.mean


def make_names_outlook(
    public_numbers: PublicNumbers, newcomers: int, budget: Budget, *, accounts: bool = False
) -> NamesOutlook:
    """Plan a training of names without an end, with epochs that are long enough.

    The turns of a person are spread over as many epochs as people stay.

    >>> outlook = make_names_outlook(PublicNumbers(20_000, 500, 8), 1_500, Budget(local=10))
    >>> outlook.verdict, outlook.epoch_days, outlook.reports
    ('yes', 5, 1071.4285714285713)

    Args:
        public_numbers: People per week, number of items, and the typical length of a history.
        newcomers: New people per week, who are among the people per week.
        budget: The epsilon that a person may spend.
        accounts: Whether reports need accounts.

    Raises:
        SettingsError: There is no plan for these numbers.
    """
    if newcomers > public_numbers.people:
        raise SettingsError(
            f"there are {newcomers:,} newcomers, but only {public_numbers.people:,} people in a "
            "week: count newcomers among the people"
        )

    def make_plan(people: int, epochs: int | None) -> Settings:
        return plan_open_ended(
            people,
            public_numbers.items,
            budget=budget,
            mechanism=Named.name,
            start_factors=public_numbers.start_factors,
            epochs=epochs,
        )

    # How many reports one person makes hardly depends on the numbers of people and epochs.
    first = make_plan(public_numbers.people, None)
    days = choose_epoch_days(newcomers * first.turns * first.reports / DAYS_PER_WEEK)
    epochs = choose_naming_epochs(public_numbers.people, newcomers, days)
    # A plan spreads the turns of its people over its epochs. So it is made for the people who come
    # during these epochs.
    people = max(round(newcomers * days / DAYS_PER_WEEK * epochs), 1)
    return NamesOutlook(
        replace(public_numbers, people=people),
        budget,
        make_plan(people, epochs),
        public_numbers.people,
        newcomers,
        days,
        accounts=accounts,
    )


def make_shop_outlook(
    public_numbers: PublicNumbers,
    budget: Budget,
    seed: int = 0,
    on_shop: Callable[[ShopResult], None] = lambda _: None,
    max_seconds: float = MAX_SECONDS_PER_SHOP,
    *,
    accounts: bool = False,
    tags: Tags | None = None,
) -> ShopOutlook:
    """Plan a training of tastes for a shop, and try the plan in invented shops.

    >>> small = make_shop_outlook(PublicNumbers(people=100, items=40, history=5), Budget(local=10))
    >>> small.verdict, small.promise.local
    ('no', 10.0)

    Args:
        public_numbers: People per week, number of items, and the typical length of a history.
        budget: The epsilon that a person may spend.
        seed: Seed of the invented people and of their reports.
        on_shop: Called with the result of each shop.
        max_seconds: Seconds that one core may take for one shop.
        accounts: Whether reports need accounts.
        tags: The tags of the shop's items; None: they have none, or they are not known.

    Raises:
        SettingsError: There is no plan for these numbers, or it would take too long to try.
    """
    check_shop_size(public_numbers)
    settings = _plan(public_numbers, budget, seed)
    if settings.epochs > MAX_EPOCHS_TRIED:
        raise SettingsError(
            f"this plan has {settings.epochs:,} epochs, more than {MAX_EPOCHS_TRIED}: name a "
            "smaller central budget, or a local budget too"
        )
    affordable = _limit_people(public_numbers, settings, max_seconds)
    # Nobody knows what the start says about an invented shop, so it is tried without one.
    affordable = replace(affordable, start_factors=0)
    tried = settings if affordable == public_numbers else _plan(affordable, budget, seed)
    shops = []
    for number, (tastes, focus) in enumerate(SHOP_KINDS):
        shops.append(try_shop(affordable, replace(tried, seed=seed + number), tastes, focus, tags))
        on_shop(shops[-1])
    return ShopOutlook(
        public_numbers, budget, settings, affordable.people, shops, accounts=accounts
    )


def check_shop_size(public_numbers: PublicNumbers) -> None:
    """Raise a `SettingsError` if a shop has too few items to say how good its lists are."""
    if (
        public_numbers.items < MIN_SHOP_ITEMS
        or public_numbers.history + 1 > public_numbers.items / 2
    ):
        raise SettingsError(
            f"lists of {LIST_LENGTH} need at least {MIN_SHOP_ITEMS} items, of which a person has "
            f"touched less than half; got {public_numbers.items} items and a history of "
            f"{public_numbers.history:g}"
        )


def _plan(public_numbers: PublicNumbers, budget: Budget, seed: int) -> Settings:
    return plan_training(
        public_numbers.people,
        public_numbers.items,
        history=public_numbers.history,
        budget=budget,
        seed=seed,
        mechanism=Loudest.name,
        start_factors=public_numbers.start_factors,
    )


def _limit_people(
    public_numbers: PublicNumbers, settings: Settings, max_seconds: float
) -> PublicNumbers:
    """Return the shop with only as many people as one core can simulate in this time."""
    # Seconds measured on the cpu engine, correct within a factor of two. `turn` is the time of one
    # person in one epoch, with one term for all directions and one for all reports. Inventing a
    # person takes 4e-5.
    turn = 1e-5 + 6e-10 * public_numbers.items * settings.factors + 6e-8 * settings.reports
    people = int(max_seconds / (4e-5 + turn * settings.turns))
    if people < min(public_numbers.people, MIN_PEOPLE_TRIED):
        raise SettingsError(
            f"{settings.reports * settings.turns:,} reports of each person are too many to try: "
            "name a smaller budget"
        )
    return replace(public_numbers, people=min(public_numbers.people, people))


@dataclass(frozen=True)
class InventedShop:
    """People of an invented shop, one left-out item of each, and how well lists find it."""

    counts: NDArray[np.int64]
    """Number of people who touched each item, the left-out ones not counted."""
    histories: Histories
    hidden: Histories
    tags: Tags

    def measure_lists(self, V: NDArray[np.float32], settings: Settings) -> float:
        """Return HR@10 of the lists that devices make from an item matrix."""
        X, W = to_factors(make_device_model(V, settings, self.tags), self.histories)
        return self._measure(X, W)

    def measure_popularity(self) -> float:
        """Return HR@10 of the most popular items."""
        ones = np.ones((self.histories.n_users, 1), np.float32)
        return self._measure(ones, self.counts.astype(np.float32)[:, None])

    def _measure(self, X: NDArray[np.float32], W: NDArray[np.float32]) -> float:
        return hit_ratio(rank_hidden(X, W, self.histories, self.hidden), LIST_LENGTH)


def _invent_people(
    public_numbers: PublicNumbers, tastes: int, focus: float, seed: int, tags: Tags | None
) -> Split:
    """Invent the people of a shop, and leave out one item of each."""
    # A typical person has as many items as `public_numbers` says, and one more, which is held out.
    # `length` is the mean of the lengths, whose median is one item above `public_numbers.history`.
    length = (public_numbers.history + 1) * np.exp(LENGTH_SIGMA**2 / 2)
    table = None if tags is None else tags.table
    people, items = public_numbers.people, public_numbers.items
    everybody = shop(people, items, length, tastes, seed, focus=focus, tags=table)
    ids = np.arange(people), np.arange(items)
    return leave_one_out(Interactions("shop", everybody, *ids), seed=seed)


def _select_tested(split: Split, tags: Tags | None, max_people: int) -> InventedShop:
    train, n = split.train, min(split.train.n_users, max_people)
    return InventedShop(
        train.popularity(),
        train.slice(0, n),
        split.left_out.slice(0, n),
        make_empty_tags(train.n_items) if tags is None else tags,
    )


def try_shop(
    public_numbers: PublicNumbers,
    settings: Settings,
    tastes: int,
    focus: float,
    tags: Tags | None = None,
) -> ShopResult:
    """Train in one invented shop. The result is a function of the settings and their seed."""
    split = _invent_people(public_numbers, tastes, focus, settings.seed, tags)
    tested = _select_tested(split, tags, MAX_TESTED_PEOPLE)

    def measure(state: TrainingState) -> Record:
        return {"hr": tested.measure_lists(state.V, settings)}

    is_small = should_use_reference(
        public_numbers.people * len(SHOP_KINDS), public_numbers.items, settings
    )
    log = TrainingLog.open(settings, public_numbers.items)
    first_V = log.state.V
    with build_engine("reference" if is_small else "cpu", split.train, settings) as engine:
        log.run(engine, measure)
    untouched = public_numbers.items - np.diff(tested.histories.indptr)
    return ShopResult(
        tastes,
        focus,
        settings.seed,
        lists=[record["hr"] for record in log.records],
        popularity=tested.measure_popularity(),
        chance=float(np.mean(LIST_LENGTH / untouched)),
        tags_alone=None if tags is None else tested.measure_lists(first_V, settings),
    )


def find_enough_newcomers(
    public_numbers: PublicNumbers, newcomers: int, budget: Budget, *, accounts: bool = False
) -> int:
    """Return how many new people in a week would be enough for a training of names.

    The result is at most a fiftieth above the smallest number. If it is larger than the number of
    people who come in a week, more people come in all.

    Args:
        public_numbers: As for `make_names_outlook`.
        newcomers: A number of new people in a week that is not enough.
        budget: The epsilon that a person may spend.
        accounts: Whether reports need accounts.
    """

    def is_enough(number: int) -> bool:
        larger = replace(public_numbers, people=max(public_numbers.people, number))
        return make_names_outlook(larger, number, budget, accounts=accounts).verdict != "no"

    too_few, enough = newcomers, max(2 * newcomers, 1)
    while not is_enough(enough):
        too_few, enough = enough, 2 * enough
    while enough - too_few > max(enough // 50, 1):
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    return enough


def find_enough_people(
    public_numbers: PublicNumbers,
    budget: Budget,
    seed: int = 0,
    on_try: Callable[[int], None] = lambda _: None,
    *,
    tags: Tags | None = None,
) -> int | None:
    """Return how many people in a week would be enough for a training of tastes, to a factor of 2.

    Enough is what makes lists better in the mean, as in the verdict `barely`.

    Args:
        public_numbers: The shop, with a number of people that is not enough.
        budget: The epsilon that a person may spend.
        seed: Seed of the invented people and of their reports.
        on_try: Called with each number of people before it is tried.
        tags: The tags of the shop's items.

    Returns:
        The number, or None if none was found in the time for the search.
    """
    people = public_numbers.people
    while people < public_numbers.people * MAX_PEOPLE_RATIO:
        people *= 2
        on_try(people)
        try:
            outlook = make_shop_outlook(
                replace(public_numbers, people=people),
                budget,
                seed,
                max_seconds=MAX_SEARCH_SECONDS_PER_SHOP,
                tags=tags,
            )
        except SettingsError:
            return None  # it would take too long to try
        # Lists do not become worse with more people than were simulated.
        if outlook.is_better:
            return people
        if outlook.simulated < people:
            return None
    return None


def find_enough_volunteers(
    public_numbers: PublicNumbers,
    seed: int = 0,
    on_try: Callable[[int], None] = lambda _: None,
    *,
    tags: Tags | None = None,
) -> int | None:
    """Return how many people must publish what they touched, so that lists need no report.

    Their interactions become a public start. Enough is what makes its lists better by a tenth in
    the mean, since real volunteers are not like other people.

    Args:
        public_numbers: The shop.
        seed: Seed of the invented people.
        on_try: Called with each number of people before it is tried.
        tags: The tags of the shop's items.

    Returns:
        The first of `START_SIZES` that is enough, or None.
    """
    for size in START_SIZES:
        on_try(size)
        numbers = replace(public_numbers, people=START_TESTED_PEOPLE + size)
        pairs = [
            _try_start(numbers, seed + number, tastes, focus, tags)
            for number, (tastes, focus) in enumerate(SHOP_KINDS)
        ]
        lists, baseline = np.mean(pairs, axis=0)
        if lists >= (1 + MIN_GAIN) * baseline:
            return size
    return None


def _try_start(
    numbers: PublicNumbers, seed: int, tastes: int, focus: float, tags: Tags | None
) -> tuple[float, float]:
    """Return HR@10 of lists from a public start in one invented shop, and what it must exceed.

    All people publish what they touched except the first `START_TESTED_PEOPLE`, who are tested.
    """
    split = _invent_people(numbers, tastes, focus, seed, tags)
    tested = _select_tested(split, tags, START_TESTED_PEOPLE)
    V = learn_start(split.train.slice(START_TESTED_PEOPLE, numbers.people))
    settings = plan_without_reports(numbers.items, V.shape[1])
    lists = tested.measure_lists(make_items_from_start(settings, V), settings)
    baseline = tested.measure_popularity()
    if tags is not None:
        first_V = make_first_items(settings, numbers.items)
        baseline = max(baseline, tested.measure_lists(first_V, settings))
    return lists, baseline
