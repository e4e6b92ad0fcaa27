from __future__ import annotations

from sottovoce.privacy import Budget


def test_all_three_figures_are_said() -> None:
    budget = Budget(2.5, 100, 20)
    assert (budget.epsilon, budget.epoch, budget.training) == (2.5, 250.0, 5000.0)
    text = budget.statement()
    assert "2.5 for a report, 250 for an epoch, 5000 for the whole training" in text
    assert "is weak" in text
    assert budget.as_dict()["training"] == 5000.0


def test_two_reports_in_a_lifetime_are_not_called_weak() -> None:
    budget = Budget(5, 1, 2)
    assert not budget.weak
    assert "weak" not in budget.statement()
    assert "1 report of four bytes in each of 2 epochs" in budget.statement()
