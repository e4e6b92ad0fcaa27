"""Plans of names: budgets are kept, turns are spread, and epsilon is lowered before dummies."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.privacy import central_epsilon
from sottovoce.training import Budget, Settings, plan_open_ended, plan_training


def plan(people: int = 75_040, items: int = 9_781, **options: object) -> Settings:
    return plan_training(people, items, mechanism="named", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("local", "epsilon", "turns"), [(5, 5.0, 1), (10, 10.0, 1), (50, 12.5, 4), (100, 100 / 9, 9)]
)
def test_a_local_budget_buys_reports_of_the_best_epsilon(
    local: float, epsilon: float, turns: int
) -> None:
    chosen = plan(budget=Budget(local))
    assert (chosen.epsilon, chosen.turns, chosen.reports) == (epsilon, turns, 1)
    assert chosen.epochs == 20
    assert chosen.event(9_781).pure <= local


@pytest.mark.parametrize(
    ("epochs", "turns", "reports"), [(1, 1, 5), (2, 2, 2), (3, 2, 2), (4, 4, 1), (20, 5, 1)]
)
def test_few_reports_are_lost_where_turns_are_few(epochs: int, turns: int, reports: int) -> None:
    chosen = plan(items=500, budget=Budget(40), epochs=epochs)
    assert (chosen.turns, chosen.reports) == (turns, reports)


@pytest.mark.parametrize("central", [3.0, 1.0])
def test_a_central_budget_is_met_by_dummies_alone_and_by_a_lower_epsilon(central: float) -> None:
    chosen = plan(budget=Budget(10, central))
    event = chosen.event(9_781)
    assert chosen.epsilon < 10
    assert central_epsilon(event, 1, 1e-6) <= central
    loud = plan(budget=Budget(10, central), epsilon=10.0)
    assert chosen.dummies < loud.dummies / 2


def test_fixed_settings_stay() -> None:
    chosen = plan(budget=Budget(50), epsilon=10.0, epochs=40)
    assert (chosen.epsilon, chosen.turns, chosen.epochs) == (10.0, 5, 40)
    chosen = plan(budget=Budget(50), lifetime=2, names=20_000)
    assert (chosen.epsilon, chosen.turns, chosen.options) == (25.0, 2, {"names": 20_000})


@settings(max_examples=60, deadline=None)
@given(
    people=st.integers(1, 10**8),
    items=st.integers(1, 20_000),
    local=st.floats(0.01, 1e5),
    fixed=st.fixed_dictionaries(
        {},
        optional={
            "epsilon": st.floats(0.01, 30),
            "reports": st.integers(1, 300),
            "epochs": st.integers(1, 60),
            "lifetime": st.integers(0, 60),
            "alpha": st.floats(0, 10),
        },
    ),
)
def test_plan_keeps_the_local_budget_and_fixed_settings(
    people: int, items: int, local: float, fixed: dict[str, Any]
) -> None:
    try:
        chosen = plan(people, items, budget=Budget(local), **fixed)
    except SettingsError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        # Only fixed settings can make a plan exceed its budget.
        assert "local" in refusal
        assert fixed.keys() & {"epsilon", "reports", "epochs", "lifetime"}
        return
    assert chosen.event(items).pure <= local * (1 + 1e-9)
    for name, value in fixed.items():
        assert getattr(chosen, name) == value or (name, value) == ("lifetime", 0)


def test_names_need_a_local_budget() -> None:
    with pytest.raises(SettingsError):
        plan(budget=Budget(central=1.0))


@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        ({"budget": Budget(10)}, "named"),
        ({"budget": Budget(50)}, "named"),
        ({"budget": Budget(10, 1)}, "named"),
        ({"preset": "strong"}, "named"),
        ({"budget": Budget(5_000)}, "named"),
        ({"budget": Budget(50), "epochs": 365}, "named"),
        ({"budget": Budget(50), "lifetime": 2, "reports": 2}, "named"),
        ({"budget": Budget(central=1)}, "loudest"),
        ({}, "named"),
        ({"budget": Budget(50), "mechanism": "loudest"}, "loudest"),
        ({"budget": Budget(50), "factors": 8}, "loudest"),
    ],
)
def test_a_service_without_end_learns_names_with_a_local_budget(
    options: dict[str, object], mechanism: str
) -> None:
    chosen = plan_open_ended(75_040, 9_781, **options)
    assert chosen.mechanism == mechanism
    assert chosen.half_life > 0


@pytest.mark.parametrize(("people", "half_life"), [(20_000, 0.5), (4_000, 1.0), (200, 2.0)])
def test_fewer_reports_are_remembered_for_longer(people: int, half_life: float) -> None:
    assert plan_open_ended(people, 1_000, budget=Budget(10)).half_life == half_life
