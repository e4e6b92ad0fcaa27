"""Budget in, settings out: eps, k, T, turns, F, alpha and the mechanism's options.

All from public numbers. docs/reference/model.md has the rules and says what they were fitted on, on
splits that no result is reported for. They know the trade: for a local budget few reports that say
much each, for a central one more of them that say less, for both as many dummies as hide the few;
and as many factors as all reports together can fill. What is given explicitly stays as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, inf, nextafter, sqrt
from typing import Any

from sottovoce.core import Shape, mechanism_named
from sottovoce.core.bounds import MOST_DUMMIES, MOST_ENTRIES, MOST_PRODUCTS, MOST_REPORTS
from sottovoce.core.coin import LEAST_EPSILON, MAX_EPSILON
from sottovoce.core.loudest import QUIET, usual_history
from sottovoce.errors import SettingsError
from sottovoce.privacy import Reporting, central_epsilon, gaussian_mu, mu_within
from sottovoce.privacy.account import DELTA, shown
from sottovoce.privacy.events import MOST
from sottovoce.privacy.gaussian import gaussian_epsilon
from sottovoce.training.settings import DEFAULT, Settings, presets


def least_dummies(event: Reporting, target: float, delta: float) -> int:
    """The fewest that keep a central target even if everybody else is fake, to a hundredth."""

    def spent(dummies: int) -> float:
        return central_epsilon(replace(event, dummies=dummies), 1, delta)

    low, high = -1, about_dummies(event, target, delta)
    while spent(high) > target:
        low, high = high, max(2 * high, event.reports)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) > target else (low, middle)
    return high


def about_dummies(event: Reporting, target: float, delta: float) -> int:
    """The same by the Gaussian that it tends to: quick, and nearly exact."""
    if event.pure <= target:
        return 0
    one = gaussian_mu(replace(event, epochs=event.total, reports=1, dummies=1), 0)
    return event.reports * ceil((one / mu_within(target, delta)) ** 2)


def most_reports(epsilon: float, rho: float, target: float, people: int, delta: float) -> int:
    """The largest number of reports that stays within a central target, to a hundredth of it."""

    def spent(reports: int) -> float:
        return central_epsilon(Reporting(epsilon, reports, 1, rho), people, delta)

    if spent(1) > target:
        return 0
    one = gaussian_mu(Reporting(epsilon, 1, 1, rho), people)
    guess = max(1, int((mu_within(target, delta) / one) ** 2))
    low, high = 1, max(2, guess)
    while spent(high) <= target:
        low, high = high, 2 * high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if spent(middle) <= target else (low, middle)
    return low


ENOUGH_FACTORS = 64
EPOCHS, FEW_EPOCHS = 20, 10
"""Above an epsilon of QUIET a model gains by more epochs; up to it noise wants fewer."""
LONG, LONGER = 20.0, 40.0
"""With longer histories a device needs ever less ridge to trust its own equations: where reports
are quiet, and where they are loud."""
RIDGE, STIFF, HELD = 2.8, 2.5, 1.5
"""Where reports are loud: the ridge of as many factors as a history has items, the most of it, and
the most factors for each item that it still holds."""
FAINT, FEW_TURNS, SURE = 90.0, 4, 10.0
"""With less signal than this, or fewer reports of a person where it is not clear, nothing can be
learnt but what is popular: one factor, in one epoch, by reports of this epsilon."""
FAINTEST = 0.25
"""Reports that say less are not worth a thought."""
CLEAR = 300.0
"""With so much signal people can take turns. Below it, every epoch needs everybody.
"""
LEAST_EPOCHS, COVERED = 4, 0.5
"""Where dummies hide people who take turns: epochs are fewer, so that dummies are no more than this
share of the reports in each, but no fewer than these."""
IN_CROWD, LOUDER, LOUDEST = 1 / 3, 2.0, 2.5
"""Of the usual share of loud directions: where a crowd must hide a report, at most where dummies
do, and at most where one person names several items."""
ENOUGH_REPORTS = 3_000
"""Of one person: more say nothing that these did not, so a larger budget is not spent."""
MOST_LOCAL, MOST_CENTRAL = 1e6, 100.0
"""Beyond them nobody is promised anything, and a plan would be of millions of reports."""


@dataclass(frozen=True)
class Budget:
    """What a person's part in a training may cost, in one of the two views or in both.

    Args:
        local: T k eps, with nobody to trust; None: any.
        central: Epsilon after an honest shuffle of everybody's reports, at `delta`; None: any.
        delta: What probabilities may differ by, beyond the factor e^epsilon.
    """

    local: float | None = None
    """T k eps, with nobody to trust."""
    central: float | None = None
    """After an honest shuffle of everybody's reports, at `delta`."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        if self.local is None and self.central is None:
            raise SettingsError("a budget must be named, local or central")
        for value, most in ((self.local, MOST_LOCAL), (self.central, MOST_CENTRAL)):
            if value is not None and not LEAST_EPSILON <= value <= most:
                raise SettingsError(
                    f"a {'local' if most == MOST_LOCAL else 'central'} budget must be from "
                    f"{LEAST_EPSILON:g} to {most:g}, got {value!r}"
                )

    @classmethod
    def of(cls, local: float | None, central: float | None) -> Budget | None:
        """A budget; None where neither is named.

        Args:
            local: As of the class.
            central: As of the class.
        """
        return None if local is None and central is None else cls(local, central)

    def filled_from(self, other: Budget) -> Budget:
        """The same, and what it leaves open as in the other."""
        local = other.local if self.local is None else self.local
        central = other.central if self.central is None else self.central
        return Budget(local, central, self.delta)

    def exceeded_by(self, settings: Settings, people: int, items: int) -> str | None:
        """In words, what these settings would spend; None: they keep within it."""
        event = settings.event(items)
        views = [("local", event.pure, self.local)]
        if self.central is not None:
            views.append(("central", self._central(settings, people, items), self.central))
        for view, spent, most in views:
            if most is not None and spent > most * (1 + 1e-9):
                return f"{shown(spent)}, more than the {view} budget of {most:g}"
        return None

    def too_often(self, settings: Settings, people: int, items: int) -> float:
        """By about how many times these reports are too many for the central budget; 1: by none.

        What is spent grows with the square root of their number, about.
        """
        if self.central is None:
            return 1.0
        about = self._about(settings.event(items), settings.crowd(people))
        spent = about if about > self.central else self._central(settings, people, items)
        return max(spent / self.central, 1.0) ** 2

    def _central(self, settings: Settings, people: int, items: int) -> float:
        crowd = max(settings.crowd(people), 1)
        return central_epsilon(settings.event(items), crowd, self.delta)

    def _about(self, event: Reporting, clients: int) -> float:
        about = gaussian_epsilon(gaussian_mu(event, max(clients, 1)), self.delta)
        return min(about, event.pure)


