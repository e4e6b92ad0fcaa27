"""The planner, which chooses eps, k, T, turns, F, alpha and the mechanism's options for a budget.

The planner uses public numbers only. docs/reference/model.md explains its rules and says on which
splits of data they were fitted; no result is reported for those splits. Settings that a caller
gives explicitly do not change.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, inf, sqrt
from typing import Any

from sottovoce.core import Loudest, Named, Shape, get_mechanism
from sottovoce.core.bounds import (
    MAX_DUMMIES,
    MAX_FACTOR_PRODUCTS,
    MAX_MODEL_ENTRIES,
    MAX_REPORTS,
)
from sottovoce.core.coin import MAX_EPSILON, MIN_EPSILON
from sottovoce.core.loudest import estimate_history_length
from sottovoce.errors import NothingToLearnError, SettingsError
from sottovoce.privacy import COIN_RHO
from sottovoce.privacy.events import MAX_COUNT
from sottovoce.privacy.statement import format_epsilon
from sottovoce.training.budget import (
    PRESET_BUDGETS,
    Budget,
    choose_budget,
    divide_budget,
    estimate_min_dummies,
    find_max_reports,
    find_min_dummies,
)
from sottovoce.training.naming import choose_half_life, plan_names
from sottovoce.training.options import DEFAULT_CROWD_EPSILON, OPTION_RULES
from sottovoce.training.settings import DEFAULT_PRESET, Settings, list_basic_presets
from sottovoce.training.start import START_FACTORS

# The rules compare a training's signal with the bounds below. The signal of a training is
#   people * reports of one person * gain ** 2 / items.
# With less signal than this, a model has one factor, because only popularity can be learnt.
MIN_SIGNAL_FOR_FACTORS = 90.0
# With less signal than this, people do not take turns: every epoch needs the reports of all.
MIN_SIGNAL_FOR_TURNS = 300.0
# If a person makes fewer reports than this, a model has one factor, unless the signal is at least
# MIN_SIGNAL_FOR_TURNS.
MIN_REPORTS_FOR_FACTORS = 4

# The number of factors is FACTORS_SCALE * signal ** 0.25, but at most 4 * epochs - 3, at most
# MAX_PLANNED_FACTORS, at most MAX_FACTORS_PER_HISTORY_ITEM * history, and within the bounds of a
# device.
FACTORS_SCALE = 1.6
MAX_PLANNED_FACTORS = 64
MAX_FACTORS_PER_HISTORY_ITEM = 1.5

# Alpha is factors / FACTORS_PER_ALPHA, at least MIN_PLANNED_ALPHA. A larger alpha raises the
# quality of lists that are ranked against a few negatives, and lowers the quality of lists from the
# whole catalogue.
FACTORS_PER_ALPHA = 8
# The same in a plan with a public start, which is better with a smaller alpha. Chosen with seeds
# 1003 and 1004 for budgets of 150, 500 and 2,000.
FACTORS_PER_ALPHA_WITH_START = 16
MIN_PLANNED_ALPHA = 1.0

# The ridge of the user equations, at most MAX_PLANNED_RIDGE, is
#   RIDGE_SCALE * (factors / history) ** 1.3 * min(LONG_HISTORY / history, 1).
# Without a ridge, a few items would fit many factors by chance.
RIDGE_SCALE = 1.4
LONG_HISTORY = 40.0
MAX_PLANNED_RIDGE = 2.5

# Ridge of a training of names that has a public start. It was chosen on the Netflix days, periods
# 10 to 20, with seed 1003: with less, lists follow what is touched now too little.
RIDGE_WITH_SHARES = 3.0

# Number of epochs among which the reports of one person are divided.
PLANNED_EPOCHS = 20

# Smallest epsilon of a report that a plan considers.
MIN_USEFUL_EPSILON = 0.25
# Largest number of reports of one person that a plan considers. More would teach nothing, so the
# rest of a larger local budget is not spent.
MAX_USEFUL_REPORTS = 3_000

# If dummies hide people who take turns, a plan has fewer epochs, so that an epoch has at most
# MAX_DUMMIES_PER_REPORT dummies for each report of people. But it has at least
# MIN_EPOCHS_WITH_DUMMIES epochs.
MAX_DUMMIES_PER_REPORT = 0.5
MIN_EPOCHS_WITH_DUMMIES = 4
# Largest number of loud directions if dummies outnumber people's reports, in multiples of the usual
# number.
MAX_DUMMY_LOUD_SCALE = 2.0

# Mechanisms that can continue from a public start. The length of a start follows from how far their
# reports can move it.
START_MECHANISMS = (Loudest.name, Named.name)

# An operator who gives one of these settings asks for a model of tastes.
TASTE_SETTINGS = ("mechanism", "factors", "alpha", "ridge", *Loudest.options())
# These settings divide the budget of a person, for names as well. But an operator who gives one for
# a training that ends has decided how much people report, so the planner does not turn to names.
DIVIDING_SETTINGS = ("epsilon", "reports", "epochs", "lifetime")


@dataclass(frozen=True)
class PublicNumbers:
    """The public numbers that a plan is made from."""

    people: int
    """Number of people who take part in the training."""
    items: int
    """Number of items in the catalogue."""
    history: float
    """Approximate number of items in a typical history."""
    start_factors: int = 0
    """Number of factors of the public start; 0: there is none."""

    def __post_init__(self) -> None:
        if min(self.people, self.items) < 1:
            raise SettingsError(
                "a plan needs at least one person and one item, "
                f"got {self.people} people and {self.items} items"
            )
        if not 1 <= self.history < inf:
            raise SettingsError(
                f"the length of a typical history must be at least 1, got {self.history}"
            )


def plan_training(
    people: int,
    items: int,
    *,
    history: float | None = None,
    preset: str = DEFAULT_PRESET,
    budget: Budget | None = None,
    start_factors: int = 0,
    **fixed: Any,
) -> Settings:
    """Plan the settings of a training for these numbers of people and items.

    Args:
        people: Number of people who take part in at least one epoch of the training.
        items: Number of items in the catalogue.
        history: Approximate number of items in a typical history; by default 2% of the catalogue,
            within 10 to 200.
        preset: The preset to start from: `loudest`, `coordinate`, `named`, `paper`, `strong` or
            `crowd`.
        budget: The budget of each person. None means the preset's budget, or epsilon 10 in a
            lifetime if it has none. The preset `paper`, and plans with fixed epsilon, reports and
            epochs or lifetime, have no budget, because their cost is named.
        start_factors: Number of factors of the public start; 0 means that there is none.
        fixed: Settings by name, including options of the mechanism. Values that are not None stay
            as they are, and the other settings are planned around them.

    Raises:
        SettingsError: No settings fit the budget, or a value is out of range.

    >>> plan = plan_training(75_040, 9_781, budget=Budget(local=50))
    >>> plan.epsilon, plan.reports, plan.turns, plan.epochs, plan.factors
    (10.0, 1, 5, 20, 15)
    """
    if max(people, items) > MAX_COUNT:
        raise SettingsError("a plan is for at most 10^30 people and items")
    if history is None:
        history = estimate_history_length(max(items, 1))
    public = PublicNumbers(people, items, history, start_factors)
    names = {name for name, value in fixed.items() if value is not None}
    settings = choose_base_settings(preset, fixed)
    # From here on, use the values as `Settings` checked and converted them.
    fixed = {name: value for name, value in settings.as_dict().items() if name in names}
    budget = choose_budget(preset, budget, fixed)
    if budget is None:
        is_planned = get_mechanism(settings.mechanism).is_planned
        plan = _fit_model(settings, public, fixed) if is_planned else settings
        return _fit_start(plan, start_factors, fixed)
    if settings.asks_for_names:
        plan = plan_names(settings, budget, people, items, fixed)
    elif budget.local is None:
        plan = _plan_central(settings, budget, public, fixed)
    elif budget.central is None:
        plan = _plan_local(settings, budget, public, fixed)
    else:
        plan = _plan_both(settings, budget, public, fixed)
    plan = _fit_start(plan, start_factors, fixed)
    excess = budget.describe_excess(plan, people, items)
    if excess:
        raise SettingsError(
            f"epsilon {format_epsilon(plan.epsilon)}, {plan.reports} reports in each of "
            f"{plan.turns} epochs and {plan.dummies:,} dummies spend {excess}: name a smaller "
            "epsilon, fewer reports, more dummies or a larger budget"
        )
    return plan


def _fit_start(settings: Settings, start_factors: int, fixed: Mapping[str, Any]) -> Settings:
    """Return the settings with the columns of a public start, if reports name items."""
    if not start_factors:
        return settings
    if settings.mechanism not in START_MECHANISMS:
        raise SettingsError(
            f"a public start needs reports of {' or '.join(START_MECHANISMS)}, not of "
            f"{settings.mechanism}"
        )
    if not settings.asks_for_names:
        return settings
    # The first column has the shares of names. With the ridge, they weigh more than the start.
    ridge = fixed.get("ridge", RIDGE_WITH_SHARES)
    return settings.copy_with(factors=start_factors + 1, ridge=ridge)


def choose_base_settings(preset: str, fixed: Mapping[str, Any]) -> Settings:
    """Return the settings that a plan starts from: the preset's, with the fixed values."""
    if preset not in list_presets():
        raise SettingsError(f"no preset {preset!r:.80}; there are {', '.join(list_presets())}")
    if preset in PRESET_BUDGETS or preset == DEFAULT_PRESET:
        # If a mechanism is named, start from the usual settings of this mechanism.
        mechanism = fixed.get("mechanism")
        preset = get_mechanism(DEFAULT_PRESET if mechanism is None else mechanism).name
    return Settings.preset(preset, **fixed)


