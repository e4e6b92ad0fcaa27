"""The planner: a budget is used up and never exceeded, and fixed settings stay."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce.core import MECHANISMS
from sottovoce.core.bounds import MAX_ITEMS, MAX_MODEL_ENTRIES, MAX_REPORTS
from sottovoce.errors import SettingsError
from sottovoce.privacy import COIN_RHO, Reporting, central_epsilon
from sottovoce.protocol import Terms
from sottovoce.training import Participation, Settings
from sottovoce.training.budget import DEFAULT_BUDGET, Budget, find_max_reports
from sottovoce.training.planning import MAX_USEFUL_REPORTS, plan_open_ended, plan_training
from tests.sampling import choose

# Plans of names have tests of their own (`test_naming`).
TASTE_MECHANISMS = sorted(name for name, kind in MECHANISMS.items() if not kind.asks_for_names)


@pytest.mark.parametrize(("epsilon", "fits"), [(1.0, True), (2.5, True), (9.0, False)])
def test_find_max_reports_uses_up_the_central_target(epsilon: float, fits: bool) -> None:
    reports = find_max_reports(epsilon, COIN_RHO, 1.0, 20_000, 1e-6)
    assert (reports > 0) == fits  # one report of epsilon 9 already costs too much
    if reports:
        assert 0.9 < central_epsilon(Reporting(epsilon, reports, 1), 20_000, 1e-6) <= 1.0
        more = Reporting(epsilon, reports + max(2, reports // 40), 1)
        assert central_epsilon(more, 20_000, 1e-6) > 1.0


@pytest.mark.parametrize(
    ("people", "items", "fixed", "planned_as"),
    [
        (75_040, 9_781, {"history": 200}, (17, 2.12, 0.011)),
        (50_000, 1_000, {"history": 140}, (28, 3.5, 0.049)),
        (50_000, 1_000, {"history": 20}, (28, 3.5, 2.168)),
        (50_000, 1_000, {"history": 20, "epsilon": 6.0}, (30, 3.75, 2.372)),
        (1_000, 1_000, {"history": 20, "epsilon": 6.0, "reports": 1}, (7, 1.0, 0.358)),
        (3_894, 2_338, {"history": 160}, (12, 1.5, 0.012)),
        (75_040, 9_781, {"epsilon": 5.0, "reports": 2, "epochs": 1}, (1, 1.0, 0.0)),
        (100, 500, {"reports": 1, "epochs": 1}, (1, 1.0, 0.07)),
        (75_040, 9_781, {"factors": 32, "history": 200}, (32, 4.0, 0.026)),
        (75_040, 9_781, {"factors": 3, "alpha": 0.25, "ridge": 0.5}, (3, 0.25, 0.5)),
        (75_040, 9_781, {"ridge": 0.0, "history": 200}, (17, 2.12, 0.0)),
    ],
)
def test_factors_grow_with_signal_and_ridge_with_short_histories(
    people: int, items: int, fixed: dict[str, Any], planned_as: tuple[int, float, float]
) -> None:
    cost = {"epsilon": 2.5, "reports": 100, "epochs": 20}
    plan = plan_training(people, items, **{**cost, **fixed})
    assert (plan.factors, plan.alpha, plan.ridge) == planned_as


@pytest.mark.parametrize(
    ("budget", "wanted"),
    [(10, (10.0, 1, 20, 1)), (50, (10.0, 1, 20, 5)), (500, (10.0, 2, 25, 25)), (5_000, None)],
)
def test_local_budget_is_spent_on_few_loud_reports(
    budget: float, wanted: tuple[float, int, int, int] | None
) -> None:
    plan = plan_training(75_040, 9_781, budget=Budget(local=budget))
    if wanted is not None:
        assert (plan.epsilon, plan.reports, plan.epochs, plan.turns) == wanted
    assert plan.event(9_781).pure == pytest.approx(budget)
    assert 9 < plan.epsilon < 11


@pytest.mark.parametrize(
    ("people", "items", "history", "reports"), [(200, 375, 36, 3), (915, 416, 4, 2)]
)
def test_weak_signal_is_planned_as_names(
    people: int, items: int, history: float, reports: int
) -> None:
    # With a fixed setting, the plan learns factors all the same.
    plan = plan_training(people, items, history=history, budget=Budget(local=20))
    assert (plan.mechanism, plan.reports * plan.turns) == ("named", reports)
    fixed = plan_training(people, items, history=history, budget=Budget(local=20), factors=3)
    assert (fixed.factors, fixed.epochs > 1) == (3, True)


def test_excessive_local_budget_is_not_spent_and_warns() -> None:
    with pytest.warns(UserWarning, match="100000"):
        plan = plan_training(800, 300, history=26, budget=Budget(local=100_000))
    assert plan.reports * plan.turns == MAX_USEFUL_REPORTS
    assert plan.event(300).pure < 20_000


def test_larger_budget_never_reduces_ridge() -> None:
    """Regression: ridge fell to 0, which halved the quality of a model of 800 people."""
    budgets = (50, 200, 500, 1_000, 5_000)
    plans = [plan_training(800, 300, history=26, budget=Budget(local=local)) for local in budgets]
    assert [plan.ridge for plan in plans] == sorted(plan.ridge for plan in plans)
    assert plans[-1].ridge > 0.2


def test_few_people_do_not_take_turns() -> None:
    # Each epoch would have too few participants.
    plan = plan_training(3_894, 2_338, budget=Budget(local=10), mechanism="loudest")
    assert (plan.epochs, plan.turns, plan.reports) == (1, 1, 1)


@pytest.mark.parametrize("mechanism", TASTE_MECHANISMS)
@pytest.mark.parametrize("target", [0.3, 1.0, 2.0])
def test_central_budget_is_used_up_and_not_exceeded(mechanism: str, target: float) -> None:
    people, items = 20_000, 2_000
    plan = plan_training(people, items, mechanism=mechanism, budget=Budget(central=target))
    spent = central_epsilon(plan.event(items), people, 1e-6)
    assert 0.85 * target < spent <= target
    assert plan.turns == plan.epochs


@settings(max_examples=choose(by_day=3, at_night=50), deadline=None)
@given(
    people=st.integers(1, 10**7),
    items=st.integers(20, 20_000),
    local=st.floats(0.5, 500),
    central=st.floats(0.1, 10),
    mechanism=st.sampled_from(TASTE_MECHANISMS),
    fixed=st.fixed_dictionaries(
        {}, optional={"epochs": st.integers(1, 30), "factors": st.integers(1, 20)}
    ),
)
@example(75_040, 9_781, 10.0, 1.0, "loudest", {})
@example(200, 500, 10.0, 1.0, "loudest", {})
@example(1, 20, 10.0, 1.0, "loudest", {})
def test_both_budgets_are_kept_if_all_others_are_fake(
    people: int, items: int, local: float, central: float, mechanism: str, fixed: dict[str, Any]
) -> None:
    budget = Budget(local=local, central=central)
    plan = plan_training(people, items, mechanism=mechanism, budget=budget, **fixed)
    event = plan.event(items)
    assert event.pure <= local * (1 + 1e-9)
    assert central_epsilon(event, 1, 1e-6) <= central
    if plan.dummies > 300:  # not many more than are needed
        fewer = replace(event, dummies=int(0.97 * plan.dummies))
        assert central_epsilon(fewer, 1, 1e-6) > central
    assert {**plan.as_dict(), **fixed} == plan.as_dict()


def test_fixed_dummies_are_planned_around() -> None:
    both = Budget(local=10, central=1)
    plan = plan_training(75_040, 9_781, budget=both)
    assert (plan.epsilon, plan.reports, plan.turns, plan.epochs) == (10.0, 1, 1, 4)
    assert 15_000 < plan.dummies < 25_000
    assert plan_training(75_040, 9_781, budget=both, dummies=plan.dummies) == plan
    with pytest.raises(SettingsError, match="central"):
        plan_training(75_040, 9_781, budget=both, dummies=100)
    with pytest.raises(SettingsError, match="dummies"):
        plan_training(100, 10_000, budget=Budget(local=1e6, central=1e-3))
    # Without a local budget the crowd hides reports, and dummies allow more of them.
    crowd, helped = (
        plan_training(2_000, 2_000, budget=Budget(central=1), dummies=dummies)
        for dummies in (0, 50_000)
    )
    assert central_epsilon(helped.event(2_000), helped.estimate_crowd(2_000), 1e-6) <= 1
    assert helped.event(2_000).pure >= crowd.event(2_000).pure


@pytest.mark.filterwarnings("ignore:of a budget")
@settings(max_examples=choose(by_day=40, at_night=500))
@given(
    people=st.integers(1, 10**8),
    items=st.integers(1, 20_000),
    local=st.floats(0.01, 1e5),
    mechanism=st.sampled_from(TASTE_MECHANISMS),
    fixed=st.fixed_dictionaries(
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
@example(1, 1, 0.01, "coordinate", {"reports": 167, "epochs": 60})  # below the smallest epsilon
def test_plan_keeps_the_local_budget_and_fixed_settings(
    people: int, items: int, local: float, mechanism: str, fixed: dict[str, Any]
) -> None:
    try:
        plan = plan_training(
            people, items, mechanism=mechanism, budget=Budget(local=local), **fixed
        )
    except SettingsError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "local" in refusal
        # Only fixed settings can make a plan exceed its budget.
        assert fixed.keys() & {"epsilon", "reports", "epochs", "lifetime"}
        return
    assert plan.event(items).pure <= local * (1 + 1e-9)
    if "epsilon" not in fixed:
        # The ledger of a device adds charges up exactly, with the budget as its limit.
        terms = Terms.from_settings(bytes(16), plan, Participation(), items)
        assert terms.cost * terms.epochs <= Fraction(local)
    for name, value in fixed.items():
        assert getattr(plan, name) == value
    assert plan.build(items).n_directions


def test_single_fixed_mechanism_option_is_planned_around() -> None:
    plan_with = partial(plan_training, 75_040, 9_781, history=50, epsilon=6.0)
    plan = plan_with()
    assert plan_with(block=plan.options["block"]) == plan
    assert plan_with(loud=plan.options["loud"]) == plan
    wider = plan_with(block=16)
    assert wider.options["loud"] > plan.options["loud"]


@pytest.mark.parametrize(
    "fixed",
    [{"lifetime": 8}, {"lifetime": 5}, {"epochs": 30}, {"block": 16}, {"lifetime": 2, "epochs": 9}],
)
def test_central_budget_is_kept_with_fixed_settings(fixed: dict[str, Any]) -> None:
    people, items = 15_000, 15_000
    plan = plan_training(people, items, budget=Budget(central=0.5), **fixed)
    crowd = plan.estimate_crowd(people)
    assert 0.25 < central_epsilon(plan.event(items), crowd, 1e-6) <= 0.5
    assert {**plan.as_dict(), **fixed} == plan.as_dict()


def test_lifetime_beyond_the_epochs_is_paid_for() -> None:
    """Discarded epochs are repeated, and devices agree to the cost of all of them."""
    plan = plan_training(20_000, 2_000, budget=Budget(local=10), lifetime=60, epochs=20)
    assert plan.event(2_000).pure <= 10
    assert Terms.from_settings(bytes(16), plan, Participation(), 2_000).promise().local <= 10


def test_largest_catalogue_can_be_planned() -> None:
    plan = plan_training(1_000_000, MAX_ITEMS, budget=Budget(local=50_000))
    assert plan.factors == MAX_MODEL_ENTRIES // MAX_ITEMS
    assert plan.reports <= MAX_REPORTS


def test_presets_plan_like_their_budgets() -> None:
    both = Budget(local=10, central=1)
    assert plan_training(75_040, 9_781, preset="strong") == plan_training(
        75_040, 9_781, budget=both
    )
    more = plan_training(75_040, 9_781, preset="strong", budget=Budget(local=50))
    assert more == plan_training(75_040, 9_781, budget=Budget(local=50, central=1))
    assert plan_training(75_040, 9_781, preset="paper") == Settings.preset("paper")
    crowd = plan_training(75_040, 9_781, preset="crowd")
    assert central_epsilon(crowd.event(9_781), 75_040, 1e-6) <= 1
    with pytest.raises(SettingsError, match=r"'loud'.* paper, .*strong, crowd"):
        plan_training(10, 10, preset="loud")


@pytest.mark.parametrize(
    "fixed",
    [
        *({}, {"preset": "loudest"}, {"preset": "coordinate"}, {"preset": "named"}),
        *({"epochs": 3, "reports": 50}, {"epsilon": 5.0}, {"epsilon": 5.0, "reports": 1}),
        {"factors": 4, "alpha": 3.0},
    ],
)
@pytest.mark.parametrize("plan", [plan_training, plan_open_ended])
def test_plan_without_budget_costs_what_the_default_budget_allows(
    plan: Callable[..., Settings], fixed: dict[str, Any]
) -> None:
    planned = plan(20_000, 500, **fixed)
    assert planned == plan(20_000, 500, budget=DEFAULT_BUDGET, **fixed)
    assert planned.event(500).pure <= 10.0


@pytest.mark.parametrize(
    ("fixed", "cost"),
    [
        ({"preset": "paper"}, 5_000.0),
        ({"epsilon": 2.5, "reports": 100, "epochs": 20}, 5_000.0),
        ({"epsilon": 4.0, "reports": 3, "lifetime": 2}, 24.0),
    ],
)
def test_named_cost_needs_no_budget(fixed: dict[str, Any], cost: float) -> None:
    assert plan_training(20_000, 500, **fixed).event(500).pure == cost


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: Budget(),
        *(lambda local=local: Budget(local=local) for local in (-1.0, 0.0, 1e-9, 1e9, inf, nan)),
        lambda: Budget(local=5.0, central=nan),
        lambda: plan_training(0, 10),
        lambda: plan_training(10, 10, history=0.5),
        lambda: plan_training(
            1_000, 100, budget=Budget(local=50), epsilon=10.0, reports=100, epochs=1
        ),
        lambda: plan_training(50, 100, budget=Budget(central=1e-6)),
        lambda: plan_training(50, 100, budget=Budget(central=1.0), epsilon=9.0),
        lambda: plan_training(1, 100, budget=Budget(central=1.0)),
    ],
)
def test_impossible_plans_are_rejected(attempt: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        attempt()
