"""Budget in, settings out: eps, k, T, turns, F, alpha and the mechanism's own.

All from public numbers. The rules were fitted on splits of four data sets that no result is
reported for; docs/mechanisms.md says which. They know the trade: for a local budget few reports
that say much each, for a central one more of them that say less; and as many factors as all reports
together can fill. Whatever is given explicitly stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, sqrt
from typing import TYPE_CHECKING

from sottovoce.errors import SettingsError
from sottovoce.mechanism import Shape, mechanism_named
from sottovoce.mechanism.coin import MAX_EPSILON
from sottovoce.mechanism.loudest import QUIET, usual_history
from sottovoce.model.bounds import MOST_REPORTS
from sottovoce.privacy import Crowd, central_epsilon, gaussian_mu
from sottovoce.privacy.account import DELTA
from sottovoce.privacy.gaussian import gaussian_epsilon
from sottovoce.training.options import most_reports
from sottovoce.training.settings import DEFAULT, Settings, presets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sottovoce.privacy import Reporting

ENOUGH_FACTORS = 64
EPOCHS, FEW_EPOCHS = 20, 10
"""Above an epsilon of QUIET a model gains by more epochs; up to it noise wants fewer."""
LONG = 20.0
"""With a longer history than this, a device needs ever less ridge to trust its own equations."""
FAINTEST = 0.25
"""Reports that say less are not worth a thought."""
CLEAR = 300.0
"""With so much signal people can take turns, and loud reports need no ridge.

