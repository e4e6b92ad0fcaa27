"""Privacy budgets of a training, and the reports or dummies that a central budget needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, nextafter
from typing import Any

from sottovoce.core.coin import MIN_EPSILON
from sottovoce.errors import SettingsError
from sottovoce.privacy import Reporting, central_epsilon, gaussian_mu, max_gaussian_mu
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.privacy.gaussian import gaussian_epsilon
from sottovoce.privacy.statement import format_epsilon
from sottovoce.training.settings import PAPER_PRESET, Settings

# Largest budgets. Larger ones protect nobody, and plans for them would have millions of reports.
MAX_LOCAL_BUDGET = 1e6
MAX_CENTRAL_BUDGET = 100.0


@dataclass(frozen=True)
class Budget:
    """Limits on the privacy cost of one person's part in a training: local, central or both.

    Args:
        local: Largest sum of the epsilons of one person's reports, which is the cost if nobody is
            trusted. None means no limit.
        central: Largest epsilon after an honest shuffle of everybody's reports, at `delta`. None
            means no limit.
        delta: Amount by which probabilities may differ beyond the factor e^epsilon.
    """

    local: float | None = None
    """Largest sum of the epsilons of one person's reports, or None for no limit."""
    central: float | None = None
    """Largest epsilon after an honest shuffle of everybody's reports, or None for no limit."""
    delta: float = DEFAULT_DELTA
    """Amount by which probabilities may differ beyond the factor e^epsilon."""

    def __post_init__(self) -> None:
        if self.local is None and self.central is None:
            raise SettingsError("a budget must be named: local, central or both")
        limits = (
            ("local", self.local, MAX_LOCAL_BUDGET),
            ("central", self.central, MAX_CENTRAL_BUDGET),
        )
        for view, value, max_value in limits:
            if value is not None and not MIN_EPSILON <= value <= max_value:
                raise SettingsError(
                    f"a {view} budget must be from {MIN_EPSILON:g} to {max_value:g}, got {value!r}"
                )

    @classmethod
    def from_options(cls, local: float | None, central: float | None) -> Budget | None:
        """Return a budget, or None if both options are None.

        Args:
            local: The local budget, as in the class.
            central: The central budget, as in the class.
        """
        return None if local is None and central is None else cls(local, central)

    def fill_from(self, other: Budget) -> Budget:
        """Return a copy in which a missing limit is taken from another budget."""
        local = other.local if self.local is None else self.local
        central = other.central if self.central is None else self.central
        return Budget(local, central, self.delta)

    def describe_excess(self, settings: Settings, people: int, items: int) -> str | None:
        """Return the cost of these settings in words if it exceeds the budget, otherwise None.

        Args:
            settings: The settings of the training.
            people: Number of people who take part in the training.
            items: Number of items in the catalogue.
        """
        event = settings.event(items)
        views = [("local", event.pure, self.local)]
        if self.central is not None:
            views.append(("central", self._central_epsilon(settings, people, items), self.central))
        for view, cost, limit in views:
            if limit is not None and cost > limit * (1 + 1e-9):
                return f"{format_epsilon(cost)}, more than the {view} budget of {limit:g}"
        return None

    def estimate_excess_ratio(self, settings: Settings, people: int, items: int) -> float:
        """Estimate the number of reports as a multiple of what the central budget allows.

        1 means that the reports are within the budget.

        Args:
            settings: The settings of the training.
            people: Number of people who take part in the training.
            items: Number of items in the catalogue.
        """
        if self.central is None:
            return 1.0
        # The exact cost is slow to compute, so it is used only if the Gaussian estimate is within
        # the budget.
        estimate = self._estimate_cost(settings.event(items), settings.estimate_crowd(people))
        exceeds = estimate > self.central
        cost = estimate if exceeds else self._central_epsilon(settings, people, items)
        # The cost is roughly proportional to the square root of the number of reports.
        return max(cost / self.central, 1.0) ** 2

    def _central_epsilon(self, settings: Settings, people: int, items: int) -> float:
        crowd = max(settings.estimate_crowd(people), 1)
        return central_epsilon(settings.event(items), crowd, self.delta)

    def _estimate_cost(self, event: Reporting, clients: int) -> float:
        gaussian = gaussian_epsilon(gaussian_mu(event, max(clients, 1)), self.delta)
        return min(gaussian, event.pure)


