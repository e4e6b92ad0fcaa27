"""Cost and benefit of slices in invented shops.

    python -m sottovoce_lab.paper.sliced_shops 3000 1000 20 --budget 50 --slices 1,2,4

With slices, each report is about a randomly chosen part of the items
(`sottovoce_lab.paper.slices`). Each row of the table is for a number of slices, and is a mean over
seeds from 1000 on. HR@10 is measured without attackers, in a ranking of the whole catalogue; its
difference from the first row has a 95% interval.

There is a further column for each popularity band, in which attackers push one item of the band.
The column has the exposure of this item: the share of people who see it in their lists. Each
attacker has an account, and reports as often as others. The attackers use the strategy `adaptive`
(`sottovoce_lab.paper.poisoning.attackers`), and the server defends itself as a live server does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce.core import Loudest
from sottovoce.core.tags import make_empty_tags
from sottovoce.data import Interactions, leave_one_out
from sottovoce.data.shops import LENGTH_SIGMA, shop
from sottovoce.data.split import Split
from sottovoce.simulation.engines import build_engine
from sottovoce.simulation.evaluation.lists import make_device_model, to_factors
from sottovoce.simulation.evaluation.metrics import Interval, hit_ratio
from sottovoce.simulation.evaluation.ranking import rank_hidden
from sottovoce.simulation.outlook import MAX_TESTED_PEOPLE, SHOP_KINDS
from sottovoce.training import Budget, Settings, plan_training
from sottovoce_lab.paper.grid import TUNING_SEED
from sottovoce_lab.paper.poisoning.attackers import Attackers
from sottovoce_lab.paper.poisoning.audience import (
    ITEMS_SHOWN,
    POPULARITY_BANDS,
    Audience,
    draw_targets,
)
from sottovoce_lab.paper.poisoning.cell import count_attackers
from sottovoce_lab.paper.poisoning.reports import ReportSystem


@dataclass(frozen=True)
class SlicedShop:
    """An invented shop with a number of slices."""

    people: int
    items: int
    history: float
    """Median number of items of a person."""
    budget: Budget
    slices: int = 1

    def compute_hit_ratio(self, seed: int) -> float:
        """Return HR@10 without attackers."""
        return self._run(seed)[0]

    def compute_exposure(self, seed: int, band: str, share: float) -> float:
        """Return the exposure of an item of this popularity band if attackers push it.

        Args:
            seed: Seed of the shop, the training and the attack.
            band: A key of `POPULARITY_BANDS`.
            share: Share of attackers among all accounts.
        """
        return self._run(seed, band, share)[1]

    def _split(self, seed: int) -> Split:
        """Make a shop as `sottovoce plan` does, and leave out one item of each person."""
        tastes, focus = SHOP_KINDS[seed % len(SHOP_KINDS)]
        # Histories have one more item at first, because one item is left out. The factor converts
        # the median of a log-normal distribution to the mean, which `shop` expects.
        length = (self.history + 1) * float(np.exp(LENGTH_SIGMA**2 / 2))
        everybody = shop(self.people, self.items, length, tastes, seed, focus=focus)
        ids = np.arange(self.people), np.arange(self.items)
        return leave_one_out(Interactions("shop", everybody, *ids), seed=seed)

    def _plan_settings(self, seed: int) -> Settings:
        return plan_training(
            self.people,
            self.items,
            history=self.history,
            budget=self.budget,
            seed=seed,
            mechanism=Loudest.name,
        )

    def _run(
        self, seed: int, band: str = next(iter(POPULARITY_BANDS)), share: float = 0.0
    ) -> tuple[float, float]:
        """Train with attackers, and return HR@10 and the exposure of the item that they push."""
        split, settings = self._split(seed), self._plan_settings(seed)
        n_attackers = count_attackers(self.people, share)
        item = draw_targets(split.train, seed)[band]
        with build_engine("cpu", split.train, settings, threads=1) as engine:
            system = ReportSystem(engine, self.people, n_attackers, "rows", self.slices)
            audience = Audience.from_split(item, split, settings.alpha, system.compute_ridge)
            attackers, V = Attackers(item, audience.sample(seed)), system.make_first_items()
            for number in range(settings.epochs):
                epoch = system.open_epoch(V, number, attackers.known_people)
                # Attackers see the model of each epoch before they choose what to report in it.
                V = epoch.close(attackers.plan_adaptive(epoch) if n_attackers else None)
        n = min(self.people, MAX_TESTED_PEOPLE)
        visible, hidden = split.train.slice(0, n), split.left_out.slice(0, n)
        X, W = to_factors(make_device_model(V, settings, make_empty_tags(self.items)), visible)
        quality = hit_ratio(rank_hidden(X, W, visible, hidden), ITEMS_SHOWN)
        return quality, audience.compute_exposure(V)


def format_rows(
    shops: Sequence[SlicedShop], seeds: Sequence[int], attack_seeds: Sequence[int], share: float
) -> Iterator[str]:
    """Yield the lines of a Markdown table, one for each shop.

    Args:
        shops: The rows; all are compared with the first one.
        seeds: Seeds of HR@10.
        attack_seeds: Seeds of the exposures.
        share: Share of attackers among all accounts.
    """
    yield f"| slices | HR@10 | difference | {' | '.join(POPULARITY_BANDS)} |"
    yield "|---|---|---|" + "---|" * len(POPULARITY_BANDS)
    baseline: list[float] = []
    for sliced_shop in shops:
        qualities = [sliced_shop.compute_hit_ratio(seed) for seed in seeds]
        baseline = baseline or qualities
        difference = Interval.from_values(
            [value - base for value, base in zip(qualities, baseline, strict=True)]
        )
        exposures = []
        for band in POPULARITY_BANDS:
            values = [sliced_shop.compute_exposure(seed, band, share) for seed in attack_seeds]
            exposures.append(f"{np.mean(values):.3f}")
        quality = f"{np.mean(qualities):.4f}"
        yield f"| {sliced_shop.slices} | {quality} | {difference} | {' | '.join(exposures)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("people", type=int)
    parser.add_argument("items", type=int)
    parser.add_argument("history", type=float)
    parser.add_argument("--budget", type=float, default=None)
    parser.add_argument("--central-budget", type=float, default=None)
    parser.add_argument("--slices", default="1,2,4")
    parser.add_argument(
        "--share", type=float, default=0.01, help="share of attackers among all accounts"
    )
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--attack-seeds", type=int, default=3)
    args = parser.parse_args()
    budget = Budget(args.budget, args.central_budget)
    counts = [int(count) for count in args.slices.split(",")]
    shops = [SlicedShop(args.people, args.items, args.history, budget, count) for count in counts]
    seeds = range(TUNING_SEED, TUNING_SEED + args.seeds)
    for row in format_rows(shops, seeds, seeds[: args.attack_seeds], args.share):
        sys.stdout.write(row + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