Below it, every epoch needs everybody.
"""


@dataclass(frozen=True)
class Budget:
    """What a person's part in a training may cost, in one of the two views or in both."""

    local: float | None = None
    """T k eps, with nobody to trust."""
    central: float | None = None
    """After an honest shuffle of everybody's reports, at `delta`."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        given = [value for value in (self.local, self.central) if value is not None]
        if not given:
            raise SettingsError("name a budget, local or central")
        if not all(0 < value < inf for value in given):
            raise SettingsError(f"a budget must be positive and finite, got {min(given)}")

    @classmethod
    def of(cls, local: float | None, central: float | None) -> Budget | None:
        """None where neither is named."""
        return None if local is None and central is None else cls(local, central)

    def exceeded_by(self, settings: Settings, people: int, items: int) -> str | None:
        """In words, what these settings would spend; None: they keep within it."""
        event = settings.event(items)
        views = [("local", event.pure, self.local)]
        if self.central is not None:
            crowd = Crowd.of(settings.crowd(people))
            central = event.pure if crowd is None else central_epsilon(event, crowd, self.delta)
            views.append(("central", central, self.central))
        for view, spent, most in views:
            if most is not None and spent > most * (1 + 1e-9):
                return f"{spent:.4g}, more than the {view} budget of {most:g}"
        return None

    def is_hopeless(self, event: Reporting, clients: int) -> bool:
        """Whether the Gaussian that it tends to is too much: quick, and nearly exact."""
        if self.central is None:
            return False
        about = gaussian_epsilon(gaussian_mu(event, max(clients, 1)), self.delta)
        return min(about, event.pure) > self.central


PLANNED = {"strong": Budget(local=10.0, central=1.0), "crowd": Budget(central=1.0)}
"""Presets by their budget: little is said in all, or proxy and server are trusted to be two."""


@dataclass(frozen=True)
class Public:
    """What a plan is made from: numbers that everybody may know."""

    people: int
    items: int
    history: float
    """Items that a typical person has touched, about."""

    def __post_init__(self) -> None:
        if min(self.people, self.items) < 1:
            raise SettingsError("a plan needs at least one person and one item")
        if not 1 <= self.history < inf:
            raise SettingsError(f"a typical history has at least one item, got {self.history}")


def planned(
    people: int,
    items: int,
    *,
    history: float | None = None,
    preset: str = DEFAULT,
    budget: Budget | None = None,
    **given: Any,
) -> Settings:
    """The settings for so many people and items; what is given, and not None, stays as it is.

    `history` is about how many items a typical person has touched; by default what
    `sottovoce.mechanism.loudest.usual_history` says.

    >>> few = planned(75_040, 9_781, budget=Budget(local=50))
    >>> few.epsilon, few.reports, few.turns, few.epochs, few.factors
    (10.0, 1, 5, 20, 15)
    """
    given = {name: value for name, value in given.items() if value is not None}
    about = Public(people, items, usual_history(max(items, 1)) if history is None else history)
    if preset in PLANNED:
        budget, preset = budget or PLANNED[preset], DEFAULT
    if preset == DEFAULT:
        preset = given.get("mechanism", DEFAULT)  # one that is named brings its own usual settings
    settings = Settings.preset(preset, **given)
    if budget is None:
        fixed = not mechanism_named(settings.mechanism).is_planned
        return settings if fixed else _fitted(settings, about, given, for_crowd=False)
    found = None
    if budget.central is not None:
        found = _central(settings, budget, about, given)
    if budget.local is not None and (found is None or found.event(items).pure > budget.local):
        found = _local(settings, budget, about, given)
    assert found is not None
    exceeded = budget.exceeded_by(found, people, items)
    if exceeded:
        raise SettingsError(
            f"epsilon {found.epsilon:.4g}, {found.reports} reports in each of {found.turns} epochs "
            f"spend {exceeded}: name smaller ones, or a larger budget"
        )
    return found


def all_presets() -> list[str]:
    """The names that `planned` knows."""
    return [*presets(), *PLANNED]


def _fitted(
    settings: Settings, about: Public, given: Mapping[str, Any], *, for_crowd: bool
) -> Settings:
    """The same with as many factors as its reports can fill, and what goes with them.

    The rarer a touched item is among all, the more it has to weigh. The shorter a history, the more
    ridge: among noisy items it would fit noise. Where reports are loud the estimates are not noisy,
    unless people are few, and a ridge would only make them say again what is known.
    """
    signal = _signal(about, settings.reports * settings.turns, settings.build(about.items).gain)
    is_quiet = settings.epsilon <= QUIET
    factors = given.get("factors") or _factors(signal, settings.epochs, about, is_quiet=is_quiet)
    alpha = 1.6 * sqrt(factors) * (about.items / (50 * about.history)) ** (4 / 3)
    ridge = min(LONG / about.history, 1.0) ** 1.2 * (1.0 if is_quiet else min(CLEAR / signal, 1.0))
    settings = settings.changed(
        factors=factors,
        alpha=given.get("alpha", round(min(max(alpha, 0.5), 10.0), 2)),
        ridge=given.get("ridge", round(ridge, 3)),
    )
    shape = Shape(about.items, settings.factors, settings.alpha)
    own = mechanism_named(settings.mechanism).planned_settings(
        shape, settings.epsilon, about.history, for_crowd=for_crowd
    )
    if own.keys() & given.keys():  # one of them alone is set for the others' usual values
        return settings
    return settings.changed(**own)


def _factors(signal: float, epochs: int, about: Public, *, is_quiet: bool) -> int:
    """Up to a typical history's length where a ridge holds them, else rather less than half.

    One epoch teaches one: everybody's first vector has the direction of the first item matrix.
    """
    held = about.history if is_quiet else about.history * 3 / 8
    taught = 4 * epochs - 3
    most = (1.6 * signal**0.25, 1 + signal / 50, taught, held, about.items, ENOUGH_FACTORS)
    return int(max(floor(min(most) + 0.5), 1))


def _signal(about: Public, reports: int, gain: float) -> float:
    """What all people's reports say together, for each item."""
    return about.people * reports * gain**2 / about.items