# Presets that stand for a budget. `strong` limits both views. `crowd` limits the central view only,
# which assumes that proxy and server do not work together.
PRESET_BUDGETS = {"strong": Budget(local=10.0, central=1.0), "crowd": Budget(central=1.0)}


# Budget of a plan for which none is given: one report of epsilon 10 in a lifetime. It is the
# smallest budget with which a few thousand people teach about what is popular.
DEFAULT_BUDGET = Budget(local=10.0)
# The note of a plan that has the default budget.
DEFAULT_BUDGET_NOTE = f"no budget given: planned for epsilon {DEFAULT_BUDGET.local:g} in a lifetime"


def choose_budget(preset: str, budget: Budget | None, fixed: Mapping[str, Any]) -> Budget | None:
    """Return the budget of a plan.

    Args:
        preset: Name of a preset, which need not have a budget.
        budget: The named budget. A missing limit is taken from the budget of the preset.
        fixed: The named settings.

    Returns:
        The named budget, that of the preset, or the default. None if the caller named the whole
        cost: the preset `paper`, or epsilon, reports and the number of epochs.
    """
    preset_budget = PRESET_BUDGETS.get(preset)
    if budget is not None:
        return budget.fill_from(preset_budget) if preset_budget else budget
    return DEFAULT_BUDGET if needs_default_budget(preset, None, fixed) else preset_budget


def needs_default_budget(preset: str, budget: Budget | None, fixed: Mapping[str, Any]) -> bool:
    """Return whether a plan has the default budget: see `choose_budget`."""
    names = {name for name, value in fixed.items() if value is not None}
    names_cost = {"epsilon", "reports"} <= names and not names.isdisjoint({"epochs", "lifetime"})
    has_cost = names_cost or preset == PAPER_PRESET or preset in PRESET_BUDGETS
    return budget is None and not has_cost


def divide_budget(budget: float, reports: int) -> float:
    """Return the largest epsilon of a report with which the sum of all reports fits the budget."""
    epsilon = budget / reports
    # A ledger adds exact fractions, and the quotient of floats may be above the exact quotient.
    while Fraction(epsilon) * reports > Fraction(budget):
        epsilon = nextafter(epsilon, 0.0)
    return epsilon


def find_min_dummies(event: Reporting, target: float, delta: float) -> int:
    """Return the smallest number of dummies, within 1%, with which a central target is met.

    The dummies meet it by themselves, even if all other people are fake.

    Args:
        event: The privacy event of one person's reports.
        target: Largest central epsilon.
        delta: The delta of this epsilon.
    """

    def cost(dummies: int) -> float:
        return central_epsilon(replace(event, dummies=dummies), 1, delta)

    # The result is above `low` and at most `high`.
    low, high = -1, estimate_min_dummies(event, target, delta)
    while cost(high) > target:
        low, high = high, max(2 * high, event.reports)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) > target else (low, middle)
    return high


def estimate_min_dummies(event: Reporting, target: float, delta: float) -> int:
    """Return nearly the same number as `find_min_dummies`, but quickly, from the Gaussian limit."""
    if event.pure <= target:
        return 0
    mu_of_one = gaussian_mu(replace(event, epochs=event.total, reports=1, dummies=1), 0)
    return event.reports * ceil((mu_of_one / max_gaussian_mu(target, delta)) ** 2)


def find_max_reports(epsilon: float, rho: float, target: float, people: int, delta: float) -> int:
    """Return the largest number of one person's reports, within 1%, that meets a central target.

    Args:
        epsilon: Epsilon of one report.
        rho: Loud fraction of the mechanism.
        target: Largest central epsilon.
        people: Number of people whose reports are shuffled.
        delta: The delta of the target.
    """

    def cost(reports: int) -> float:
        return central_epsilon(Reporting(epsilon, reports, 1, rho), people, delta)

    if cost(1) > target:
        return 0
    mu_of_one = gaussian_mu(Reporting(epsilon, 1, 1, rho), people)
    guess = max(1, int((max_gaussian_mu(target, delta) / mu_of_one) ** 2))
    # The result is at least `low` and below `high`.
    low, high = 1, max(2, guess)
    while cost(high) <= target:
        low, high = high, 2 * high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= target else (low, middle)
    return low