def plan_open_ended(people: int, items: int, **options: Any) -> Settings:
    """Plan a training without an end, with the usual half-life unless one is given.

    With a local budget, reports name items: what people touch now is worth more to a service than
    what they like in general, even with budgets that allow thousands of reports.

    Args:
        people: Number of people, as for `plan_training`.
        items: Number of items, as for `plan_training`.
        options: All other arguments of `plan_training`.
    """
    preset = options.get("preset", DEFAULT_PRESET)
    budget = choose_budget(preset, options.get("budget"), options)
    named = {name for name, value in options.items() if value is not None}
    if is_for_names(budget) and named.isdisjoint(TASTE_SETTINGS):
        options = {**options, "mechanism": Named.name}
    ending = plan_training(people, items, **options)
    if ending.half_life:
        return ending
    if ending.asks_for_names:
        half_life = choose_half_life(people * ending.share * ending.reports)
        return replace(ending, half_life=half_life)
    # The half-life follows from the number of epochs, and the factors follow from the half-life, so
    # plan twice.
    half_life = ending.to_endless().half_life
    return plan_training(people, items, **{**options, "half_life": half_life})


def plan_without_reports(items: int, start_factors: int) -> Settings:
    """Plan a training that asks nobody for reports: lists come from its public start.

    Devices need terms in any case. These allow one report of the smallest epsilon.

    Args:
        items: Number of items in the catalogue.
        start_factors: Number of factors of the start.
    """
    return plan_training(
        1, items, start_factors=start_factors, epsilon=MIN_EPSILON, reports=1, epochs=1
    )


