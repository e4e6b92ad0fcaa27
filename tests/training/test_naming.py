"""Plans of names: budgets are kept, turns are spread, and epsilon is lowered before dummies."""

import pytest

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
    settings = plan(budget=Budget(local))
    assert (settings.epsilon, settings.turns, settings.reports) == (epsilon, turns, 1)
    assert settings.epochs == 20
    assert settings.event(9_781).pure <= local


@pytest.mark.parametrize("central", [3.0, 1.0])
def test_a_central_budget_is_met_by_dummies_alone_and_by_a_lower_epsilon(central: float) -> None:
    settings = plan(budget=Budget(10, central))
    event = settings.event(9_781)
    assert settings.epsilon < 10
    assert central_epsilon(event, 1, 1e-6) <= central
    loud = plan(budget=Budget(10, central), epsilon=10.0)
    assert settings.dummies < loud.dummies / 2


def test_fixed_settings_stay() -> None:
    settings = plan(budget=Budget(50), epsilon=10.0, epochs=40)
    assert (settings.epsilon, settings.turns, settings.epochs) == (10.0, 5, 40)
    settings = plan(budget=Budget(50), lifetime=2, names=20_000)
    assert (settings.epsilon, settings.turns, settings.options) == (25.0, 2, {"names": 20_000})


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
        ({"budget": Budget(60)}, "loudest"),
        ({"budget": Budget(central=1)}, "loudest"),
        ({}, "loudest"),
        ({"budget": Budget(50), "mechanism": "loudest"}, "loudest"),
        ({"budget": Budget(50), "factors": 8}, "loudest"),
    ],
)
def test_a_service_without_end_learns_names_with_a_small_budget(
    options: dict[str, object], mechanism: str
) -> None:
    settings = plan_open_ended(75_040, 9_781, **options)  # type: ignore[arg-type]
    assert settings.mechanism == mechanism
    assert settings.half_life > 0


@pytest.mark.parametrize(("people", "half_life"), [(20_000, 0.5), (4_000, 1.0), (200, 2.0)])
def test_fewer_reports_are_remembered_for_longer(people: int, half_life: float) -> None:
    assert plan_open_ended(people, 1_000, budget=Budget(10)).half_life == half_life