def _local(settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]) -> Settings:
    """The number of reports that says most; where it is small, people take turns.

    If the crowd that is left is too small for a central budget, all take part in every epoch; and
    if that is not enough either, they send more reports that say less each.
    """
    assert budget.local is not None
    found = settings
    for reports in _best_reports(settings, budget.local, about.items, given):
        epsilon = budget.local / reports
        signal = _signal(about, reports, _gain(settings, epsilon, about.items))
        for worth in (signal, 0.0):
            found = settings.changed(**_shared_out(reports, epsilon, worth, given))
            each = min(budget.local / (found.reports * found.turns), MAX_EPSILON)
            found = found.changed(epsilon=given.get("epsilon") or each)
            found = _fitted(found, about, given, for_crowd=False)
            if budget.is_hopeless(found.event(about.items), found.crowd(about.people)):
                continue
            if budget.exceeded_by(found, about.people, about.items) is None:
                return found
    return found


def _central(
    settings: Settings, budget: Budget, about: Public, given: Mapping[str, Any]
) -> Settings:
    """As many reports as the accountant allows at an epsilon that suits the catalogue."""
    kind, crowd = mechanism_named(settings.mechanism), Crowd.of(about.people)
    if crowd is None:
        raise SettingsError("a central budget needs at least two people")
    assert budget.central is not None
    epsilon = given.get("epsilon") or kind.crowd_epsilon(about.items)
    reports = _reports_of(given)
    while not reports and epsilon > FAINTEST / 8:
        rho = kind.crowd_fraction(epsilon, about.items, about.history)
        reports = most_reports(epsilon, rho, budget.central, "central", crowd, budget.delta)
        if not reports:  # a small crowd hides small things alone
            if "epsilon" in given:
                break
            epsilon /= 2
    if not reports:
        raise SettingsError(
            f"not even one report of epsilon {epsilon:.3g} fits a central budget of "
            f"{budget.central:g} among {about.people:,} people"
        )
    settings = settings.changed(epsilon=epsilon, **_shared_out(reports, epsilon, 0.0, given))
    return _fitted(settings, about, given, for_crowd=True)


def _reports_of(given: Mapping[str, Any]) -> int:
    """In all, of one person; 0 where that is still to be found."""
    return int(given.get("reports", 0) * (given.get("lifetime") or given.get("epochs", 0)))


def _best_reports(
    settings: Settings, budget: float, items: int, given: Mapping[str, Any]
) -> list[int]:
    """The m with the most `m gain(B / m)^2` first; those beyond a hundred in steps of 2%."""
    if "epsilon" in given or _reports_of(given):
        by_epsilon = int(budget / given.get("epsilon", inf) * (1 + 1e-12))
        return [_reports_of(given) or max(by_epsilon, 1)]
    fewest = floor(budget / MAX_EPSILON) + 1
    candidates = list(range(fewest, max(fewest, 100) + 1))
    while budget / candidates[-1] > FAINTEST:
        candidates.append(candidates[-1] + max(candidates[-1] // 50, 1))
    return sorted(candidates, key=lambda m: -m * _gain(settings, budget / m, items) ** 2)


def _gain(settings: Settings, epsilon: float, items: int) -> float:
    return settings.changed(epsilon=min(epsilon, MAX_EPSILON)).build(items).gain


def _shared_out(
    reports: int, epsilon: float, signal: float, given: Mapping[str, Any]
) -> dict[str, int]:
    """So many reports of one person, as k in each of some epochs."""
    epochs = EPOCHS if epsilon > QUIET else FEW_EPOCHS
    turns = given.get("lifetime") or given.get("epochs")
    if turns:
        k = given.get("reports") or max(reports // turns, 1)
        return {"reports": k, "epochs": given.get("epochs") or max(epochs, turns)}
    if "reports" in given or reports >= epochs:
        k = given.get("reports") or min(ceil(reports / epochs - 0.5), MOST_REPORTS)
        return {"reports": k, "epochs": max(reports // k, 1)}
    if signal >= CLEAR and "lifetime" not in given:
        return {"reports": 1, "epochs": EPOCHS, "lifetime": reports}
    return {"reports": 1, "epochs": reports}