def is_for_names(budget: Budget | None) -> bool:
    """Return whether a training without an end learns names with this budget."""
    # In replays by date, a budget of 10 for names makes better lists than a budget of 2,000 for a
    # model of tastes (lab/docs/report.md, "Reports of names"). Names need a local budget.
    return budget is not None and budget.local is not None


def list_presets() -> list[str]:
    """Return the names of all presets that `plan_training` accepts."""
    return [*list_basic_presets(), *PRESET_BUDGETS]


def _fit_model(
    settings: Settings,
    public: PublicNumbers,
    fixed: Mapping[str, Any],
    *,
    needs_crowd: bool = False,
    loud_scale: float = 1.0,
) -> Settings:
    """Choose factors, alpha, ridge and the mechanism's options for the reports of `settings`.

    Args:
        settings: The plan so far.
        public: The public numbers.
        fixed: Settings that stay as they are.
        needs_crowd: Whether this is a plan for a crowd, in which only other people's reports hide
            those of a person.
        loud_scale: Number of loud directions, in multiples of the usual number.
    """
    gain = _compute_gain(settings.mechanism, settings.epsilon, public.items)
    # The turns of one person in the epochs that the model remembers.
    turns_remembered = settings.turns * settings.memory / settings.epochs
    signal = _compute_signal(public, settings.reports * turns_remembered, gain)
    # Dummies add variance to the sums and no signal, so a plan with dummies has fewer factors.
    signal /= _compute_noise(settings, settings.dummies, public)
    planned = _choose_factors(signal, settings.epochs, public)
    if public.start_factors:
        # Factors beyond the usual ones of a start learn from reports alone.
        more = planned if planned > START_FACTORS else 0
        factors = max(public.start_factors, more)
        alpha = max(factors / FACTORS_PER_ALPHA_WITH_START, MIN_PLANNED_ALPHA)
    else:
        factors = fixed.get("factors") or planned
        alpha = max(factors / FACTORS_PER_ALPHA, MIN_PLANNED_ALPHA)
    ridge = RIDGE_SCALE * (factors / public.history) ** 1.3
    ridge = min(ridge * min(LONG_HISTORY / public.history, 1.0), MAX_PLANNED_RIDGE)
    settings = settings.copy_with(
        factors=factors,
        alpha=fixed.get("alpha", round(alpha, 2)),
        ridge=fixed.get("ridge", round(ridge, 3)),
    )
    rules = OPTION_RULES.get(settings.mechanism)
    if rules is None:
        return settings
    shape = Shape(public.items, settings.factors, settings.alpha)
    arguments = shape, settings.epsilon, public.history, fixed
    if needs_crowd:
        return settings.copy_with(**rules.choose_crowd_options(*arguments))
    return settings.copy_with(**rules.choose_options(*arguments, loud_scale))


