"""Attackers who push one item: how they plan changes of V, and what they send."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data.streams import stream
from sottovoce_lab.paper.poisoning.audience import ITEMS_SHOWN, Audience, Float32, Float64

Strategy = Literal["history", "reports", "adaptive"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
# An invented history has the pushed item and this many of the most popular other items, drawn from
# this many. With these numbers, an item of middling popularity had the most exposure, among all
# pairs tried on seed 1000 with 5% of attackers.
INVENTED_ITEMS = 2
INVENTED_POOL = 20
# Length of the row of V that the strategy `reports` aims at, as a multiple of the length of the
# best-liked item's row.
REPORTS_REACH = 1.25
# The strategy `adaptive` tries these multiples of the same length.
ADAPTIVE_REACHES = (0.5, 0.8, 1.1, 1.5, 2.0, 3.0)
# The strategy `adaptive` aims at those of the people whom it knows whose lists most nearly have the
# item. It tries these shares of the people whom it knows.
ADAPTIVE_SHARES = (0.1, 0.4, 1.0)
# Number of epochs that `adaptive` looks ahead.
ADAPTIVE_HORIZON_EPOCHS = 5
# Numbers of better-ranked items that `adaptive` tries to push down.
ADAPTIVE_RIVALS = (10, 50)
# Smallest length by which a vector is divided.
MIN_LENGTH = 1e-300


class Epoch(Protocol):
    """An epoch of a training as attackers see it: what they know, and what they can do."""

    @property
    def V(self) -> Float32:  # noqa: N802 - the paper's letter
        """The item matrix that was published last."""

    @property
    def epochs_left(self) -> int:
        """Number of epochs left, including this one."""

    def plan(self, changes: Sequence[Float64], epochs: int = 1) -> Float64:
        """Return what to send for these changes of V, the most important change first."""

    def predict(self, plan: Float64, epochs: int = 1) -> Float32:
        """Return the next V if attackers send the reports of a plan."""


def invent_histories(
    honest: Histories,
    item: int,
    attackers: int,
    seed: int,
    *,
    size: int = INVENTED_ITEMS,
    pool: int = INVENTED_POOL,
) -> Histories:
    """Return a history for each attacker: the item and `size` of the `pool` most popular ones."""
    order = np.argsort(-honest.popularity(), kind="stable")
    # Keep the name of the stream: with another name, the same seed would draw other histories.
    popular, chance = order[order != item][:pool], stream(seed, "liars", 1)
    drawn = [chance.permutation(popular)[:size].tolist() for _ in range(attackers)]
    return Histories.from_lists([[item, *others] for others in drawn], honest.n_items)


@dataclass(frozen=True, eq=False)
class Attackers:
    """People who depart from the protocol to push one item."""

    item: int
    known_people: Audience
    """People whose histories the attackers know."""

    def plan_reports(self, epoch: Epoch) -> Float64:
        """Return the reports of the strategy `reports`."""
        liked_rows = self._get_liked_rows(epoch.V)
        return epoch.plan([self._move_item(epoch.V, REPORTS_REACH * liked_rows[0])])

    def plan_adaptive(self, epoch: Epoch) -> Float64:
        """Return the reports of the strategy `adaptive`: of the plans that it tries, the best one.

        A plan is judged by how near the item is to the lists of the people that attackers know.
        """
        epochs = min(epoch.epochs_left, ADAPTIVE_HORIZON_EPOCHS)

        # A goal that takes several epochs is judged by the model that it leads to.
        def predict_nearness(changes: Sequence[Float64]) -> float:
            plan = epoch.plan(changes, epochs)
            return self.known_people.compute_nearness(epoch.predict(plan, epochs))

        undisturbed = epoch.predict(epoch.plan([]))
        plans = [[self._move_item(undisturbed, goal)] for goal in self._list_goals(undisturbed)]
        best = max([[], *plans], key=predict_nearness)
        extended = [[*best, change] for change in self._list_rival_changes(undisturbed)]
        return epoch.plan(max([best, *extended], key=predict_nearness))

    def _move_item(self, V: Float32, goal: Float64) -> Float64:
        change = np.zeros(V.shape)
        change[self.item] = goal - V[self.item]
        return change

    def _list_goals(self, V: Float32) -> Iterator[Float64]:
        """Yield rows to aim at: like popular items, or along the mean vector of some people."""
        liked_rows = self._get_liked_rows(V)
        length = float(np.linalg.norm(liked_rows[0]))
        X, distances = self.known_people.solve_vectors(V), self.known_people.compute_distances(V)
        for row in (liked_rows[0], liked_rows.mean(axis=0)):
            yield from (reach * row for reach in ADAPTIVE_REACHES)
        for share in ADAPTIVE_SHARES:
            nearest = X[distances <= np.quantile(distances, share)]
            mean = nearest.mean(axis=0, dtype=np.float64)
            unit = mean / max(float(np.linalg.norm(mean)), MIN_LENGTH)
            yield from (reach * length * unit for reach in ADAPTIVE_REACHES)

    def _list_rival_changes(self, V: Float32) -> Iterator[Float64]:
        """Yield changes that set the rows of the best-liked other items to zero."""
        order = self._order_rivals(V)
        for n in ADAPTIVE_RIVALS:
            change = np.zeros(V.shape)
            change[order[:n]] = -V[order[:n]]
            yield change

    def _get_liked_rows(self, V: Float32) -> Float64:
        """Return the rows of the items that the mean person likes best, best first."""
        return np.asarray(V[self._order_rivals(V)[:ITEMS_SHOWN]], np.float64)

    def _order_rivals(self, V: Float32) -> NDArray[np.int64]:
        """Return all other items in the order of the mean person."""
        mean = np.asarray(self.known_people.solve_vectors(V).mean(axis=0, dtype=np.float64))
        order = np.argsort(-(V @ mean), kind="stable")
        return np.asarray(order[order != self.item])


# Strategies that leave the protocol; `history` runs honest code.
PLANNERS: dict[str, Callable[[Attackers, Epoch], Float64]] = {
    "reports": Attackers.plan_reports,
    "adaptive": Attackers.plan_adaptive,
}
