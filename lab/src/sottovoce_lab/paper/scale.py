"""How methods are set and how large the experiments are: the paper's sizes, or smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sottovoce.data.split import SplitRule
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.training import Budget, Settings, plan_training
from sottovoce_lab.baselines.trusted import TrustedSettings
from sottovoce_lab.paper.cells import COMPARED, About, Cell, Size, Trained, Way

ALPHA = 4.0
"""What a touched item weighs more than another in "paper-alpha"; the paper says nothing: 1."""
MF: dict[str, Any] = {"factors": 16, "alpha": 10.0, "regularization": 10.0, "iterations": 10}
"""MF-NP, meant as a ceiling: the best of F 5 and 16, alpha 1, 4 and 10, lambda 0.01, 1 and 10 on
subsets and splits of seed 1000 (with five factors it is 0.01 to 0.03 lower)."""
NAMED_EPSILON = 12.5
"""Of a report that names an item; as the next two, the best of what was tried on seed 1000."""
NAMED_ALS: dict[str, Any] = {**MF, "factors": 32, "iterations": 5}
"""Histories of named items, factorised."""
FEW_FACTORS = 5
"""The paper's."""
NEIGHBOURS = 50
"""Of DPLCF: how many similar items count."""


def settings_of(
    method: Trained, epsilon: float, reports: int, epochs: int, *, users: int, items: int
) -> Settings:
    """The paper's system as the paper sets it, or with another alpha; ours by the planner's rules.

    The rules were fitted on splits of seeds 1000 and 1001, which are not reported.
    """
    spent: dict[str, Any] = {"epsilon": float(epsilon), "reports": reports, "epochs": epochs}
    if method == "paper":
        return Settings.preset("paper", **spent)
    if method == "paper-alpha":
        return Settings.preset("paper", **spent, alpha=ALPHA)
    return plan_training(users, items, preset=method, **spent)


def delta_of(people: int) -> float:
    """Of a central figure among so many: a tenth of one in their number, and 1e-6 at most."""
    return min(DEFAULT_DELTA, 0.1 / people)


def fcf_settings(epochs: int) -> Settings:
    """Of the federated method that is not private: reports and budget do not count."""
    return Settings.preset("loudest", epochs=epochs, alpha=ALPHA, initial_scale=1e-3)


ALS: dict[str, dict[str, Any]] = {
    "hr@10": {"factors": 128, "alpha": 10.0, "regularization": 100.0},
    "ndcg@100 all": {"factors": 144, "alpha": 1.0, "regularization": 100.0},
}
"""Alternating least squares without privacy, by the metric that it was tuned for: `paper tuned` on
the Netflix subset. The same for every data set."""
EASE_RIDGE = {"hr@10": 8000.0, "ndcg@100 all": 1000.0}
"""Of EASE, as ALS."""
Family = Callable[[int], Cell]
CHOOSING = 1000
"""The seed on which settings are chosen; from here on nothing is ever reported."""
EPSILON = 2.5
"""The paper's budget of one report, where it is not what is varied."""
LEAST_PEOPLE = 100
"""Of a smaller run."""
FULL_USERS, FULL_ITEMS = 75_040, 9_781
"""Of the paper's full set."""


def scaled(people: int, about: About) -> int:
    """How many stand for so many of the full run."""
    return max(round(people * about.scale), LEAST_PEOPLE)


