"""Settings from a budget: what is spent, on what, and never more."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS
from sottovoce.core.bounds import MOST_ENTRIES, MOST_ITEMS, MOST_REPORTS
from sottovoce.errors import SettingsError
from sottovoce.privacy import SIGN, Reporting, central_epsilon
from sottovoce.protocol import Terms
from sottovoce.training import Participation, Settings
from sottovoce.training.planning import (
    ENOUGH_REPORTS,
    Budget,
    most_reports,
    planned,
    planned_without_end,
)


@pytest.mark.parametrize(("epsilon", "fits"), [(1.0, True), (2.5, True), (9.0, False)])
def test_a_central_target_is_met_and_nearly_used_up(epsilon: float, fits: bool) -> None:
    most = most_reports(epsilon, SIGN, 1.0, 20_000, 1e-6)
    assert (most > 0) == fits  # one report of 9 is too much already
    if most:
        assert 0.9 < central_epsilon(Reporting(epsilon, most, 1), 20_000, 1e-6) <= 1.0
        more = Reporting(epsilon, most + max(2, most // 40), 1)
        assert central_epsilon(more, 20_000, 1e-6) > 1.0


@pytest.mark.parametrize(
    ("people", "items", "given", "planned_as"),
    [
        (75_040, 9_781, {"history": 200}, (17, 6.41, 0.063)),
        (50_000, 1_000, {"history": 140}, (28, 0.63, 0.097)),
        (50_000, 1_000, {"history": 20}, (20, 7.16, 1.0)),
        (50_000, 1_000, {"history": 20, "epsilon": 6.0}, (30, 8.76, 2.5)),
        (1_000, 1_000, {"history": 20, "epsilon": 6.0, "reports": 1}, (7, 4.23, 0.715)),
        (3_894, 2_338, {"history": 160}, (12, 1.07, 0.082)),
        (75_040, 9_781, {"epsilon": 5.0, "reports": 2, "epochs": 1}, (1, 1.6, 0.001)),
        (100, 500, {"reports": 1, "epochs": 1}, (1, 1.6, 1.0)),
        (75_040, 9_781, {"factors": 32, "history": 200}, (32, 8.79, 0.063)),
        (75_040, 9_781, {"factors": 3, "alpha": 0.25, "ridge": 0.5}, (3, 0.25, 0.5)),
        (75_040, 9_781, {"ridge": 0.0, "history": 200}, (17, 6.41, 0.0)),
    ],
)
def test_more_signal_fills_more_factors_and_short_histories_are_held(
    people: int, items: int, given: dict[str, Any], planned_as: tuple[int, float, float]
) -> None:
    found = planned(people, items, **given)
    assert (found.factors, found.alpha, found.ridge) == planned_as


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [(10, (10.0, 1, 20, 1)), (50, (10.0, 1, 20, 5)), (500, (10.0, 2, 25, 25)), (5_000, None)],
)
def test_a_local_budget_is_spent_on_few_loud_reports(
    budget: float, wanted: tuple[float, int, int, int] | None
) -> None:
    found = planned(75_040, 9_781, budget=Budget(local=budget))
    if wanted is not None:
        assert (found.epsilon, found.reports, found.epochs, found.turns) == wanted
    assert found.event(9_781).pure == pytest.approx(budget)
    assert 9 < found.epsilon < 11


@pytest.mark.parametrize(
    ("epsilon", "options"),
    [
        (0.5, {"block": 1024, "loud": 819}),
        (2.5, {"block": 1024, "loud": 409}),
        (3.3, {"block": 16, "loud": 37}),
    ],
)
def test_one_factor_is_popularity_of_which_all_blocks_can_tell(
    epsilon: float, options: dict[str, int]
) -> None:
    found = planned(1_000, 1_000, factors=1, epsilon=epsilon, reports=1)
    assert found.options == options


@pytest.mark.parametrize(("people", "items", "history"), [(200, 375, 36), (915, 416, 4)])
def test_what_is_too_little_for_tastes_buys_popularity(
    people: int, items: int, history: float
) -> None:
    """One report in one epoch, each as sure as can be; whoever names a setting gets tastes."""
    found = planned(people, items, history=history, budget=Budget(local=20))
    assert (found.epsilon, found.reports, found.epochs, found.factors) == (10.0, 2, 1, 1)
    named = planned(people, items, history=history, budget=Budget(local=20), factors=3)
    assert (named.factors, named.epochs > 1) == (3, True)


def test_a_budget_beyond_all_use_is_not_spent() -> None:
    """And somebody hears of it."""
    with pytest.warns(UserWarning, match="100000"):
        found = planned(800, 300, history=26, budget=Budget(local=100_000))
    assert found.reports * found.turns == ENOUGH_REPORTS
    assert found.event(300).pure < 20_000


def test_more_budget_never_takes_ridge_away() -> None:
    """It did, down to nothing, and a model of 800 people was half as good for it."""
    budgets = (50, 200, 500, 1_000, 5_000)
    plans = [planned(800, 300, history=26, budget=Budget(local=each)) for each in budgets]
    assert [each.ridge for each in plans] == sorted(each.ridge for each in plans)
    assert plans[0].ridge > 0.2


def test_few_people_do_not_take_turns() -> None:
    """Each epoch would have too few of them."""
    found = planned(3_894, 2_338, budget=Budget(local=10))
    assert (found.epochs, found.turns, found.reports) == (1, 1, 1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("target", [0.3, 1.0, 2.0])
def test_a_central_budget_is_met_and_nearly_used_up(mechanism: str, target: float) -> None:
    people, items = 20_000, 2_000
    found = planned(people, items, mechanism=mechanism, budget=Budget(central=target))
    spent = central_epsilon(found.event(items), people, 1e-6)
    assert 0.85 * target < spent <= target
    assert found.turns == found.epochs


@settings(max_examples=8, deadline=None)
@given(
    people=st.integers(1, 10**7),
    items=st.integers(20, 20_000),
    local=st.floats(0.5, 500),
    central=st.floats(0.1, 10),
    mechanism=st.sampled_from(sorted(MECHANISMS)),
    given=st.fixed_dictionaries(
        {}, optional={"epochs": st.integers(1, 30), "factors": st.integers(1, 20)}
    ),
)
@example(75_040, 9_781, 10.0, 1.0, "loudest", {})
@example(200, 500, 10.0, 1.0, "loudest", {})
@example(1, 20, 10.0, 1.0, "loudest", {})
def test_both_budgets_are_kept_whoever_else_reports(
    people: int, items: int, local: float, central: float, mechanism: str, given: dict[str, Any]
) -> None:
    budget = Budget(local=local, central=central)
    found = planned(people, items, mechanism=mechanism, budget=budget, **given)
    event = found.event(items)
    assert event.pure <= local * (1 + 1e-9)
    assert central_epsilon(event, 1, 1e-6) <= central
    if found.dummies > 300:  # and not many more than are needed
        fewer = replace(event, dummies=int(0.97 * found.dummies))
        assert central_epsilon(fewer, 1, 1e-6) > central
    assert {**found.as_dict(), **given} == found.as_dict()


def test_dummies_that_are_given_are_planned_around() -> None:
    both = Budget(local=10, central=1)
    free = planned(75_040, 9_781, budget=both)
    assert (free.epsilon, free.reports, free.turns, free.epochs) == (10.0, 1, 1, 4)
    assert 15_000 < free.dummies < 25_000
    assert planned(75_040, 9_781, budget=both, dummies=free.dummies) == free
    with pytest.raises(SettingsError, match="central"):
        planned(75_040, 9_781, budget=both, dummies=100)
    with pytest.raises(SettingsError, match="dummies"):
        planned(100, 10_000, budget=Budget(local=1e6, central=1e-3))
    # Without a local budget the crowd hides, and dummies let it say more.
    crowd, helped = (
        planned(2_000, 2_000, budget=Budget(central=1), dummies=each) for each in (0, 50_000)
    )
    assert central_epsilon(helped.event(2_000), helped.crowd(2_000), 1e-6) <= 1
    assert helped.event(2_000).pure >= crowd.event(2_000).pure


@pytest.mark.filterwarnings("ignore:of a budget")
@settings(max_examples=60)
@given(
    people=st.integers(1, 10**8),
    items=st.integers(1, 20_000),
    local=st.floats(0.01, 1e5),
    mechanism=st.sampled_from(sorted(MECHANISMS)),
    given=st.fixed_dictionaries(
        {},
        optional={
            "epsilon": st.floats(0.01, 30),
            "reports": st.integers(1, 300),
            "epochs": st.integers(1, 60),
            "lifetime": st.integers(0, 60),
            "factors": st.integers(1, 40),
            "alpha": st.floats(0, 10),
        },
    ),
)
@example(1, 1, 0.01, "coordinate", {"reports": 167, "epochs": 60})  # no epsilon is that small
def test_no_plan_spends_more_and_what_is_given_stays(
    people: int, items: int, local: float, mechanism: str, given: dict[str, Any]
) -> None:
    found, refused = None, ""
    try:
        found = planned(people, items, mechanism=mechanism, budget=Budget(local=local), **given)
    except SettingsError as error:
        refused = str(error)
    if found is None:
        assert "local" in refused
        assert given.keys() & {"epsilon", "reports", "epochs", "lifetime"}, "only what was given"
        return
    assert found.event(items).pure <= local * (1 + 1e-9)
    if (
        "epsilon" not in given
    ):  # as the ledger of a device counts, which has the budget as its limit
        asked = Terms.of(bytes(16), found, Participation(), items)
        assert asked.cost * asked.epochs <= Fraction(local)
    for name, value in given.items():
        assert getattr(found, name) == value
    assert found.build(items).n_directions


def test_one_setting_of_the_mechanism_alone_is_planned_around() -> None:
    free = planned(75_040, 9_781, history=50, epsilon=6.0)
    assert planned(75_040, 9_781, history=50, epsilon=6.0, block=free.options["block"]) == free
    assert planned(75_040, 9_781, history=50, epsilon=6.0, loud=free.options["loud"]) == free
    wider = planned(75_040, 9_781, history=50, epsilon=6.0, block=16)
    assert wider.options["loud"] > free.options["loud"]


@pytest.mark.parametrize(
    "given",
    [{"lifetime": 8}, {"lifetime": 5}, {"epochs": 30}, {"block": 16}, {"lifetime": 2, "epochs": 9}],
)
def test_a_central_budget_is_kept_with_what_is_given(given: dict[str, Any]) -> None:
    people, items = 15_000, 15_000
    found = planned(people, items, budget=Budget(central=0.5), **given)
    crowd = found.crowd(people)
    assert 0.25 < central_epsilon(found.event(items), crowd, 1e-6) <= 0.5
    assert {**found.as_dict(), **given} == found.as_dict()


def test_a_lifetime_beyond_the_epochs_is_paid_for() -> None:
    """Epochs that come to nothing are held again, and devices agree to all of them."""
    found = planned(20_000, 2_000, budget=Budget(local=10), lifetime=60, epochs=20)
    assert found.event(2_000).pure <= 10
    assert Terms.of(bytes(16), found, Participation(), 2_000).promise().local <= 10


def test_the_largest_catalogue_can_be_planned() -> None:
    found = planned(1_000_000, MOST_ITEMS, budget=Budget(local=50_000))
    assert found.factors == MOST_ENTRIES // MOST_ITEMS
    assert found.reports <= MOST_REPORTS


def test_presets() -> None:
    both = Budget(local=10, central=1)
    assert planned(75_040, 9_781, preset="strong") == planned(75_040, 9_781, budget=both)
    more = planned(75_040, 9_781, preset="strong", budget=Budget(local=50))
    assert more == planned(75_040, 9_781, budget=Budget(local=50, central=1))
    assert planned(75_040, 9_781, preset="paper") == Settings.preset("paper")
    assert planned(75_040, 9_781, preset="coordinate", epsilon=1.0).factors == 5
    crowd = planned(75_040, 9_781, preset="crowd")
    assert central_epsilon(crowd.event(9_781), 75_040, 1e-6) <= 1
    with pytest.raises(SettingsError, match=r"'loud'.* paper, .*strong, crowd"):
        planned(10, 10, preset="loud")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: Budget(),
        *(lambda local=local: Budget(local=local) for local in (-1.0, 0.0, 1e-9, 1e9, inf, nan)),
        lambda: Budget(local=5.0, central=nan),
        lambda: planned(0, 10),
        lambda: planned(10, 10, history=0.5),
        lambda: planned(1_000, 100, budget=Budget(local=50), epsilon=10.0, reports=100, epochs=1),
        lambda: planned(50, 100, budget=Budget(central=1e-6)),
        lambda: planned(50, 100, budget=Budget(central=1.0), epsilon=9.0),
        lambda: planned(1, 100, budget=Budget(central=1.0)),
    ],
)
def test_what_cannot_be_planned_is_refused(attempt: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        attempt()


@pytest.mark.parametrize(("people", "items", "local"), [(2_000, 300, 10), (1_000, 500, 50)])
def test_where_few_report_a_training_ends(people: int, items: int, local: float) -> None:
    """Without an end, eight weeks of new people led from 0.21 to 0.08; popularity has 0.25."""
    asked: dict[str, Any] = {"history": 8, "budget": Budget(local=local)}
    with pytest.warns(UserWarning, match="begin another one"):
        found = planned_without_end(people, items, **asked)
    assert found == planned(people, items, **asked)
    assert planned_without_end(20_000, items, history=8, budget=Budget(local=50)).half_life
