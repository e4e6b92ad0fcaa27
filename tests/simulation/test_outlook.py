"""The outlook of a shop follows from the planner, the accountant and real trainings."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from sottovoce.core.tags import build_tags
from sottovoce.errors import SettingsError
from sottovoce.privacy import make_privacy_report
from sottovoce.simulation import outlook
from sottovoce.simulation.outlook import (
    ShopOutlook,
    ShopResult,
    find_enough_newcomers,
    find_enough_people,
    find_enough_volunteers,
    make_names_outlook,
    make_shop_outlook,
    try_shop,
)
from sottovoce.training import Budget, plan_training
from sottovoce.training.planning import PublicNumbers

ABOUT = PublicNumbers(people=300, items=60, history=6)


def make_outlook(*curves: tuple[list[float], float], simulated: int = 300) -> ShopOutlook:
    """Make an outlook of shops with these lists by epoch, and this popularity."""
    budget = Budget(local=10)
    shops = [ShopResult(3, 0.6, 0, lists, popularity, 0.01) for lists, popularity in curves]
    return ShopOutlook(
        ABOUT, budget, plan_training(300, 60, history=6, budget=budget), simulated, shops
    )


def test_verdict_depends_on_every_shop_and_on_their_mean() -> None:
    better, worse, hardly = ([0.1, 0.4], 0.3), ([0.3, 0.2], 0.3), ([0.3, 0.31], 0.3)
    assert make_outlook(better, better).verdict == "yes"
    assert make_outlook(better, better).better_after == 2
    assert (
        make_outlook(hardly, hardly).verdict
        == make_outlook(better, better, worse).verdict
        == "barely"
    )
    assert make_outlook(worse, worse).verdict == "no"
    assert make_outlook(([0.4, 0.2], 0.3)).better_after is None
    assert make_outlook(([0.4, 0.2, 0.4, 0.5], 0.3)).better_after == 3
    assert make_outlook(better, simulated=10).verdict == "yes"
    assert make_outlook(worse, simulated=10).verdict == "unknown"
    assert (
        make_outlook(better, worse).lists.lowest,
        make_outlook(better, worse).lists.highest,
    ) == (
        0.2,
        0.4,
    )


@pytest.mark.parametrize("budget", [Budget(local=10), Budget(50), Budget(10, 1), Budget(central=5)])
def test_promise_and_privacy_report_follow_from_the_plan(budget: Budget) -> None:
    settings = plan_training(20_000, 500, history=8, budget=budget)
    result = ShopOutlook(PublicNumbers(20_000, 500, 8), budget, settings, 20_000, [])
    crowd = settings.estimate_crowd(20_000)
    assert (
        result.privacy_report.training == make_privacy_report(settings.event(500), crowd).training
    )
    assert result.promise.clients == result.min_clients == (1 if settings.dummies else crowd)
    assert result.promise.local == pytest.approx(result.privacy_report.training.pure)
    assert result.promise.local <= (budget.local or np.inf)
    assert (result.privacy_report.training.central or np.inf) <= (budget.central or np.inf)
    assert result.weeks == 1


def test_an_epoch_waits_for_its_crowd() -> None:
    budget = Budget(local=10)
    few = ShopOutlook(
        PublicNumbers(40, 60, 6), budget, plan_training(40, 60, budget=budget), 40, []
    )
    assert (few.weeks, few.min_clients, few.privacy_report.people) == (25, 100, 100)


def test_seed_fixes_the_result_and_more_people_make_it_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlook, "SHOP_KINDS", ((3, 0.8),))
    monkeypatch.setattr(outlook, "MIN_PEOPLE_TRIED", 100)
    few, many, budget = replace(ABOUT, people=100), replace(ABOUT, people=800), Budget(local=50)
    small, large = make_shop_outlook(few, budget, seed=3), make_shop_outlook(many, budget, seed=3)
    assert make_shop_outlook(few, budget, seed=3) == small
    assert make_shop_outlook(few, budget, seed=4).shops != small.shops
    assert small.lists.mean < large.lists.mean > large.popularity.mean
    scaled = make_shop_outlook(many, budget, seed=3, max_seconds=0.04)
    assert 200 < scaled.simulated < 600
    assert scaled.settings == large.settings
    assert scaled.lists.mean < large.lists.mean + 0.02


def test_enough_people_and_volunteers_are_better_than_popularity_and_fewer_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outlook, "SHOP_KINDS", ((3, 0.8),))
    monkeypatch.setattr(outlook, "MIN_PEOPLE_TRIED", 50)
    few, budget = replace(ABOUT, people=50), Budget(local=50)
    people = find_enough_people(few, budget, seed=3)
    assert people is not None
    assert make_shop_outlook(replace(few, people=people), budget, seed=3).is_better
    assert not make_shop_outlook(replace(few, people=people // 2), budget, seed=3).is_better
    assert find_enough_volunteers(few, seed=3) == 50
    monkeypatch.setattr(outlook, "START_SIZES", (2,))
    assert find_enough_volunteers(few, seed=3) is None
    monkeypatch.setattr(outlook, "MAX_PEOPLE_RATIO", 1)
    assert find_enough_people(few, budget, seed=3) is None


def test_enough_newcomers_are_not_many_more_than_needed() -> None:
    for budget in (Budget(local=10), Budget(local=50)):
        enough = find_enough_newcomers(ABOUT, 0, budget)
        larger = replace(ABOUT, people=max(ABOUT.people, enough))
        assert make_names_outlook(larger, enough, budget).verdict == "barely"
        assert make_names_outlook(larger, int(0.9 * enough) - 1, budget).verdict == "no"


def test_reports_must_be_better_than_tags_alone() -> None:
    settings = plan_training(300, 60, history=6, budget=Budget(local=10))
    tags = build_tags([{"kind": (f"kind {number % 3}",)} for number in range(60)])
    with_tags = try_shop(ABOUT, settings, tastes=3, focus=0.8, tags=tags)
    without = try_shop(ABOUT, settings, tastes=3, focus=0.8)
    assert with_tags.tags_alone is not None
    assert with_tags.tags_alone > with_tags.chance
    assert with_tags.baseline == max(with_tags.popularity, with_tags.tags_alone)
    better_tags = replace(with_tags, tags_alone=with_tags.lists[-1] + 0.1, popularity=0.0)
    assert replace(make_outlook(), shops=[better_tags]).verdict == "no"
    assert (without.tags_alone, without.baseline) == (None, without.popularity)


def test_plan_that_takes_too_long_to_try_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError):
        make_shop_outlook(ABOUT, Budget(local=10), max_seconds=1e-5)
    monkeypatch.setattr(outlook, "MAX_EPOCHS_TRIED", 3)
    with pytest.raises(SettingsError):
        make_shop_outlook(replace(ABOUT, people=800), Budget(local=50))


def test_popularity_of_one_person_is_chance() -> None:
    one_person = replace(ABOUT, people=1)
    settings = plan_training(1, 60, history=6, budget=Budget(local=10))
    result = try_shop(one_person, settings, tastes=3, focus=0.8)
    assert result.popularity == pytest.approx(result.chance)


@pytest.mark.parametrize(
    ("people", "items", "history", "budget"),
    [
        (0, 60, 6, (10, None)), (-5, 60, 6, (10, None)), (300, 0, 6, (10, None)),
        (300, 19, 6, (10, None)), (300, 60, 61, (10, None)), (300, 60, 30, (10, None)),
        (300, 60, nan, (10, None)), (300, 60, 6, (nan, None)), (300, 60, 6, (0, None)),
        (1, 60, 6, (None, 1)), (10**31, 60, 6, (10, None)),
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused(
    people: int, items: int, history: float, budget: tuple[float | None, float | None]
) -> None:
    with pytest.raises(SettingsError):
        make_shop_outlook(PublicNumbers(people, items, history), Budget(*budget))
