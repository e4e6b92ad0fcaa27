"""Whose devices are simulated: the people of a data set, or any number made out of them.

A made person has the history of somebody who is drawn with replacement, without about a tenth of
it. Both are functions of the seed and the person's number, so nobody needs memory of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import WORDS_PER_DRAW, Histories
from sottovoce.core.tags import Tags, build_tags, make_empty_tags
from sottovoce.data import Interactions, Shards, leave_one_out
from sottovoce.data.split import count_choices, draw_choices, take_out
from sottovoce.errors import SettingsError
from sottovoce.simulation.evaluation.ranking import sample_candidates
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce.simulation.files import compute_fingerprint
from sottovoce.simulation.holdout import Holdout, HoldoutRule
from sottovoce.simulation.random_words import RESAMPLING_PURPOSE, multiply_high, philox

Int64 = NDArray[np.int64]

# An item of a made person's history is dropped when its 16 random bits are below this: a tenth.
DROPPED_OF_65536 = 6554
# Each item needs 16 bits, so one draw of four words is enough for so many items.
ITEMS_PER_DRAW = 4 * WORDS_PER_DRAW


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
            raise SettingsError("each history must have one number, and nobody be made of them")
        if self.resampled is not None and not (self.resampled >= 1 and self.histories.n_users):
            raise SettingsError("resampled people need a history to draw, and one of them at least")

    def __len__(self) -> int:
        return self.histories.n_users if self.resampled is None else self.resampled

    def numbers(self, places: Int64) -> Int64:
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
        drawn = philox((seed, RESAMPLING_PURPOSE), np.array(0), numbers, 0, 0)[:, 0]
        rows = multiply_high(drawn, self.histories.n_users)
        return _without_a_tenth(self.histories.take(rows.astype(np.int64)), numbers, seed)


def _without_a_tenth(histories: Histories, numbers: Int64, seed: int) -> Histories:
    """For each entry 16 bits of the words of its owner, who has a draw for each 16 entries."""
    lengths = np.diff(histories.indptr)
    draws = -(-lengths // ITEMS_PER_DRAW)
    first = np.cumsum(draws) - draws
    owners, entries = np.repeat(numbers, draws), histories.users_of_entries()
    nth = 1 + np.arange(len(owners)) - np.repeat(first, draws)
    random_words = philox((seed, RESAMPLING_PURPOSE), nth, owners, 0, 0)
    pieces = random_words.astype("<u8").view("<u2").ravel()
    place = np.arange(histories.n_interactions) - histories.indptr[entries]
    kept = pieces[first[entries] * ITEMS_PER_DRAW + place] >= DROPPED_OF_65536
    left = np.bincount(entries[kept], minlength=len(numbers))
    return Histories(
        np.concatenate([[0], np.cumsum(left)]).astype(np.int64),
        histories.indices[kept],
        histories.n_items,
    )


@dataclass(frozen=True, eq=False)
class Part:
    """Some people, in memory."""

    people: People
    holdout: Holdout | None = None
    """What those of the data are tested on; None: nobody is tested."""

    @property
    def histories(self) -> Histories:
        """Of the data, whoever was made out of it."""
        return self.people.histories


class Parts(ABC):
    """All people, each in one part, in the order of their numbers.

    Reports, the item that is left out and whom it competes with are functions of a person's number:
    any cut gives the same reports and ranks, and what is computed part by part adds up.
    """

    n_users: int
    """Of the data."""
    n_items: int

    @abstractmethod
    def __len__(self) -> int:
        """How many parts."""

    @abstractmethod
    def __getitem__(self, index: int) -> Part: ...

    def __iter__(self) -> Iterator[Part]:
        return (self[index] for index in range(len(self)))

    def resample(self, people: int) -> Parts:
        """So many people made out of these, who report in their place."""
        raise SettingsError(
            f"{people:,} people can be made only out of histories that are all in memory, not out "
            "of shards: name the data that the shards were made from"
        )

    @abstractmethod
    def compute_fingerprint(self) -> str:
        """Names the data and what people are tested on: a run is not continued on other data."""


class WholeParts(Parts):
    def __init__(self, part: Part):
        self._part = part
        self.n_users, self.n_items = part.histories.n_users, part.histories.n_items

    @classmethod
    def from_data(cls, data: Interactions, rule: HoldoutRule) -> WholeParts:
        split = leave_one_out(data, rule.split, rule.seed)
        side_information = SideInformation.from_split(data, split, tags=rule.tags, time=rule.time)
        holdout = Holdout(sample_candidates(split, rule.negatives, rule.seed), side_information)
        return cls(Part(People(split.train), holdout))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Part:
        return self._part

    def resample(self, people: int) -> WholeParts:
        return WholeParts(replace(self._part, people=replace(self._part.people, resampled=people)))

    def without_resampling(self) -> WholeParts:
        """The people of the data, whoever is made out of them."""
        return WholeParts(replace(self._part, people=replace(self._part.people, resampled=None)))

    def compute_fingerprint(self) -> str:
        holdout = self._part.holdout
        if holdout is None:
            return compute_fingerprint(self._part.histories)
        table, times = holdout.side_information.tags.table, holdout.candidates.split.times
        tags = [table.indptr, table.indices] if holdout.side_information.tags.names else []
        ordered = [] if holdout.side_information.weights is None or times is None else [times]
        return compute_fingerprint(self._part.histories, *tags, *ordered)

    def cut(self, pieces: int) -> Parts:
        """The same people in so many parts, without copies; those who report, if they were made."""
        made = self._part.people.resampled
        everybody = self.n_users if made is None else made
        bounds = np.linspace(0, everybody, min(pieces, max(everybody, 1)) + 1).astype(np.int64)
        return CutParts(self, bounds.tolist())


class CutParts(Parts):
    """A whole in pieces, which are views of it."""

    def __init__(self, whole: WholeParts, bounds: list[int]):
        self._whole = whole
        self._bounds = bounds
        self.n_users, self.n_items = whole.n_users, whole.n_items

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int) -> Part:
        part, begin, end = self._whole[0], *self._bounds[index : index + 2]
        if part.people.resampled is not None:
            return Part(part.people.some(begin, end))
        holdout = None if part.holdout is None else part.holdout.some(begin, end)
        return Part(part.people.some(begin, end), holdout)

    def resample(self, people: int) -> Parts:
        return self._whole.resample(people).cut(len(self))

    def compute_fingerprint(self) -> str:
        return self._whole.compute_fingerprint()


class StoredParts(Parts):
    """Shards in a folder, each read when it is wanted, and not kept."""

    def __init__(self, shards: Shards, rule: HoldoutRule):
        self._shards = shards
        self._rule = rule
        self.n_users, self.n_items = shards.n_users, shards.n_items
        # One number for each person: all that is kept of everybody.
        each = [count_choices(data, rule.split) for data in shards]
        self._places = draw_choices(np.concatenate(each), rule.seed).astype(np.int32)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> Part:
        data, rule, first = self._shards[index], self._rule, self._shards.first(index)
        places = self._places[first : first + data.n_users].astype(np.int64)
        split = take_out(data, places, rule.split, rule.seed)
        side_information = replace(
            SideInformation.from_split(data, split, tags=False, time=rule.time), tags=self._tags
        )
        candidates = sample_candidates(split, rule.negatives, rule.seed, first)
        return Part(People(split.train, first), Holdout(candidates, side_information))

    def compute_fingerprint(self) -> str:
        return self._shards.digest

    @cached_property
    def _tags(self) -> Tags:
        known = self._shards.tags if self._rule.tags else None
        return make_empty_tags(self.n_items) if known is None else build_tags(known.tolist())


def make_parts(data: Interactions | Shards, rule: HoldoutRule) -> Parts:
    """In memory if the data is, else part by part."""
    return StoredParts(data, rule) if isinstance(data, Shards) else WholeParts.from_data(data, rule)