@dataclass(frozen=True)
class Scale:
    """The grid of every experiment; a `Family` below gives the cell of each seed."""

    about: About
    seeds: range
    """Of the splits that are reported."""
    everybody: int
    """Who report where the full set is asked for."""
    full: Size
    users: tuple[int, ...] = (1_000, 10_000, 50_000)
    items: tuple[int | None, ...] = (1_000, 5_000, None)
    curve_users: tuple[int, ...] = (10_000, 50_000)
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.5, 6.0)
    reports: tuple[int, ...] = (1, 50, 100, 250)
    curve_reports: tuple[int, ...] = (50, 100)
    full_reports: tuple[int, ...] = (100, 250)
    table4_reports: int = 100
    epochs: int = 20
    curve_epochs: int = 30
    marks: tuple[int, ...] = (1, 2, 5, 10, 20)
    """Epochs of trainings with one report, for the frontier."""
    small_epsilons: tuple[float, ...] = (0.5, 1.0, 2.5, 5.0, 10.0)
    central: tuple[float, ...] = (0.32, 1.0, 2.12)
    """Budgets of a person behind an honest proxy, or of a trusted party."""
    lifetimes: tuple[float, ...] = (10.0, 50.0, 5_000.0)
    """Local budgets that the planner spends."""
    fitted_people: tuple[int, ...] = (5_000, 20_000, 500_000, 5_000_000, 50_000_000)
    """Populations that the law is fitted on, beside everybody of the data."""
    checked_people: tuple[int, ...] = (10_000, 40_000, 200_000, 1_500_000, 10_000_000, 100_000_000)
    """And those that it is checked on."""
    most_people: int = 200_000
    """The largest population that is made up."""
    iterations: int = MF["iterations"]

    @classmethod
    def of(cls, about: About, seeds: int | None = None) -> Scale:
        """What this data is large enough for; as many splits as there are, or only the first."""
        splits = range(about.seeds if seeds is None else seeds)
        if about.quick:
            return _quick(about, splits)
        everybody = min(scaled(about.users, about), about.users)
        users = _crowds(cls.users, about) or (about.users,)
        items = (*(m for m in cls.items if m is not None and m < about.items), None)
        fitted = {*(scaled(n, about) for n in cls.fitted_people), everybody}
        return cls(
            about,
            splits,
            everybody,
            Size() if everybody == about.users else Size(everybody),
            users=users,
            items=items,
            curve_users=_crowds(cls.curve_users, about) or users[-1:],
            fitted_people=tuple(sorted(fitted)),
            most_people=scaled(cls.most_people, about),
            checked_people=tuple(sorted({scaled(n, about) for n in cls.checked_people} - fitted)),
        )

    @property
    def smallest_items(self) -> int | None:
        """Figures 2 and 3 use the small item set."""
        return self.items[0]

    @property
    def splits(self) -> list[SplitRule]:
        """Data without times has no latest."""
        return ["random", "latest"] if self.about.timestamps else ["random"]

    def small(self, users: int) -> Size:
        """So many users with the small item set."""
        return Size(users, self.smallest_items)

    def public(self, size: Size) -> tuple[int, int]:
        """How many users and items that is."""
        users = None if size.users == self.full.users else size.users
        return users or self.everybody, size.items or self.about.items

    def in_paper(self, size: Size) -> int | None:
        """The users of the paper that these stand for."""
        if self.about.quick:
            return None
        if size == self.full:
            return FULL_USERS
        # From the largest: the least number of people may stand for several.
        crowds = reversed(Scale.users)
        return next((n for n in crowds if scaled(n, self.about) == size.users), None)

    def crowd(self, size: Size) -> str:
        """How many users were run, and how many the paper had where it is another number."""
        return _labelled(self.public(size)[0], self.in_paper(size))

    def catalogue(self, size: Size) -> str:
        """The same of items."""
        whole = size.items is None and not self.about.quick
        return _labelled(self.public(size)[1], FULL_ITEMS if whole else None)

    def trained(
        self,
        method: Trained,
        size: Size,
        epsilon: float,
        reports: int,
        *,
        epochs: int | None = None,
        curve: bool = False,
        split: SplitRule = "random",
        factors: int | None = None,
    ) -> Family:
        """One training of each seed, set by the fixed rules; None leaves the factors to them."""
        users, items = self.public(size)
        settings = settings_of(
            method, epsilon, reports, epochs or self.epochs, users=users, items=items
        ).copy_with(factors=factors)
        return lambda seed: Cell.training(
            method, size, settings, seed, draw=drawn_with(seed), split=split, curve=curve
        )

    def planned(
        self,
        size: Size,
        spend: Budget,
        *,
        split: SplitRule = "random",
        factors: int | None = None,
    ) -> Family:
        """As the planner spends a lifetime budget, but for the epochs of a quick run."""
        users, items = self.public(size)
        epochs = self.epochs if self.about.quick else None
        spend = replace(spend, delta=delta_of(users))
        settings = plan_training(users, items, budget=spend, factors=factors, epochs=epochs)
        return lambda seed: Cell.training(
            "loudest", size, settings, seed, draw=drawn_with(seed), split=split
        )

    def all_trained(self, size: Size, epsilon: float, reports: int) -> dict[str, Family]:
        return {method: self.trained(method, size, epsilon, reports) for method in COMPARED}

    def ceiling(self, size: Size, split: SplitRule = "random", **given: Any) -> Family:
        """MF-NP, or the same with other settings."""
        parameters = {**MF, "iterations": self.iterations, **given}
        return lambda seed: Cell.make(
            "mf", size, seed, draw=drawn_with(seed), split=split, **parameters
        )

    def ease(self, size: Size, ridge: float, split: SplitRule = "random") -> Family:
        """Not private either."""
        return lambda seed: Cell.make(
            "ease", size, seed, draw=drawn_with(seed), split=split, ridge=ridge
        )

    def fcf(self, size: Size, split: SplitRule = "random") -> Family:
        """Federated and not private."""
        settings = fcf_settings(self.epochs)
        return lambda seed: Cell.training("fcf", size, settings, seed, split=split)

    def dplcf(self, size: Size, epsilon: float, split: SplitRule = "random") -> Family:
        """With so large an epsilon for each item."""
        return lambda seed: Cell.make(
            "dplcf", size, seed, split=split, epsilon=epsilon, neighbours=NEIGHBOURS
        )

    def trusted(self, size: Size, epsilon: float, split: SplitRule = "random") -> Family:
        """DP-ALS with a central budget."""
        settings = asdict(self.trusted_settings(size, epsilon))
        return lambda seed: Cell.make(
            "dp-als", size, seed, draw=drawn_with(seed), split=split, **settings
        )

    def trusted_settings(self, size: Size, epsilon: float) -> TrustedSettings:
        users, items = self.public(size)
        return TrustedSettings.choose(epsilon, people=users, items=items, delta=delta_of(users))

    def popularity(self, size: Size, split: SplitRule = "random") -> Family:
        return lambda seed: Cell.make("popularity", size, seed, draw=drawn_with(seed), split=split)

    def all_of(self, families: Iterable[Family]) -> list[Cell]:
        return [family(seed) for family in families for seed in self.seeds]


