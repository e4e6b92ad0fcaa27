"""The grid: the values of settings, sizes, budgets and seeds that experiments use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sottovoce.data.split import SplitRule
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.training import Budget, Settings, plan_training
from sottovoce_lab.baselines.trusted import TrustedSettings
from sottovoce_lab.paper.cells import COMPARED_METHODS, Cell, SideKind, Size, TrainedMethod
from sottovoce_lab.paper.store import About

# Weight of touched items in "paper-alpha". The paper names no alpha, so "paper" has alpha 1.
HIGHER_ALPHA = 4.0
# MF-NP, an upper bound without privacy: the best of F 5 and 16, alpha 1, 4 and 10, and lambda 0.01,
# 1 and 10, on subsets and splits of TUNING_SEED. With five factors HR@10 is lower by 0.01 to 0.03.
MF_PARAMETERS: dict[str, Any] = {
    "factors": 16,
    "alpha": 10.0,
    "regularization": 10.0,
    "iterations": 10,
}
# Epsilon of a report that names an item; the best of those tried on TUNING_SEED.
NAMED_EPSILON = 12.5
# Matrix factorisation of the items that reports name; the best of those tried on TUNING_SEED.
NAMED_ALS_PARAMETERS: dict[str, Any] = {**MF_PARAMETERS, "factors": 32, "iterations": 5}
# The number of factors in the paper.
PAPER_FACTORS = 5
# Number of similar items that DPLCF uses.
DPLCF_NEIGHBOURS = 50
# Alternating least squares and EASE without privacy, by the metric that they were tuned for:
# results of `sottovoce paper tuned` on the Netflix subset, used for every data set.
ALS_BY_METRIC: dict[str, dict[str, Any]] = {
    "hr@10": {"factors": 128, "alpha": 10.0, "regularization": 100.0},
    "ndcg@100 all": {"factors": 144, "alpha": 1.0, "regularization": 100.0},
}
EASE_RIDGE_BY_METRIC = {"hr@10": 8000.0, "ndcg@100 all": 1000.0}
# Settings are chosen on splits of this seed. No results are reported for seeds from here on.
TUNING_SEED = 1000
# Epsilon of one report in the paper, in experiments that do not vary it.
PAPER_EPSILON = 2.5
# A smaller run has at least this many people in each crowd.
MIN_PEOPLE = 100
# Size of the paper's full set.
FULL_USERS = 75_040
FULL_ITEMS = 9_781

# The cells that differ only in their seed: a function that returns the cell of a seed.
Family = Callable[[int], Cell]


def make_settings(
    method: TrainedMethod, epsilon: float, reports: int, epochs: int, *, users: int, items: int
) -> Settings:
    """Return the settings of a training: the paper's own, or ours by the planner's rules."""
    # The rules were fitted on splits of seeds 1000 and 1001, which are not reported.
    spent: dict[str, Any] = {"epsilon": float(epsilon), "reports": reports, "epochs": epochs}
    if method == "paper":
        return Settings.preset("paper", **spent)
    if method == "paper-alpha":
        return Settings.preset("paper", **spent, alpha=HIGHER_ALPHA)
    return plan_training(users, items, preset=method, **spent)


def compute_delta(people: int) -> float:
    """Return the delta of a central budget: a tenth of 1 / people, at most 1e-6."""
    return min(DEFAULT_DELTA, 0.1 / people)


def make_fcf_settings(epochs: int) -> Settings:
    """Return the settings of FCF, which is not private and uses neither reports nor a budget."""
    return Settings.preset("loudest", epochs=epochs, alpha=HIGHER_ALPHA, initial_scale=1e-3)


def scale_people(people: int, about: About) -> int:
    """Return how many people of this run stand for `people` of the full run."""
    return max(round(people * about.scale), MIN_PEOPLE)


@dataclass(frozen=True)
class Grid:
    """The values that experiments combine into cells: sizes, settings, budgets and seeds."""

    about: About
    seeds: range
    """Seeds of the splits that are reported."""
    people: int
    """Number of people who report in the full set."""
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
    frontier_epochs: tuple[int, ...] = (1, 2, 5, 10, 20)
    """Numbers of epochs of trainings in which a person makes one report in each epoch."""
    small_epsilons: tuple[float, ...] = (0.5, 1.0, 2.5, 5.0, 10.0)
    central_budgets: tuple[float, ...] = (0.32, 1.0, 2.12)
    """Central budgets, behind an honest proxy or of a trusted party."""
    local_budgets: tuple[float, ...] = (10.0, 50.0, 5_000.0)
    """Local budgets that the planner spends."""
    fitted_people: tuple[int, ...] = (5_000, 20_000, 500_000, 5_000_000, 50_000_000)
    """The law (`sottovoce_lab.paper.law`) is fitted on these populations, and on all people of the
    data."""
    checked_people: tuple[int, ...] = (10_000, 40_000, 200_000, 1_500_000, 10_000_000, 100_000_000)
    """Populations that the law is tested on."""
    initial_scales: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
    """Standard deviations of the first item matrix that are tried for the paper's system."""
    search_seeds: range = range(TUNING_SEED, TUNING_SEED + 10)
    """Seeds of the splits on which `initial_scales` is searched."""
    max_people: int = 200_000
    """The largest population that is resampled from the data."""
    iterations: int = MF_PARAMETERS["iterations"]

    @classmethod
    def from_about(cls, about: About, seeds: int | None = None) -> Grid:
        """Return the grid that fits this data, with the first `seeds` splits or all of them."""
        splits = range(about.seeds if seeds is None else seeds)
        if about.quick:
            return _make_quick_grid(about, splits)
        people = min(scale_people(about.users, about), about.users)
        users = _list_crowds(cls.users, about) or (about.users,)
        items = (*(m for m in cls.items if m is not None and m < about.items), None)
        fitted = {*(scale_people(n, about) for n in cls.fitted_people), people}
        return cls(
            about,
            splits,
            people,
            Size() if people == about.users else Size(people),
            users=users,
            items=items,
            curve_users=_list_crowds(cls.curve_users, about) or users[-1:],
            fitted_people=tuple(sorted(fitted)),
            max_people=scale_people(cls.max_people, about),
            checked_people=tuple(
                sorted({scale_people(n, about) for n in cls.checked_people} - fitted)
            ),
        )

    @property
    def small_items(self) -> int | None:
        """Number of items in figures 2 and 3."""
        return self.items[0]

    @property
    def splits(self) -> list[SplitRule]:
        """Rules by which an interaction is left out; "latest" needs timestamps."""
        return ["random", "latest"] if self.about.timestamps else ["random"]

    def make_small_size(self, users: int) -> Size:
        """Return the size of this many users with the small item set."""
        return Size(users, self.small_items)

    def count_users_and_items(self, size: Size) -> tuple[int, int]:
        """Return the numbers of users and items of a size."""
        users = None if size.users == self.full.users else size.users
        return users or self.people, size.items or self.about.items

    def find_paper_users(self, size: Size) -> int | None:
        """Return the paper's number of users for which this size stands, or None."""
        if self.about.quick:
            return None
        if size == self.full:
            return FULL_USERS
        # In a small run several crowds of the paper may shrink to MIN_PEOPLE: take the largest.
        crowds = reversed(Grid.users)
        return next((n for n in crowds if scale_people(n, self.about) == size.users), None)

    def format_users(self, size: Size) -> str:
        """Format the number of users, with the paper's where it differs."""
        return _format_count(self.count_users_and_items(size)[0], self.find_paper_users(size))

    def format_items(self, size: Size) -> str:
        """Format the number of items, with the paper's where it differs."""
        whole = size.items is None and not self.about.quick
        return _format_count(self.count_users_and_items(size)[1], FULL_ITEMS if whole else None)

    def build_training(
        self,
        method: TrainedMethod,
        size: Size,
        epsilon: float,
        reports: int,
        *,
        epochs: int | None = None,
        curve: bool = False,
        split: SplitRule = "random",
        **changes: Any,
    ) -> Family:
        """Build trainings with these reports; `changes` replace settings of the method."""
        users, items = self.count_users_and_items(size)
        settings = make_settings(
            method, epsilon, reports, epochs or self.epochs, users=users, items=items
        ).copy_with(**changes)
        return lambda seed: Cell.from_settings(
            method, size, settings, seed, draw=get_subset_seed(seed), split=split, curve=curve
        )

    def build_for_budget(self, size: Size, spend: Budget, *, split: SplitRule = "random") -> Family:
        """Build trainings for a lifetime budget, with settings chosen by the planner."""
        users, items = self.count_users_and_items(size)
        # The planner chooses the epochs, except in a quick run.
        epochs = self.epochs if self.about.quick else None
        spend = replace(spend, delta=compute_delta(users))
        settings = plan_training(users, items, budget=spend, epochs=epochs)
        return lambda seed: Cell.from_settings(
            "loudest", size, settings, seed, draw=get_subset_seed(seed), split=split
        )

    def build_comparison(self, size: Size, epsilon: float, reports: int) -> dict[str, Family]:
        """Build the trainings that figures and tables compare, by method."""
        return {
            method: self.build_training(method, size, epsilon, reports)
            for method in COMPARED_METHODS
        }

    def build_mf(self, size: Size, split: SplitRule = "random", **parameters: Any) -> Family:
        """Build MF-NP, or the same with other parameters."""
        parameters = {**MF_PARAMETERS, "iterations": self.iterations, **parameters}
        return lambda seed: Cell.from_parameters(
            "mf", size, seed, draw=get_subset_seed(seed), split=split, **parameters
        )

    def build_ease(self, size: Size, ridge: float, split: SplitRule = "random") -> Family:
        """Build EASE, which is not private."""
        return lambda seed: Cell.from_parameters(
            "ease", size, seed, draw=get_subset_seed(seed), split=split, ridge=ridge
        )

    def build_fcf(self, size: Size, split: SplitRule = "random") -> Family:
        """Build FCF, which is federated and not private."""
        settings = make_fcf_settings(self.epochs)
        return lambda seed: Cell.from_settings("fcf", size, settings, seed, split=split)

    def build_dplcf(self, size: Size, epsilon: float, split: SplitRule = "random") -> Family:
        """Build DPLCF with this epsilon for each item."""
        return lambda seed: Cell.from_parameters(
            "dplcf", size, seed, split=split, epsilon=epsilon, neighbours=DPLCF_NEIGHBOURS
        )

    def build_dp_als(self, size: Size, epsilon: float, split: SplitRule = "random") -> Family:
        """Build DP-ALS with a central budget."""
        settings = asdict(self.make_trusted_settings(size, epsilon))
        return lambda seed: Cell.from_parameters(
            "dp-als", size, seed, draw=get_subset_seed(seed), split=split, **settings
        )

    def make_trusted_settings(self, size: Size, epsilon: float) -> TrustedSettings:
        """Return the settings of DP-ALS for a central budget."""
        users, items = self.count_users_and_items(size)
        return TrustedSettings.choose(
            epsilon, people=users, items=items, delta=compute_delta(users)
        )

    def build_popularity(self, size: Size, split: SplitRule = "random") -> Family:
        """Build the baseline that recommends the most popular items to everybody."""
        return lambda seed: Cell.from_parameters(
            "popularity", size, seed, draw=get_subset_seed(seed), split=split
        )

    def list_cells(self, families: Iterable[Family]) -> list[Cell]:
        """Return the cells of these families for all reported seeds."""
        return [family(seed) for family in families for seed in self.seeds]