PLANNED = {"strong": Budget(local=10.0, central=1.0), "crowd": Budget(central=1.0)}
"""Presets by their budget: little is said in all, or proxy and server are trusted to be two."""


def kept_budget(preset: str, budget: Budget | None) -> Budget | None:
    """What is named, and what it leaves open as the preset keeps it."""
    own = PLANNED.get(preset)
    return budget.filled_from(own) if budget and own else budget or own


@dataclass(frozen=True)
class Public:
    """What a plan is made from: numbers that everybody may know."""

    people: int
    items: int
    history: float
    """Items that a typical person has touched, about."""

    def __post_init__(self) -> None:
        if min(self.people, self.items) < 1:
            raise SettingsError(
                "a plan needs at least one person and one item, "
                f"got {self.people} people and {self.items} items"
            )
        if not 1 <= self.history < inf:
            raise SettingsError(
                f"a typical history has a number of items, at least one; got {self.history}"
            )


def planned(
    people: int,
    items: int,
    *,
    history: float | None = None,
    preset: str = DEFAULT,
    budget: Budget | None = None,
    **given: Any,
) -> Settings:
    """The settings for so many people and items.

    Args:
        people: How many take part in the training, in any of its epochs.
        items: How many the catalogue has.
        history: About how many items a typical person has touched; by default 2% of the catalogue,
            within 10 to 200.
        preset: What to start from: `loudest`, `coordinate`, `paper`, `strong` or `crowd`.
        budget: What each person may spend; None: the preset's own, or none.
        given: Settings by name, options of the mechanism included. What is given, and not None,
            stays as it is; the rest is planned around it.

    >>> few = planned(75_040, 9_781, budget=Budget(local=50))
    >>> few.epsilon, few.reports, few.turns, few.epochs, few.factors
    (10.0, 1, 5, 20, 15)
    """
    if max(people, items) > MOST:
        raise SettingsError("a plan is for at most 10^30 people and items")
    about = Public(people, items, usual_history(max(items, 1)) if history is None else history)
    named = {name for name, value in given.items() if value is not None}
    settings = unplanned(preset, given)
    given = {name: value for name, value in settings.as_dict().items() if name in named}
    budget = kept_budget(preset, budget)
    if budget is None:
        fixed = not mechanism_named(settings.mechanism).is_planned
        return settings if fixed else _fitted(settings, about, given)
    if budget.local is None:
        found = _central(settings, budget, about, given)
    elif budget.central is None:
        found = _local(settings, budget, about, given)
    else:
        found = _both(settings, budget, about, given)
    exceeded = budget.exceeded_by(found, people, items)
    if exceeded:
        raise SettingsError(
            f"epsilon {shown(found.epsilon)}, {found.reports} reports in each of {found.turns} "
            f"epochs and {found.dummies:,} dummies spend {exceeded}: name a smaller epsilon, fewer "
            "reports, more dummies or a larger budget"
        )
    return found