def _choose_factors(signal: float, epochs: int, public: PublicNumbers) -> int:
    if signal < MIN_SIGNAL_FOR_FACTORS:
        return 1
    max_by_history = public.history * MAX_FACTORS_PER_HISTORY_ITEM
    # In a first epoch all user vectors have the same direction, so one epoch can learn one factor.
    max_by_epochs = 4 * epochs - 3
    max_on_device = min(
        MAX_MODEL_ENTRIES // public.items, floor(sqrt(MAX_FACTOR_PRODUCTS / public.items))
    )
    by_signal = FACTORS_SCALE * signal**0.25
    factors = min(by_signal, max_by_epochs, max_by_history, public.items, MAX_PLANNED_FACTORS)
    return int(max(min(floor(factors + 0.5), max_on_device), 1))


def _compute_signal(public: PublicNumbers, reports: float, gain: float) -> float:
    """Return the signal of a training, in which each person makes `reports` reports in all."""
    return public.people * reports * gain**2 / public.items


def _compute_noise(settings: Settings, dummies: int, public: PublicNumbers) -> float:
    """Return the factor by which dummies raise the variance of an epoch's sums."""
    return 1 + dummies / (public.people * settings.share * settings.reports)


def _plan_local(
    settings: Settings, budget: Budget, public: PublicNumbers, fixed: Mapping[str, Any]
) -> Settings:
    """Plan for a local budget, with the number of reports that has the most signal."""
    # The signal of m reports within a budget B is proportional to m gain(B / m)^2. It may be
    # largest for a few precise reports or for many vague ones.
    reports = _rank_report_counts(settings, budget, public.items, fixed)[0]
    if reports > MAX_USEFUL_REPORTS and fixed.keys().isdisjoint(
        (*TASTE_SETTINGS, *DIVIDING_SETTINGS)
    ):
        smaller = replace(budget, local=(budget.local or 0) * MAX_USEFUL_REPORTS / reports)
        warnings.warn(
            f"of a budget of {budget.local:g} only about {smaller.local:.0f} is spent: "
            "more reports of the same people teach nothing",
            stacklevel=2,
        )
        reports, budget = MAX_USEFUL_REPORTS, smaller
    if _is_signal_too_weak(reports, settings, budget, public, fixed):
        # Only popularity can be learnt, and counting names learns it best.
        names = choose_base_settings(Named.name, {"seed": settings.seed})
        return plan_names(names, budget, public.people, public.items, {})
    return _plan_reports(reports, settings, budget, public, fixed)


