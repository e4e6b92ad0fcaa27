"""A data set as the people of a live system: their items are those of the served catalogue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.data import leave_one_out
from sottovoce.errors import DataError
from sottovoce.evaluation import sample_candidates
from sottovoce.model import Histories
from sottovoce.simulation.parts import LeftOut, Part, Whole
from sottovoce.simulation.people import People as Simulated

if TYPE_CHECKING:
    from sottovoce.data import Interactions
    from sottovoce.data.split import SplitRule
    from sottovoce.evaluation import Candidates
    from sottovoce.protocol import Catalogue
    from sottovoce.simulation.parts import Parts

NEGATIVES = 99
"""As in `sottovoce simulate`."""


@dataclass(frozen=True, eq=False)
class People:
    """Who takes part, numbered by the catalogue's rows, and what they are tested on."""

    data: Interactions
    candidates: Candidates

    @property
    def train(self) -> Histories:
        """What their devices know: everything but the item that each is tested on."""
        return self.candidates.split.train

    @property
    def tested(self) -> Parts:
        """The same people as engines take them, with what each is tested on."""
        return Whole(Part(Simulated(self.train), LeftOut.of(self.candidates)))

    def items_of(self, user: int) -> list[str]:
        """The names of what a person's device knows."""
        return [str(self.data.item_ids[row]) for row in self.train[user]]


def choose_people(
    data: Interactions, catalogue: Catalogue, clients: int, *, split: SplitRule, seed: int
) -> People:
    """So many at random, and for each of them one item that their device is not told of."""
    chosen = on_catalogue(data, catalogue).subset(users=clients, seed=seed)
    left_out = leave_one_out(chosen, split, seed)
    return People(chosen, sample_candidates(left_out, NEGATIVES, seed))


def on_catalogue(data: Interactions, catalogue: Catalogue) -> Interactions:
    """The same people with the catalogue's items, in its order; what it does not know is gone."""
    row_of = catalogue.numbers
    rows = np.array([row_of.get(str(item), -1) for item in data.item_ids.tolist()], np.int32)
    if not (rows >= 0).any():
        raise DataError(
            f"{data.name}: none of its {len(rows):,} items is in the catalogue that the proxy "
            f"serves ({len(catalogue.items):,} items, the first is {catalogue.items[0].id!r}): "
            "name the data set that the server's catalogue was made from"
        )
    numbers = rows[data.histories.indices]
    known = numbers >= 0
    users = data.histories.users_of_entries()[known]
    # Sorted anew: the catalogue's order need not be the data's.
    order = np.lexsort((numbers[known], users))
    counts = np.bincount(users, minlength=data.histories.n_users)
    histories = Histories.from_arrays(
        np.concatenate([[0], np.cumsum(counts)]), numbers[known][order], len(catalogue.items)
    )
    times = data.timestamps
    return replace(
        data,
        histories=histories,
        item_ids=np.array([item.id for item in catalogue.items], object),
        timestamps=None if times is None else times[known][order],
        titles=None,
        tags=None,
    )