def unplanned(preset: str, given: Mapping[str, Any]) -> Settings:
    """What a plan begins with: the usual settings of a preset, and what is given."""
    if preset not in all_presets():
        raise SettingsError(f"no preset {preset!r:.80}; there are {', '.join(all_presets())}")
    if preset in PLANNED or preset == DEFAULT:
        # One that is named brings its own usual settings.
        named = given.get("mechanism")
        preset = mechanism_named(DEFAULT if named is None else named).name
    return Settings.preset(preset, **given)


def planned_without_end(people: int, items: int, **given: Any) -> Settings:
    """The same for a training without an end: with the usual half-life, unless one is given.

    Planned twice: how many epochs there are decides on the half-life, and that on the factors.
    Where so few people report that what is remembered teaches one factor, the training ends: it
    would get worse with every epoch.

    Args:
        people: As of `planned`.
        items: As of `planned`.
        given: All other arguments of `planned`.
    """
    first = planned(people, items, **given)
    if first.half_life:
        return first
    second = planned(people, items, **{**given, "half_life": first.endless().half_life})
    if second.factors > 1 or "factors" in given or given.get("budget") is None:
        return second
    said = f"so few people teach little: the training ends after {first.epochs} epochs of reports; "
    warnings.warn(f"{said}when much has changed, begin another one", stacklevel=2)
    return first


def all_presets() -> list[str]:
    """The names that `planned` knows."""
    return [*presets(), *PLANNED]


def _fitted(
    settings: Settings, about: Public, given: Mapping[str, Any], *, louder: float = 1.0
) -> Settings:
    """The same with as many factors as its reports can fill, and what goes with them.

    The rarer a touched item is among all, the more it has to weigh. The fewer items a history has
    for each factor, the more ridge: a few items would fit many factors whatever they are.
    """
    gain = _gain(settings.mechanism, settings.epsilon, about.items)
    remembered = settings.turns * settings.memory / settings.epochs  # of one person's turns
    signal = _signal(about, settings.reports * remembered, gain)
    signal /= _noise(settings, settings.dummies, about)
    is_quiet = settings.epsilon <= QUIET
    factors = given.get("factors") or _factors(signal, settings.epochs, about, is_quiet=is_quiet)
    alpha = 1.6 * sqrt(factors) * (about.items / (50 * about.history)) ** (4 / 3)
    if is_quiet:
        ridge = min(LONG / about.history, 1.0) ** 1.2
    else:
        ridge = RIDGE * (factors / about.history) ** 1.3 * min(LONGER / about.history, 1.0)
    ridge = min(ridge, STIFF)
    settings = settings.changed(
        factors=factors,
        alpha=given.get("alpha", round(min(max(alpha, 0.5), 10.0), 2)),
        ridge=given.get("ridge", round(ridge, 3)),
    )
    shape = Shape(about.items, settings.factors, settings.alpha)
    kind = mechanism_named(settings.mechanism)
    return settings.changed(
        **kind.planned_options(shape, settings.epsilon, about.history, given, louder=louder)
    )


def _factors(signal: float, epochs: int, about: Public, *, is_quiet: bool) -> int:
    """One of faint signal, and of one epoch: all first vectors point along the first matrix."""
    if signal < FAINT:
        return 1
    held = about.history * (1.0 if is_quiet else HELD)
    taught = 4 * epochs - 3
    on_a_device = min(MOST_ENTRIES // about.items, floor(sqrt(MOST_PRODUCTS / about.items)))
    most = (1.6 * signal**0.25, taught, held, about.items, ENOUGH_FACTORS)
    return int(max(min(floor(min(most) + 0.5), on_a_device), 1))


def _signal(about: Public, reports: float, gain: float) -> float:
    """What all people's reports say together, for each item."""
    return about.people * reports * gain**2 / about.items


def _noise(settings: Settings, dummies: int, about: Public) -> float:
    """By how much so many dummies raise the variance of an epoch's sums."""
    return 1 + dummies / (about.people * settings.share * settings.reports)


def _local(settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]) -> Settings:
    """The number of reports that says most."""
    best = _best_reports(settings, budget, about.items, given)[0]
    if best > ENOUGH_REPORTS and given.keys().isdisjoint(DECIDED):
        less = replace(budget, local=(budget.local or 0) * ENOUGH_REPORTS / best)
        said = f"of a budget of {budget.local:g} about {less.local:.0f} is spent: "
        warnings.warn(f"{said}more reports of the same people teach nothing", stacklevel=2)
        best, budget = ENOUGH_REPORTS, less
    if _is_faint(best, settings, budget, about, given):
        return _of_what_is_popular(settings, budget, about, given)
    return _of_reports(best, settings, budget, about, given)


