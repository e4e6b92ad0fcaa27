"""Three kinds of liars, who want one item to be shown to most people.

`history` invents a history and runs honest code. `reports` leaves the protocol: it moves the
item's row towards that of the item which people like best, and does not look whether this helps.
`adaptive` tries in every epoch what would become of the model published last, on people it knows,
and sends what helps most; reports that are left over push down the items in the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.data.streams import stream
from sottovoce_lab.paper.lying.targets import Audience

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

Attacker = Literal["history", "reports", "adaptive"]
ATTACKERS: tuple[Attacker, ...] = get_args(Attacker)
COMPANY = {"paper": (80, 80), "loudest": (2, 20), "fcf": (3, 3)}
"""Of an invented history beside the item that is pushed: so many of so many most popular ones.

By method, what gave a middling item most exposure on seed 1000, with 5% of liars.
"""
REACH = 1.25
"""`reports` wants a row so many times that of the item which people like best."""
REACHES = (0.5, 0.8, 1.1, 1.5, 2.0, 3.0)
NEAREST = (0.1, 0.4, 1.0)
"""Shares of the known people who lack least: whom `adaptive` tries to please."""
PATIENCE = 5
"""Epochs that `adaptive` looks ahead."""
RIVALS = (10, 50)
"""How many items in the way `adaptive` tries to push down."""


class OpenEpoch(Protocol):
    """What liars can do in an epoch, whatever they send."""

    @property
    def V(self) -> Float32:  # noqa: N802 - the paper's letter
        """As it was published."""

    @property
    def left(self) -> int:
        """Epochs to come, this one among them."""

    def ask(self, wanted: Sequence[Float64], times: int = 1) -> Float64:
        """What to send for changes of V, the first one first; or for so many epochs' worth."""

    def ahead(self, message: Float64, times: int = 1) -> Float32:
        """The next V, as far as liars can tell; or after so many epochs, of the same."""


def invented(
    honest: Histories, item: int, liars: int, seed: int, *, company: int, pool: int
) -> Histories:
    """For each liar the item, beside some of those that most people know."""
    order = np.argsort(-honest.popularity(), kind="stable")
    popular, chance = order[order != item][:pool], stream(seed, "liars", 1)
    drawn = [chance.permutation(popular)[:company].tolist() for _ in range(liars)]
    return Histories.from_lists([[item, *each] for each in drawn], honest.n_items)


@dataclass(frozen=True, eq=False)
class Liars:
    """Who push one item, and the people they know."""

    item: int
    known: Audience

    def blunt(self, epoch: OpenEpoch, reach: float = REACH) -> Float64:
        """What `reports` sends."""
        liked = self._liked(epoch.V)
        return epoch.ask([self._towards(epoch.V, reach * liked[0])])

    def adapted(self, epoch: OpenEpoch) -> Float64:
        """What `adaptive` sends: the best on the people it knows of all that it tries.

        What takes more than one epoch is judged by where it leads to.
        """
        ahead, times = epoch.ahead(epoch.ask([])), min(epoch.left, PATIENCE)

        def worth(wishes: Sequence[Float64]) -> float:
            return self.known.nearness(epoch.ahead(epoch.ask(wishes, times), times))

        tried = [[self._towards(ahead, goal)] for goal in self._goals(ahead)]
        best = max([[], *tried], key=worth)
        further = [[*best, away] for away in self._away(ahead)]
        return epoch.ask(max([best, *further], key=worth))

    def _towards(self, V: Float32, goal: Float64) -> Float64:
        change = np.zeros(V.shape)
        change[self.item] = goal - V[self.item]
        return change

    def _goals(self, V: Float32) -> Iterator[Float64]:
        """Rows to have: like the best liked item, like the best ten, along some people's mean."""
        liked, length = self._liked(V), float(np.linalg.norm(self._liked(V)[0]))
        X, far = self.known.vectors(V), self.known.distances(V)
        for row in (liked[0], liked.mean(axis=0)):
            yield from (reach * row for reach in REACHES)
        for share in NEAREST:
            near = X[far <= np.quantile(far, share)].mean(axis=0, dtype=np.float64)
            unit = near / max(float(np.linalg.norm(near)), 1e-300)
            yield from (reach * length * unit for reach in REACHES)

    def _away(self, V: Float32) -> Iterator[Float64]:
        """The rows of the best liked items taken to zero."""
        mean = self._mean_vector(V)
        order = [each for each in np.argsort(-(V @ mean), kind="stable") if each != self.item]
        for n in RIVALS:
            change = np.zeros(V.shape)
            change[order[:n]] = -V[order[:n]]
            yield change

    def _liked(self, V: Float32) -> Float64:
        """The rows of the ten items that the mean person likes best, best first."""
        order = np.argsort(-(V @ self._mean_vector(V)), kind="stable")
        return np.asarray(V[order[order != self.item][:10]], np.float64)

    def _mean_vector(self, V: Float32) -> Float64:
        return np.asarray(self.known.vectors(V).mean(axis=0, dtype=np.float64))
