"""More budget never makes a model worse, nor worse than private popularity at the same budget.

The shops are invented, and no rule of the planner was fitted on them.
`python -m tests.nightly.test_more_budget` prints HR@10 as CSV; `--all` does it with five seeds, in
a quarter of an hour. With `--endless` it shows services without an end in five shops instead: as
planned, with reports of names, and with reports of taste.
"""

import sys
from dataclasses import asdict
from math import exp

import numpy as np
import pytest

from sottovoce import FederatedMF
from sottovoce.core import Histories
from sottovoce.core.recommending import build_popularity_model
from sottovoce.core.tags import make_empty_tags
from sottovoce.data import Interactions, leave_one_out
from sottovoce.data.shops import shop
from sottovoce.data.split import Split
from sottovoce.simulation.evaluation.lists import to_factors
from sottovoce.simulation.evaluation.quality import measure_scores
from sottovoce.simulation.evaluation.ranking import Factors
from sottovoce.training import Budget
from sottovoce.training.planning import plan_open_ended

EPSILON_BUDGETS = (10, 50, 200, 500, 1_000, 5_000)
ENDLESS_BUDGETS = (10, 50, 100, 200, 500, 2_000)
# People, items, interactions of one person, tastes.
SHOP_SIZES = [
    (800, 300, 26, 4), (300, 400, 12, 3), (300, 100, 8, 6), (500, 1000, 20, 5),
    (500, 150, 30, 8), (1000, 500, 8, 4), (1000, 60, 10, 2), (1500, 1500, 15, 6),
    (2000, 300, 20, 10), (2500, 800, 30, 3), (3000, 100, 6, 5), (4000, 2000, 25, 8),
]  # fmt: skip


def measure_hit_ratios(people: Histories, seed: int) -> tuple[list[float], list[float]]:
    """Return HR@10 in the whole catalogue by budget: of the plan, and of private popularity."""
    split, left_out = leave_out_items(people, seed)
    planned, popular_ratios = [], []
    for budget in EPSILON_BUDGETS:
        model = FederatedMF(budget=budget, seed=seed).fit(split.train)
        planned.append(model.evaluate(split.train, left_out, negatives=None)["hr@10"])
        named = count_named_items(split.train, budget, np.random.default_rng(seed))
        popular = build_popularity_model(named, people.n_users, make_empty_tags(people.n_items))
        factors = Factors(*to_factors(popular, split.train))
        popular_ratios.append(measure_scores(factors, split.train, left_out, ["hr@10"])["hr@10"])
    return planned, popular_ratios


def leave_out_items(people: Histories, seed: int) -> tuple[Split, Histories]:
    """Return a split of a shop, and the left-out items."""
    numbers = np.arange(people.n_users), np.arange(people.n_items)
    split = leave_one_out(Interactions("shop", people, *numbers), seed=seed)
    items = [[max(item, 0)] for item in split.test.tolist()]
    return split, Histories.from_lists(items, people.n_items)


def measure_endless(people: Histories, seed: int, **options: str) -> list[float]:
    """Return HR@10 in the whole catalogue by budget, of plans without an end."""
    split, left_out = leave_out_items(people, seed)
    ratios = []
    for budget in ENDLESS_BUDGETS:
        plan = plan_open_ended(
            people.n_users, people.n_items, budget=Budget(local=budget), seed=seed, **options
        )
        model = FederatedMF(**asdict(plan)).fit(split.train)
        ratios.append(model.evaluate(split.train, left_out, negatives=None)["hr@10"])
    return ratios


def count_named_items(people: Histories, budget: float, rng: np.random.Generator) -> np.ndarray:
    """Count own items, each reported by randomised response over the catalogue at epsilon 10."""
    counts = np.zeros(people.n_items, np.int64)
    truth = exp(10) / (exp(10) + people.n_items - 1)
    for own in (people[user] for user in range(people.n_users)):
        named = rng.choice(own, min(int(budget / 10), 100))
        is_random = rng.random(len(named)) >= truth
        named = np.where(is_random, rng.integers(people.n_items, size=len(named)), named)
        counts += np.bincount(named, minlength=people.n_items)
    return counts


def average_hit_ratios(world: tuple[int, int, int, int], seeds: range) -> np.ndarray:
    people, items, length, tastes = world
    ratios = [measure_hit_ratios(shop(people, items, length, tastes, s), s) for s in seeds]
    return np.asarray(np.mean(ratios, axis=0))


@pytest.mark.parametrize("world", SHOP_SIZES[:6], ids=str)
def test_more_budget_is_never_worse(world: tuple[int, int, int, int]) -> None:
    """Compare with the noise of two seeds, or of as many as test two thousand people."""
    planned, popular_ratios = average_hit_ratios(world, range(max(2, 2_000 // world[0])))
    assert (np.maximum.accumulate(planned) - planned).max() < 0.03
    assert (popular_ratios - planned).max() < 0.03


@pytest.mark.parametrize("world", SHOP_SIZES[:3], ids=str)
def test_more_budget_is_never_worse_without_an_end(world: tuple[int, int, int, int]) -> None:
    """Compare with the noise of as many seeds as above."""
    people, items, length, tastes = world
    seeds = range(max(2, 2_000 // people))
    ratios = [measure_endless(shop(people, items, length, tastes, s), s) for s in seeds]
    planned = np.mean(ratios, axis=0)
    assert (np.maximum.accumulate(planned) - planned).max() < 0.03


def print_hit_ratios(world: tuple[int, int, int, int], seed: int, *, is_endless: bool) -> None:
    """Print a line of CSV for each budget and each way to learn."""
    people = shop(*world, seed)
    if is_endless:
        budgets = ENDLESS_BUDGETS
        ratios = {
            "names": measure_endless(people, seed),
            "taste": measure_endless(people, seed, mechanism="loudest"),
        }
    else:
        budgets = EPSILON_BUDGETS
        planned, popular = measure_hit_ratios(people, seed)
        ratios = {"plan": planned, "private popularity": popular}
    for learn, values in ratios.items():
        for budget, ratio in zip(budgets, values, strict=True):
            print(*world, seed, learn, budget, f"{ratio:.6f}", sep=",", flush=True)


if __name__ == "__main__":
    print("people,items,history,tastes,seed,learn,budget,hr@10")
    endless = "--endless" in sys.argv
    for one in SHOP_SIZES[:5] if endless else SHOP_SIZES:
        for number in range(5 if "--all" in sys.argv else 1):
            print_hit_ratios(one, number, is_endless=endless)