def knowing(family: Family, *ways: Way) -> Family:
    """Tested with what devices know for free as well."""
    return lambda seed: replace(family(seed), known=ways)


def _labelled(here: int, in_paper: int | None) -> str:
    return f"{here:,}" if in_paper in (None, here) else f"{here:,} (paper: {in_paper:,})"


def _crowds(of_paper: tuple[int, ...], about: About) -> tuple[int, ...]:
    """Those that the data is large enough for, each once."""
    crowds = dict.fromkeys(scaled(n, about) for n in of_paper)
    return tuple(n for n in crowds if n <= about.users)


def drawn_with(seed: int) -> int:
    """Reported splits are of one subset, as in the paper; settings are chosen on another one."""
    return 0 if seed < CHOOSING else seed


def _quick(about: About, splits: range) -> Scale:
    few, items = min(150, about.users), min(60, about.items - 1)
    users = (few, min(300, about.users)) if about.users > few else (few,)
    return Scale(
        about,
        splits,
        about.users,
        Size(),
        users=users,
        items=(items, None),
        curve_users=users[-1:],
        epsilons=(1.0, 6.0),
        reports=(1, 20),
        curve_reports=(20,),
        full_reports=(20,),
        table4_reports=20,
        epochs=2,
        curve_epochs=3,
        marks=(1, 2),
        small_epsilons=(1.0, 10.0),
        central=(1.0, 10.0),
        lifetimes=(10.0, 100.0),
        fitted_people=(few, about.users),
        checked_people=(2 * about.users,),
        iterations=2,
    )
