"""Whose devices are simulated: the people of a data set, or any number made out of them.

A made person has the history of somebody who is drawn with replacement, without about a tenth of
it. Both are functions of the seed and the person's number, so nobody needs memory of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import SettingsError
from sottovoce.mechanism import WORDS_PER_DRAW
from sottovoce.model import Histories
from sottovoce.simulation.words import RESAMPLED, multiply_high, philox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sottovoce.data import Interactions

    Int64 = NDArray[np.int64]

DROPPED = 6554
"""Of 65,536: a tenth of a history is forgotten."""
PIECES = 4 * WORDS_PER_DRAW
"""Of 16 bits, in one draw: one for each item."""


@dataclass(frozen=True, eq=False)
class People:
    """N people with numbers of their own; reports are a function of the number."""

    histories: Histories
    first: int = 0
    """The number of the first: other than 0 for a shard of more people."""
    resampled: int | None = None
    """So many people made out of the histories; None: the histories are theirs."""
    chosen: Int64 | None = None
    """The numbers of those who are here, one for each history; None: consecutive from the first."""

    def __post_init__(self) -> None:
        if self.chosen is not None and (
            self.resampled is not None or len(self.chosen) != self.histories.n_users
        ):
            raise SettingsError("each history has one number, and nobody is made out of them")
        if self.resampled is not None and not (self.resampled >= 1 and self.histories.n_users):
            raise SettingsError("resampled people need a history to draw, and one of them at least")

    def __len__(self) -> int:
        return self.histories.n_users if self.resampled is None else self.resampled

    def numbers(self, places: Int64) -> Int64:
        """Of those at these places."""
        return self.first + places if self.chosen is None else self.chosen[places]

    def some(self, begin: int, end: int) -> People:
        """Those at these places, without a copy of anything; each keeps their number."""
        if self.resampled is not None:
            return People(self.histories, self.first + begin, end - begin)
        if self.chosen is not None:
            return People(self.histories.some(begin, end), 0, None, self.chosen[begin:end])
        return People(self.histories.some(begin, end), self.first + begin)

    def take(self, places: Int64, seed: int) -> Histories:
        """The histories of some, by their place from the first on."""
        if self.resampled is None:
            return self.histories.take(places)
        numbers = self.numbers(places)
        drawn = philox((seed, RESAMPLED), np.array(0), numbers, 0, 0)[:, 0]
        rows = multiply_high(drawn, self.histories.n_users)
        return _without_a_tenth(self.histories.take(rows.astype(np.int64)), numbers, seed)


def resampled_parts(
    data: Interactions, rows: int, *, people: int, seed: int
) -> Iterator[Interactions]:
    """So many people made out of a data set, in parts of about so many interactions."""
    everybody = People(data.histories, 0, people)
    at_once = max(int(rows / max(data.n_interactions / data.n_users, 1)), 1)
    for begin in range(0, people, at_once):
        places = np.arange(begin, min(begin + at_once, people))
        histories = everybody.take(places, seed)
        yield replace(data, histories=histories, user_ids=places, timestamps=None, loaded=None)


def _without_a_tenth(histories: Histories, numbers: Int64, seed: int) -> Histories:
    """For each entry 16 bits of the words of its owner, who has a draw for each 16 entries."""
    lengths = np.diff(histories.indptr)
    draws = -(-lengths // PIECES)
    first = np.cumsum(draws) - draws
    owners, entries = np.repeat(numbers, draws), histories.users_of_entries()
    nth = 1 + np.arange(len(owners)) - np.repeat(first, draws)
    words = philox((seed, RESAMPLED), nth, owners, 0, 0)
    pieces = words.astype("<u8").view("<u2").ravel()
    place = np.arange(histories.n_interactions) - histories.indptr[entries]
    kept = pieces[first[entries] * PIECES + place] >= DROPPED
    left = np.bincount(entries[kept], minlength=len(numbers))
    return Histories(
        np.concatenate([[0], np.cumsum(left)]).astype(np.int64),
        histories.indices[kept],
        histories.n_items,
    )