def _is_signal_too_weak(
    reports: int,
    settings: Settings,
    budget: Budget,
    public: PublicNumbers,
    fixed: Mapping[str, Any],
) -> bool:
    """Return whether `reports` reports of each person can teach nothing but popularity."""
    assert budget.local is not None
    # With a start, the mechanism alone says only that tastes are wanted, and not at any price.
    chosen = fixed.keys() - ({"mechanism"} if public.start_factors else set())
    if not chosen.isdisjoint((*TASTE_SETTINGS, *DIVIDING_SETTINGS)):
        return False
    gain = _compute_gain(settings.mechanism, budget.local / reports, public.items)
    if public.start_factors:
        # The start knows popularity already, and its steps shrink with their noise.
        if _compute_signal(public, reports, gain) >= MIN_SIGNAL_FOR_FACTORS:
            return False
        raise NothingToLearnError(
            f"reports of {public.people:,} people with a budget of {budget.local:g} would teach "
            "nothing that the start does not know: name a larger budget, or make lists from the "
            f"start alone (epsilon {MIN_EPSILON:g}, one report and one epoch)"
        )
    is_few = reports < MIN_REPORTS_FOR_FACTORS
    min_signal = MIN_SIGNAL_FOR_TURNS if is_few else MIN_SIGNAL_FOR_FACTORS
    return _compute_signal(public, reports, gain) < min_signal


def _plan_both(
    settings: Settings, budget: Budget, public: PublicNumbers, fixed: Mapping[str, Any]
) -> Settings:
    """Plan for a local and a central budget, with the most signal.

    Dummies alone meet the central budget, even without the reports of other people.
    """
    best, best_signal, min_dummies = None, 0.0, inf
    for reports in _rank_report_counts(settings, budget, public.items, fixed):
        # Plan without dummies first, because the number of dummies depends on epsilon, rho and the
        # number of reports.
        plan = _plan_reports(reports, settings.copy_with(dummies=0), budget, public, fixed)
        dummies = estimate_min_dummies(
            plan.event(public.items), budget.central or inf, budget.delta
        )
        plan = _reduce_epochs(plan, dummies, public, fixed)
        gain = _compute_gain(plan.mechanism, plan.epsilon, public.items)
        signal = _compute_signal(public, plan.reports * plan.turns, gain)
        signal /= _compute_noise(plan, dummies, public)
        # The first of several equal signals wins. Candidates are in the order of their signal
        # without dummies.
        if signal > best_signal and dummies <= MAX_DUMMIES:
            best, best_signal = plan, signal
        min_dummies = min(dummies, min_dummies)
    if best is None:
        raise SettingsError(
            f"a central budget of {budget.central:g} needs {min_dummies:,} dummies in every epoch, "
            f"but at most {MAX_DUMMIES:,} are possible: name a larger budget"
        )
    # Only the best candidate gets the exact count, which takes longer than the estimates above.
    return _add_dummies(best, budget, public, fixed)


def _reduce_epochs(
    settings: Settings, dummies: int, public: PublicNumbers, fixed: Mapping[str, Any]
) -> Settings:
    """Reduce the number of epochs if people take turns and an epoch would have too many dummies."""
    if settings.turns == settings.epochs or "epochs" in fixed:
        return settings
    # The number of epochs does not change the number of people's reports in all, but every epoch
    # needs the same number of dummies.
    reports = public.people * settings.turns * settings.reports
    epochs = min(int(MAX_DUMMIES_PER_REPORT * reports / max(dummies, 1)), settings.epochs)
    return settings.copy_with(epochs=max(epochs, MIN_EPOCHS_WITH_DUMMIES, settings.max_turns))


