"""Is a shop large enough? The real plan for its numbers, tried on invented shops of its shape.

Nobody knows the tastes of a shop before it learns, so several are tried: of few tastes and of many,
sharp and blurred. What they differ by is the doubt that is left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.tags import make_empty_tags
from sottovoce.data import Interactions, leave_one_out
from sottovoce.data.shops import LENGTH_SIGMA, shop
from sottovoce.errors import SettingsError
from sottovoce.privacy import PrivacyReport, Promise, make_privacy_report
from sottovoce.protocol.terms import Terms
from sottovoce.simulation.engines import build_engine, should_use_reference
from sottovoce.simulation.evaluation.metrics import hit_ratio
from sottovoce.simulation.evaluation.ranking import rank_hidden
from sottovoce.simulation.run import MAX_CUTOFF, make_device_model, to_factors
from sottovoce.simulation.training import start_training, train
from sottovoce.training import Budget, Participation, Settings, plan_training
from sottovoce.training.planning import PublicNumbers

Float32 = NDArray[np.float32]
Verdict = Literal["yes", "barely", "no", "unknown"]

SHOP_KINDS = tuple((tastes, focus) for tastes in (3, 6, 10) for focus in (0.6, 0.8))
"""Of the shops: how many tastes there are, and what share of a history is of the person's own."""
MAX_TESTED_PEOPLE = 2_000
"""People of each shop whose lists are looked at."""
MIN_GAIN = 0.1
"""Lists that are better than popularity by less than this are hardly worth a training."""
MAX_SECONDS_PER_SHOP = 35.0
"""Of one core for one shop. Where all people would take longer, fewer report."""
MIN_PEOPLE_TRIED, MAX_EPOCHS_TRIED, MIN_SHOP_ITEMS = 1_000, 260, 20


@dataclass(frozen=True)
class ShopResult:
    """How good lists were in one invented shop: HR@10 against the whole catalogue."""

    tastes: int
    focus: float
    seed: int
    lists: list[float]
    """After each epoch."""
    popularity: float
    """Of counts of what all its people touched, which are not private."""
    chance: float