DECIDED = ("factors", "epsilon", "reports", "epochs", "lifetime", "half_life")
"""An operator who names one of these wants more than what is popular."""


def _is_faint(
    reports: int, settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> bool:
    """Whether so many reports of one person teach nothing but what is popular."""
    assert budget.local is not None
    if not given.keys().isdisjoint(DECIDED):
        return False
    signal = _signal(about, reports, _gain(settings.mechanism, budget.local / reports, about.items))
    return signal < (CLEAR if reports < FEW_TURNS else FAINT)


def _of_what_is_popular(
    settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> Settings:
    """All reports in one epoch: to a model that knows nothing, every own item is equally loud."""
    assert budget.local is not None
    reports = ceil(budget.local / SURE)
    epsilon = max(_rounded_down(budget.local, reports), LEAST_EPSILON)
    found = settings.changed(reports=reports, epochs=1, epsilon=epsilon)
    return _fitted(found, about, given, louder=min(reports, LOUDEST))


def _both(settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]) -> Settings:
    """The number of reports that says most among dummies that hide it without other people."""
    best, said, fewest = None, 0.0, inf
    for reports in _best_reports(settings, budget, about.items, given):
        tried = _of_reports(reports, settings.changed(dummies=0), budget, about, given)
        needed = about_dummies(tried.event(about.items), budget.central or inf, budget.delta)
        tried = _by_fewer_turns(tried, needed, about, given)
        gain = _gain(tried.mechanism, tried.epsilon, about.items)
        says = _signal(about, tried.reports * tried.turns, gain) / _noise(tried, needed, about)
        if says > said and needed <= MOST_DUMMIES:
            best, said = tried, says
        fewest = min(needed, fewest)
    if best is None:
        raise SettingsError(
            f"a central budget of {budget.central:g} needs {fewest:,} dummies in every epoch, more "
            f"than {MOST_DUMMIES:,}: name a larger budget"
        )
    return _covered(best, budget, about, given)


def _by_fewer_turns(
    settings: Settings, dummies: int, about: Public, given: Mapping[str, Any]
) -> Settings:
    """Where people take turns, in as few epochs as so many dummies in each ask for."""
    if settings.turns == settings.epochs or "epochs" in given:
        return settings
    reports = about.people * settings.turns * settings.reports
    epochs = min(int(COVERED * reports / max(dummies, 1)), settings.epochs)
    return settings.changed(epochs=max(epochs, LEAST_EPOCHS, settings.most_turns))


def _covered(
    settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> Settings:
    """The same with its dummies.

    Where they outnumber people's reports, more directions are loud: then fewer dummies are enough,
    and what all say together is clearer.
    """
    assert budget.central is not None
    needed = least_dummies(settings.event(about.items), budget.central, budget.delta)
    louder = min(max(_noise(settings, needed, about) - 1, 1.0), LOUDER)
    covered = settings.changed(dummies=min(int(needed / louder), MOST_DUMMIES))
    covered = _fitted(covered, about, given, louder=louder)
    # The number of factors, which follows from theirs, changes rho by a hair.
    needed = least_dummies(covered.event(about.items), budget.central, budget.delta)
    return covered.changed(dummies=given.get("dummies", min(needed, MOST_DUMMIES)))


def _of_reports(
    reports: int, settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> Settings:
    """So many of one person share a local budget; where they say enough, people take turns."""
    assert budget.local is not None
    epsilon = budget.local / reports
    signal = _signal(about, reports, _gain(settings.mechanism, epsilon, about.items))
    by_turns = signal >= CLEAR
    found = settings.changed(**_shared_out(reports, epsilon, given, by_turns=by_turns))
    each = _rounded_down(budget.local, found.reports * found.most_turns)
    epsilon = given.get("epsilon") or min(max(each, LEAST_EPSILON), MAX_EPSILON)
    return _fitted(found.changed(epsilon=epsilon), about, given)


def _rounded_down(budget: float, reports: int) -> float:
    """So that all reports together are within the budget exactly, as a device's ledger counts."""
    each = budget / reports
    while Fraction(each) * reports > Fraction(budget):
        each = nextafter(each, 0.0)
    return each


def _central(
    settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> Settings:
    """As many reports as the accountant allows at an epsilon that suits the catalogue."""
    kind = mechanism_named(settings.mechanism)
    if about.people < 2:
        raise SettingsError(f"a central budget needs at least two people, got {about.people}")
    epsilon = first = given.get("epsilon") or kind.crowd_epsilon(about.items)
    while epsilon == first or ("epsilon" not in given and epsilon > FAINTEST / 8):
        found = _in_crowd(settings.changed(epsilon=epsilon), budget, about, given)
        if found is not None:
            return found
        epsilon /= 2  # a small crowd hides small things alone
    raise SettingsError(
        f"not even one report of epsilon {2 * epsilon:.3g} fits a central budget of "
        f"{budget.central:g} among {about.people:,} people: name a larger one"
    )


def _in_crowd(
    settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> Settings | None:
    """With the most reports of this epsilon; None where not even one fits, or as many as given."""
    epsilon = settings.epsilon
    assert budget.central is not None
    rho = mechanism_named(settings.mechanism).crowd_fraction(epsilon, about.items, about.history)
    reports = _reports_of(given) or most_reports(
        epsilon, rho, budget.central, about.people, budget.delta
    )
    while reports:
        shared = settings.changed(**_shared_out(reports, epsilon, given, by_turns=False))
        found = _fitted(shared, about, given, louder=IN_CROWD)
        excess = budget.too_often(found, about.people, about.items)
        if excess == 1.0:
            return found
        # Who takes turns hides among fewer than all people, with whom it was counted.
        spent = found.reports * found.most_turns
        if _reports_of(given) or spent > reports:
            return None
        reports = min(int(spent / excess), spent - 1)
    return None


def _reports_of(given: Mapping[str, Any]) -> int:
    """In all, of one person; 0 where that is still to be found."""
    return int(given.get("reports", 0) * (given.get("lifetime") or given.get("epochs", 0)))


def _best_reports(
    settings: Settings, wanted: Budget, items: int, given: Mapping[str, Any]
) -> list[int]:
    """The m with the most `m gain(B / m)^2` first; those beyond a hundred in steps of 2%."""
    budget = wanted.local
    assert budget is not None
    if "epsilon" in given:
        return [max(int(budget / given["epsilon"] * (1 + 1e-12)), 1)]
    if given.get("lifetime") and "reports" in given:
        return [_reports_of(given)]
    fewest = floor(budget / MAX_EPSILON) + 1
    candidates = list(range(fewest, max(fewest, 100) + 1))
    while budget / candidates[-1] > FAINTEST:
        candidates.append(candidates[-1] + max(candidates[-1] // 50, 1))
    kind = settings.mechanism
    return sorted(candidates, key=lambda m: -m * _gain(kind, budget / m, items) ** 2)


def _gain(mechanism: str, epsilon: float, items: int) -> float:
    within = min(max(epsilon, LEAST_EPSILON), MAX_EPSILON)
    return mechanism_named(mechanism).build(Shape(items, 1, 1.0), within, 0, {}).gain


def _shared_out(
    reports: int, epsilon: float, given: Mapping[str, Any], *, by_turns: bool
) -> dict[str, int]:
    """So many reports of one person, as k in each of some epochs.

    By turns: where that makes fewer epochs than a model wants, people take part in some of as many
    as it wants. Else all take part in every one.
    """
    epochs = given.get("epochs") or (EPOCHS if epsilon > QUIET else FEW_EPOCHS)
    turns = given.get("lifetime")
    if turns:
        k = given.get("reports") or min(max(reports // turns, 1), MOST_REPORTS)
        return {"reports": k, "epochs": given.get("epochs") or max(epochs, turns)}
    k = given.get("reports") or min(max(ceil(reports / epochs - 0.5), 1), MOST_REPORTS)
    turns = max(reports // k, 1)
    if turns < epochs and by_turns and "lifetime" not in given:
        return {"reports": k, "epochs": given.get("epochs") or EPOCHS, "lifetime": turns}
    if "epochs" in given:
        k = given.get("reports") or min(max(reports // epochs, 1), MOST_REPORTS)
        return {"reports": k, "epochs": epochs}
    return {"reports": k, "epochs": turns}