def _add_dummies(
    settings: Settings, budget: Budget, public: PublicNumbers, fixed: Mapping[str, Any]
) -> Settings:
    """Add the dummies that the central budget needs."""
    assert budget.central is not None
    needed = find_min_dummies(settings.event(public.items), budget.central, budget.delta)
    dummies_per_report = _compute_noise(settings, needed, public) - 1
    # If dummies outnumber people's reports, more directions are loud, and fewer dummies are enough.
    loud_scale = min(max(dummies_per_report, 1.0), MAX_DUMMY_LOUD_SCALE)
    plan = settings.copy_with(dummies=min(int(needed / loud_scale), MAX_DUMMIES))
    plan = _fit_model(plan, public, fixed, loud_scale=loud_scale)
    # Dummies change the number of factors, and this changes rho a little, so count dummies again.
    needed = find_min_dummies(plan.event(public.items), budget.central, budget.delta)
    return plan.copy_with(dummies=fixed.get("dummies", min(needed, MAX_DUMMIES)))


def _plan_reports(
    reports: int,
    settings: Settings,
    budget: Budget,
    public: PublicNumbers,
    fixed: Mapping[str, Any],
) -> Settings:
    """Divide a local budget among the reports of one person, and the reports among epochs."""
    assert budget.local is not None
    epsilon = budget.local / reports
    gain = _compute_gain(settings.mechanism, epsilon, public.items)
    by_turns = _compute_signal(public, reports, gain) >= MIN_SIGNAL_FOR_TURNS
    plan = settings.copy_with(**_distribute_reports(reports, fixed, by_turns=by_turns))
    per_report = divide_budget(budget.local, plan.reports * plan.max_turns)
    epsilon = fixed.get("epsilon") or min(max(per_report, MIN_EPSILON), MAX_EPSILON)
    return _fit_model(plan.copy_with(epsilon=epsilon), public, fixed)


def _plan_central(
    settings: Settings, budget: Budget, public: PublicNumbers, fixed: Mapping[str, Any]
) -> Settings:
    """Plan for a central budget, with as many reports as fit at the best epsilon of a report."""
    if public.people < 2:
        raise SettingsError(f"a central budget needs at least two people, got {public.people}")
    rules = OPTION_RULES.get(settings.mechanism)
    # In a crowd, the best epsilon of a report depends on the catalogue only. The size of the crowd
    # limits the number of reports.
    best = rules.choose_crowd_epsilon(public.items) if rules else DEFAULT_CROWD_EPSILON
    epsilon = first = fixed.get("epsilon") or best
    while epsilon == first or ("epsilon" not in fixed and epsilon > MIN_USEFUL_EPSILON / 8):
        plan = _plan_at_epsilon(settings.copy_with(epsilon=epsilon), budget, public, fixed)
        if plan is not None:
            return plan
        epsilon /= 2  # a small crowd can hide only reports of a small epsilon
    raise SettingsError(
        f"not even one report of epsilon {2 * epsilon:.3g} fits a central budget of "
        f"{budget.central:g} among {public.people:,} people: name a larger budget"
    )