@dataclass(frozen=True)
class Range:
    """Over the shops."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True)
class ShopOutlook:
    """What is promised to a person, how long it takes, and what lists are worth."""

    about: PublicNumbers
    budget: Budget
    settings: Settings
    simulated: int
    """People of each invented shop: all, or as many as time allows, for whom it was planned."""
    shops: list[ShopResult]
    accounts: bool = False
    """Whether reports need accounts: then the promise is for one of them."""

    @property
    def least_clients(self) -> int:
        """The crowd that devices can be promised: who takes part in a week, if that is enough."""
        if self.settings.dummies:
            return 1
        return max(self.settings.estimate_crowd(self.about.people), Participation.least_clients)

    @property
    def weeks(self) -> int:
        """That an epoch takes: one, or until its crowd has come."""
        return max(ceil(self.least_clients / (self.about.people * self.settings.share)), 1)

    @cached_property
    def privacy_report(self) -> PrivacyReport:
        """As `sottovoce privacy` has it."""
        among = max(self.settings.estimate_crowd(self.about.people), self.least_clients)
        return make_privacy_report(self.settings.event(self.about.items), among)

    @cached_property
    def promise(self) -> Promise:
        """As a device tells it to its owner."""
        asked = Participation(least_clients=self.least_clients, accounts=self.accounts)
        return Terms.from_settings(bytes(16), self.settings, asked, self.about.items).promise()

    @property
    def lists(self) -> Range:
        return _range([each.lists[-1] for each in self.shops])

    @property
    def popularity(self) -> Range:
        return _range([each.popularity for each in self.shops])

    @property
    def chance(self) -> Range:
        return _range([each.chance for each in self.shops])

    @property
    def curve(self) -> list[float]:
        """HR@10 of lists after each epoch, in the mean over shops."""
        return [float(np.mean(each)) for each in zip(*(s.lists for s in self.shops), strict=True)]

    @property
    def better_after(self) -> int | None:
        """Epochs from which on lists are better than popularity, in the mean; None: never."""
        worse = [n for n, hr in enumerate(self.curve, 1) if hr <= self.popularity.mean]
        first = max(worse, default=0) + 1
        return None if first > len(self.curve) else first

    @property
    def verdict(self) -> Verdict:
        """`yes`: better than popularity in every shop, and by a tenth of it in the mean.

        Of fewer people than there are, nothing but a `yes` says anything about all.
        """
        if all(each.lists[-1] > each.popularity for each in self.shops) and (
            self.lists.mean >= (1 + MIN_GAIN) * self.popularity.mean
        ):
            return "yes"
        if self.simulated < self.about.people:
            return "unknown"
        return "barely" if self.lists.mean > self.popularity.mean else "no"


def _range(values: list[float]) -> Range:
    return Range(float(np.mean(values)), min(values), max(values))


def make_shop_outlook(
    about: PublicNumbers,
    budget: Budget,
    seed: int = 0,
    on_shop: Callable[[ShopResult], None] = lambda _: None,
    most_seconds: float = MAX_SECONDS_PER_SHOP,
    *,
    accounts: bool = False,
) -> ShopOutlook:
    """Plan for a shop with so many people a week, and try the plan in invented shops.

    >>> small = make_shop_outlook(PublicNumbers(people=100, items=40, history=5), Budget(local=10))
    >>> small.verdict, small.promise.local
    ('no', 10.0)
    """
    _check(about)
    settings = _plan(about, budget, seed)
    if settings.epochs > MAX_EPOCHS_TRIED:
        raise SettingsError(
            f"this plan has {settings.epochs:,} epochs, more than {MAX_EPOCHS_TRIED}: name a "
            "smaller central budget, or a local one beside it"
        )
    some = _affordable(about, settings, most_seconds)
    tried = settings if some == about else _plan(some, budget, seed)
    shops = []
    for number, (tastes, focus) in enumerate(SHOP_KINDS):
        shops.append(try_shop(some, replace(tried, seed=seed + number), tastes, focus))
        on_shop(shops[-1])
    return ShopOutlook(about, budget, settings, some.people, shops, accounts)


def _plan(about: PublicNumbers, budget: Budget, seed: int) -> Settings:
    return plan_training(about.people, about.items, history=about.history, budget=budget, seed=seed)


def _check(about: PublicNumbers) -> None:
    if about.items < MIN_SHOP_ITEMS or about.history + 1 > about.items / 2:
        raise SettingsError(
            f"lists of {MAX_CUTOFF} need at least {MIN_SHOP_ITEMS} items, of which a person has "
            f"touched less than half; got {about.items} items and a history of {about.history:g}"
        )


def _affordable(about: PublicNumbers, settings: Settings, most_seconds: float) -> PublicNumbers:
    """The same shop with as many people as can report in so many seconds of one core.

    Measured on the cpu engine, within a factor of two: what it costs to invent a person, what a
    turn does, each of its directions, and each report.
    """
    turn = 1e-5 + 6e-10 * about.items * settings.factors + 6e-8 * settings.reports
    people = int(most_seconds / (4e-5 + turn * settings.turns))
    if people < min(about.people, MIN_PEOPLE_TRIED):
        raise SettingsError(
            f"{settings.reports * settings.turns:,} reports of each person are too many to try: "
            "name a smaller budget"
        )
    return replace(about, people=min(about.people, people))


def try_shop(about: PublicNumbers, settings: Settings, tastes: int, focus: float) -> ShopResult:
    """Train in one invented shop; the seed of the settings fixes all of it.

    The median person has as many items as `about` says, and one more, which is left out.
    """
    length, seed = (about.history + 1) * np.exp(LENGTH_SIGMA**2 / 2), settings.seed
    everybody = shop(about.people, about.items, length, tastes, seed, focus=focus)
    ids = np.arange(about.people), np.arange(about.items)
    split = leave_one_out(Interactions("shop", everybody, *ids), seed=seed)
    n = min(about.people, MAX_TESTED_PEOPLE)
    known, hidden = split.train.some(0, n), split.left_out.some(0, n)
    small = should_use_reference(about.people * len(SHOP_KINDS), about.items, settings)
    with build_engine("reference" if small else "cpu", split.train, settings) as engine:
        states = train(settings, engine, start_training(settings, about.items))
        lists = [_hit_ratio(state.V, settings, known, hidden) for state in states]
    counts = split.train.popularity().astype(np.float32)[:, None]
    popularity = hit_ratio(
        rank_hidden(np.ones((n, 1), np.float32), counts, known, hidden), MAX_CUTOFF
    )
    chance = float(np.mean(MAX_CUTOFF / (about.items - np.diff(known.indptr))))
    return ShopResult(tastes, focus, seed, lists, popularity, chance)


def _hit_ratio(V: Float32, settings: Settings, known: Histories, hidden: Histories) -> float:
    """Of lists as devices make them, without tags."""
    X, W = to_factors(make_device_model(V, settings)(make_empty_tags(len(V))), known)
    return hit_ratio(rank_hidden(X, W, known, hidden), MAX_CUTOFF)
