"""Slices in invented shops: what they cost, and what liars still reach.

    python -m sottovoce_lab.paper.sliced_shops 3000 1000 20 --budget 50 --slices 1,2,4

Each row is a mean over seeds from 1000 on. HR@10 is among the whole catalogue, without liars; the
difference from the first row has a 95% interval. Then the exposure of an item of each band that
adaptive liars push against the defences of a live server. Liars are accounts: they have no more
turns than others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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
from sottovoce_lab.paper.lying import BANDS, SHOWN, Audience, Liars, Reporters, liars_among, targets
from sottovoce_lab.paper.scale import CHOOSING


@dataclass(frozen=True)
class SlicedShop:
    """Its numbers, and how many slices it has."""

    people: int
    items: int
    history: float
    budget: Budget
    slices: int = 1

    def settings(self, seed: int) -> Settings:
        return plan_training(
            self.people, self.items, history=self.history, budget=self.budget, seed=seed
        )

    def split(self, seed: int) -> Split:
        """Of one of the shops that `sottovoce plan` tries."""
        tastes, focus = SHOP_KINDS[seed % len(SHOP_KINDS)]
        length = (self.history + 1) * float(np.exp(LENGTH_SIGMA**2 / 2))
        everybody = shop(self.people, self.items, length, tastes, seed, focus=focus)
        ids = np.arange(self.people), np.arange(self.items)
        return leave_one_out(Interactions("shop", everybody, *ids), seed=seed)

    def hit_ratio(self, seed: int) -> float:
        """Where nobody lies."""
        return self._run(seed)[0]

    def exposure(self, seed: int, pushed: str, share: float) -> float:
        """Of an item that so many of all accounts push; `share` 0: nobody does."""
        return self._run(seed, pushed, share)[1]

    def _run(
        self, seed: int, pushed: str = next(iter(BANDS)), share: float = 0.0
    ) -> tuple[float, float]:
        split, settings = self.split(seed), self.settings(seed)
        liars, item = liars_among(self.people, share), targets(split.train, seed)[pushed]
        with build_engine("cpu", split.train, settings, threads=1) as engine:
            system = Reporters(engine, self.people, liars, "rows", self.slices)
            audience = Audience.of(item, split, settings.alpha, system.ridge)
            who, V = Liars(item, audience.sample(seed)), system.first()
            for number in range(settings.epochs):
                epoch = system.open(V, number, who.known)
                V = epoch.close(who.adapted(epoch) if liars else None)
        n = min(self.people, MAX_TESTED_PEOPLE)
        known, hidden = split.train.some(0, n), split.left_out.some(0, n)
        X, W = to_factors(make_device_model(V, settings, make_empty_tags(self.items)), known)
        return hit_ratio(rank_hidden(X, W, known, hidden), SHOWN), audience.exposure(V)


def rows(
    shops: Sequence[SlicedShop], seeds: Sequence[int], lying: Sequence[int], share: float
) -> Iterator[str]:
    """Of a Markdown table; `lying`: the seeds with liars."""
    yield f"| slices | HR@10 | difference | {' | '.join(BANDS)} |"
    yield "|---|---|---|" + "---|" * len(BANDS)
    first: list[float] = []
    for each in shops:
        found = [each.hit_ratio(seed) for seed in seeds]
        first = first or found
        loss = Interval.from_values(
            [mine - other for mine, other in zip(found, first, strict=True)]
        )
        exposed = [
            f"{np.mean([each.exposure(seed, pushed, share) for seed in lying]):.3f}"
            for pushed in BANDS
        ]
        yield f"| {each.slices} | {np.mean(found):.4f} | {loss} | {' | '.join(exposed)} |"


def main() -> None:
    """As a program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("people", type=int)
    parser.add_argument("items", type=int)
    parser.add_argument("history", type=float)
    parser.add_argument("--budget", type=float, default=None)
    parser.add_argument("--central-budget", type=float, default=None)
    parser.add_argument("--slices", default="1,2,4")
    parser.add_argument("--share", type=float, default=0.01, help="of liars among all accounts")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--lying-seeds", type=int, default=3)
    told = parser.parse_args()
    budget = Budget(told.budget, told.central_budget)
    numbers = [int(each) for each in told.slices.split(",")]
    shops = [SlicedShop(told.people, told.items, told.history, budget, each) for each in numbers]
    seeds = range(CHOOSING, CHOOSING + told.seeds)
    for row in rows(shops, seeds, seeds[: told.lying_seeds], told.share):
        sys.stdout.write(row + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