def _plan_at_epsilon(
    settings: Settings, budget: Budget, public: PublicNumbers, fixed: Mapping[str, Any]
) -> Settings | None:
    """Plan as many reports of the epsilon in `settings` as fit the central budget.

    Returns:
        The plan, or None if not even one report fits, or fewer fit than the fixed settings need.
    """
    epsilon = settings.epsilon
    assert budget.central is not None
    rules = OPTION_RULES.get(settings.mechanism)
    rho = COIN_RHO
    if rules is not None:
        rho = rules.choose_crowd_fraction(epsilon, public.items, public.history)
    reports = _count_fixed_reports(fixed) or find_max_reports(
        epsilon, rho, budget.central, public.people, budget.delta
    )
    while reports:
        plan = settings.copy_with(**_distribute_reports(reports, fixed, by_turns=False))
        plan = _fit_model(plan, public, fixed, needs_crowd=True)
        excess = budget.estimate_excess_ratio(plan, public.people, public.items)
        if excess == 1.0:
            return plan
        # `find_max_reports` assumed that all people report in every epoch. If people take turns,
        # the crowd of an epoch is smaller.
        planned_reports = plan.reports * plan.max_turns
        if _count_fixed_reports(fixed) or planned_reports > reports:
            return None
        # The number decreases by at least one, so that the loop ends even if the excess is close to
        # 1.
        reports = min(int(planned_reports / excess), planned_reports - 1)
    return None


def _count_fixed_reports(fixed: Mapping[str, Any]) -> int:
    """Return the number of reports of one person in the training, or 0 if it is not fixed."""
    return int(fixed.get("reports", 0) * (fixed.get("lifetime") or fixed.get("epochs", 0)))


def _rank_report_counts(
    settings: Settings, budget: Budget, items: int, fixed: Mapping[str, Any]
) -> list[int]:
    """Return candidates m for the number of reports of one person, best first.

    They are ordered by `m gain(B / m)^2`, which is proportional to the signal for a local budget B.
    """
    assert budget.local is not None
    if "epsilon" in fixed:
        return [max(int(budget.local / fixed["epsilon"] * (1 + 1e-12)), 1)]
    if fixed.get("lifetime") and "reports" in fixed:
        return [_count_fixed_reports(fixed)]
    min_reports = floor(budget.local / MAX_EPSILON) + 1
    # Up to 100, every number is tried, because the gain differs much from one number to the next.
    candidates = list(range(min_reports, max(min_reports, 100) + 1))
    # Above 100, numbers are tried in steps of 2%.
    while budget.local / candidates[-1] > MIN_USEFUL_EPSILON:
        candidates.append(candidates[-1] + max(candidates[-1] // 50, 1))
    kind, local = settings.mechanism, budget.local
    return sorted(candidates, key=lambda m: -m * _compute_gain(kind, local / m, items) ** 2)


def _compute_gain(mechanism: str, epsilon: float, items: int) -> float:
    """Return the gain of a report; epsilon is limited to the range that coins support."""
    epsilon = min(max(epsilon, MIN_EPSILON), MAX_EPSILON)
    return get_mechanism(mechanism).build(Shape(items, 1, 1.0), epsilon, 0, {}).gain


def _distribute_reports(
    reports: int, fixed: Mapping[str, Any], *, by_turns: bool
) -> dict[str, int]:
    """Divide the reports of one person among epochs.

    Args:
        reports: Number of reports of one person in the whole training.
        fixed: Settings that stay as they are.
        by_turns: Whether people take turns if one person has fewer reports than there are epochs.
            Otherwise there are fewer epochs, and everybody takes part in each.

    Returns:
        The settings `reports`, `epochs` and perhaps `lifetime`.
    """
    epochs = fixed.get("epochs") or PLANNED_EPOCHS
    turns = fixed.get("lifetime")
    if turns:
        # With a fixed lifetime, the reports are divided among this number of epochs.
        k = fixed.get("reports") or min(max(reports // turns, 1), MAX_REPORTS)
        return {"reports": k, "epochs": fixed.get("epochs") or max(epochs, turns)}
    # k is rounded to the nearest number. The number of turns makes up for the rounding.
    k = fixed.get("reports") or min(max(ceil(reports / epochs - 0.5), 1), MAX_REPORTS)
    turns = max(reports // k, 1)
    if turns < epochs and by_turns and "lifetime" not in fixed:
        return {"reports": k, "epochs": epochs, "lifetime": turns}
    if "epochs" in fixed:
        k = fixed.get("reports") or min(max(reports // epochs, 1), MAX_REPORTS)
        return {"reports": k, "epochs": epochs}
    return {"reports": k, "epochs": turns}
