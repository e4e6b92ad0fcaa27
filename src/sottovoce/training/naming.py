"""The plan of a training of names: number and epsilon of reports, dummies, and the half-life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, log
from typing import Any

import numpy as np

from sottovoce.core import Named, Shape
from sottovoce.core.bounds import MAX_DUMMIES, MAX_REPORTS
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON
from sottovoce.errors import SettingsError
from sottovoce.privacy import Reporting
from sottovoce.training.budget import (
    Budget,
    divide_budget,
    estimate_min_dummies,
    find_min_dummies,
)
from sottovoce.training.settings import Settings

# The turns of a person are spread over this many epochs, or over fewer if people stay for a shorter
# time. Otherwise most reports of an epoch would come from people who have just joined and are not
# representative.
DEFAULT_NAMING_EPOCHS = 20
DAYS_PER_WEEK = 7
# The half-life of names, in epochs, by the smallest number of reports in an epoch. With fewer
# reports in an epoch, earlier epochs must count more. Chosen on Netflix data replayed by date, with
# seeds 1003 and 1004.
HALF_LIVES = ((300.0, 0.5), (100.0, 1.0), (0.0, 2.0))
# Reports that an epoch should have, and the fewest that are worth a training. In a prototype on
# Netflix data replayed by date, HR@10 of the whole catalogue was 0.107 with 1,000 reports and 0.055
# with 100.
WANTED_REPORTS = 1_000
MIN_USEFUL_REPORTS = 100
# The longest epoch that a plan proposes. What people touched longer ago says too little about now.
MAX_EPOCH_DAYS = 28
# Approximate share that a currently popular item has among all names. A plan for a central budget
# compares the noise of dummies with the signal of such an item.
CHART_SHARE = 0.003
# A plan for a central budget tries values of epsilon in these steps. None of them is below
# log(K) - MAX_EPSILON_BELOW_LOG, where almost all reports would be uniform.
EPSILON_STEP = 0.25
# A plan whose signal is at least this fraction of the largest gives lists of the same quality.
MIN_SIGNAL_RATIO = 0.7
MAX_EPSILON_BELOW_LOG = 3.0


def plan_names(
    settings: Settings, budget: Budget, people: int, n_items: int, fixed: Mapping[str, Any]
) -> Settings:
    """Plan a training of names.

    Args:
        settings: The settings to start from, with the fixed values.
        budget: The budget of each person, which must be local.
        people: Number of people who take part in the training.
        n_items: Number of items in the catalogue.
        fixed: Settings that stay as they are.

    Raises:
        SettingsError: There is no local budget, or no number of dummies meets the central one.
    """
    if budget.local is None:
        raise SettingsError("a training of names needs a local budget: name one (--budget)")
    plans = list(_list_candidates(settings, budget, n_items, fixed))
    signals = [_compute_signal(plan, people, n_items) for plan in plans]
    if not plans:
        raise SettingsError(
            f"a central budget of {budget.central:g} needs more than {MAX_DUMMIES:,} dummies in "
            "every epoch: name a larger budget"
        )
    # Take the plan with the fewest dummies among those whose signal is nearly the largest. If no
    # plan has dummies, take the one with the largest signal.
    is_good = [signal >= MIN_SIGNAL_RATIO * max(signals) for signal in signals]
    good = [plan for plan, chosen in zip(plans, is_good, strict=True) if chosen]
    best = (
        min(good, key=lambda plan: plan.dummies)
        if budget.central
        else plans[int(np.argmax(signals))]
    )
    if budget.central is not None and "dummies" not in fixed:
        # Only the best candidate gets the exact number, which takes longer than the estimate.
        best = best.copy_with(
            dummies=find_min_dummies(best.event(n_items), budget.central, budget.delta)
        )
    return best


def choose_half_life(reports: float) -> float:
    """Return the half-life of names in epochs.

    Args:
        reports: Expected number of reports in an epoch.

    >>> choose_half_life(3_000), choose_half_life(200), choose_half_life(5)
    (0.5, 1.0, 2.0)
    """
    return next(half_life for min_reports, half_life in HALF_LIVES if reports >= min_reports)


def choose_epoch_days(reports_per_day: float) -> int:
    """Return the days in which `WANTED_REPORTS` reports come, at most `MAX_EPOCH_DAYS`.

    Args:
        reports_per_day: Expected number of reports in a day.

    >>> choose_epoch_days(5_000), choose_epoch_days(150), choose_epoch_days(0)
    (1, 7, 28)
    """
    if reports_per_day * MAX_EPOCH_DAYS <= WANTED_REPORTS:
        return MAX_EPOCH_DAYS
    return ceil(WANTED_REPORTS / reports_per_day)


def choose_naming_epochs(people: int, newcomers: int, epoch_days: int) -> int:
    """Return over how many epochs to spread the turns of a person: as many as people stay.

    Every visitor of a week is new or has come before. So the number of weeks between the first
    visit of a person and the last one is `people / newcomers - 1` in the mean.

    Args:
        people: Number of people who visit in a week.
        newcomers: Number of them who visit for the first time.
        epoch_days: Length of an epoch in days.

    >>> choose_naming_epochs(20_000, 2_000, 4), choose_naming_epochs(20_000, 19_000, 1)
    (15, 1)
    >>> choose_naming_epochs(20_000, 0, 28)
    20
    """
    # A device of somebody who has left would name an item of long ago, and a page would not report.
    # In replays by date, spreading over more epochs than people stay makes lists of news less than
    # half as good.
    if not newcomers:
        return DEFAULT_NAMING_EPOCHS
    stay_days = (people / newcomers - 1) * DAYS_PER_WEEK
    return int(min(max(stay_days / epoch_days, 1), DEFAULT_NAMING_EPOCHS))


def _list_candidates(
    settings: Settings, budget: Budget, n_items: int, fixed: Mapping[str, Any]
) -> Iterator[Settings]:
    """Yield plans within the budget."""
    assert budget.local is not None
    names = Named(Shape(n_items, 1, 0.0), MIN_EPSILON, settings.options["names"]).names
    plan = settings.copy_with(
        **_spread_reports(_choose_report_count(budget.local, names, fixed), fixed)
    )
    largest = min(divide_budget(budget.local, plan.reports * plan.max_turns), MAX_EPSILON)
    epsilons = [fixed.get("epsilon") or max(largest, MIN_EPSILON)]
    if budget.central is None or "dummies" in fixed:
        yield plan.copy_with(epsilon=epsilons[0])
        return
    # A smaller epsilon needs fewer dummies, so plans with smaller values are candidates, too.
    if "epsilon" not in fixed:
        min_epsilon = max(log(names) - MAX_EPSILON_BELOW_LOG, EPSILON_STEP)
        epsilons += np.arange(min_epsilon, largest, EPSILON_STEP).tolist()
    for epsilon in epsilons:
        event = Reporting(epsilon, plan.reports, plan.max_turns, 1 / names)
        dummies = estimate_min_dummies(event, budget.central, budget.delta)
        if dummies <= MAX_DUMMIES:
            yield plan.copy_with(epsilon=epsilon, dummies=dummies)


def _choose_report_count(local: float, names: int, fixed: Mapping[str, Any]) -> int:
    """Return the number of reports of one person that is expected to give the most true names."""
    if fixed.get("lifetime"):
        return int(fixed["lifetime"] * fixed.get("reports", 1))
    if "epsilon" in fixed:
        # A quotient such as 50 / 12.5 must not be rounded down by the last digit of a float.
        return max(int(local / fixed["epsilon"] * (1 + 1e-12)), 1)
    # With more reports, each of a smaller epsilon, nearly all would be uniform.
    min_epsilon = max(log(names) - MAX_EPSILON_BELOW_LOG, 1.0)
    counts = np.arange(1, max(int(local / min_epsilon), 1) + 1)
    odds = np.expm1(np.minimum(local / counts, MAX_EPSILON))
    return int(counts[np.argmax(counts * odds / (odds + names))])


def _spread_reports(reports: int, fixed: Mapping[str, Any]) -> dict[str, int]:
    """Return the settings with which a person makes this number of reports, few in each epoch."""
    epochs = fixed.get("epochs") or DEFAULT_NAMING_EPOCHS
    # Round the reports of a turn up or down, whichever loses fewer reports of the lifetime.
    up, down = ceil(reports / epochs), reports // epochs
    k = down if down * epochs >= reports // up * up else up
    k = fixed.get("reports") or min(k, MAX_REPORTS)
    turns = fixed.get("lifetime") or max(reports // k, 1)
    return {"reports": k, "lifetime": turns, "epochs": fixed.get("epochs") or max(epochs, turns)}


def _compute_signal(plan: Settings, people: int, n_items: int) -> float:
    """Return the squared signal-to-noise ratio, in one epoch, of an item that is popular now."""
    mechanism = plan.build(n_items)
    reports = people * plan.share * plan.reports
    names = reports * mechanism.gain * CHART_SHARE
    uniform = (reports * (1 - mechanism.gain) + plan.dummies) / (2 * mechanism.n_directions)
    return names**2 / (names + uniform)