def add_side_information(family: Family, *kinds: SideKind) -> Family:
    """Return the same cells, also tested with this side information."""
    return lambda seed: replace(family(seed), side_information=kinds)


def _format_count(count: int, in_paper: int | None) -> str:
    return f"{count:,}" if in_paper in (None, count) else f"{count:,} (paper: {in_paper:,})"


def _list_crowds(paper_crowds: tuple[int, ...], about: About) -> tuple[int, ...]:
    """Return the distinct crowds that the data is large enough for."""
    crowds = dict.fromkeys(scale_people(n, about) for n in paper_crowds)
    return tuple(n for n in crowds if n <= about.users)


def get_subset_seed(seed: int) -> int:
    """Return the seed of the subset that a split divides."""
    # As in the paper, all reported splits divide the same subset. Settings are chosen on others.
    return 0 if seed < TUNING_SEED else seed


def _make_quick_grid(about: About, splits: range) -> Grid:
    few, items = min(150, about.users), min(60, about.items - 1)
    users = (few, min(300, about.users)) if about.users > few else (few,)
    return Grid(
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
        frontier_epochs=(1, 2),
        small_epsilons=(1.0, 10.0),
        central_budgets=(1.0, 10.0),
        local_budgets=(10.0, 100.0),
        fitted_people=(few, about.users),
        checked_people=(2 * about.users,),
        initial_scales=(0.01, 0.3),
        search_seeds=range(TUNING_SEED, TUNING_SEED + 1),
        iterations=2,
    )
