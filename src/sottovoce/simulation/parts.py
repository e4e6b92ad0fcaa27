"""People part by part: all in memory, cut into pieces, or read from shards when they are wanted.

Reports, the item that is left out and whom it competes with are functions of a person's number.
So any cut gives the same reports and the same ranks, and what is computed part by part adds up to
what is computed at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.data import Shards, leave_one_out
from sottovoce.data.split import choices, drawn, take_out
from sottovoce.errors import SettingsError
from sottovoce.evaluation import Candidates, Known, sample_candidates
from sottovoce.model.tags import no_tags, tags_of
from sottovoce.simulation.files import fingerprint
from sottovoce.simulation.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sottovoce.data import Interactions
    from sottovoce.data.split import SplitRule
    from sottovoce.model import Histories
    from sottovoce.model.tags import Tags


@dataclass(frozen=True)
class LeaveOut:
    """What people are tested on, as a rule."""

    split: SplitRule = "random"
    negatives: int = 99
    """0 ranks the test item among the whole catalogue."""
    seed: int = 0
    tags: bool = True
    """Recommend with the tags of the data, where it has any."""
    time: bool | None = None
    """Recommend by the order of a history; None: unless a random item is asked for."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What some people are tested on."""

    candidates: Candidates
    known: Known
    """To their devices, beside the model."""

    @classmethod
    def of(cls, candidates: Candidates) -> LeftOut:
        """With devices that know nothing but the model."""
        return cls(candidates, Known(no_tags(candidates.split.train.n_items), None))

    def some(self, begin: int, end: int) -> LeftOut:
        """Of those at these places."""
        split, known = self.candidates.split, self.known
        entries = slice(split.train.indptr[begin], split.train.indptr[end])
        some = replace(
            split,
            train=split.train.some(begin, end),
            test=split.test[begin:end],
            times=None if split.times is None else split.times[entries],
            all_but_test=None
            if split.all_but_test is None
            else split.all_but_test.some(begin, end),
        )
        weights = None if known.weights is None else known.weights[entries]
        return LeftOut(
            Candidates(self.candidates.items[begin:end], some), Known(known.tags, weights)
        )


@dataclass(frozen=True, eq=False)
class Part:
    """Some people, in memory."""

    people: People
    left_out: LeftOut | None = None
    """What those of the data are tested on; None: nobody is tested."""

    @property
    def histories(self) -> Histories:
        """Of the data, whoever was made out of it."""
        return self.people.histories


class Parts(ABC):
    """All people, each in one part, in the order of their numbers."""

    @property
    @abstractmethod
    def n_users(self) -> int:
        """Of the data."""

    @property
    @abstractmethod
    def n_items(self) -> int: ...

    @abstractmethod
    def __len__(self) -> int:
        """How many parts."""

    @abstractmethod
    def __getitem__(self, index: int) -> Part: ...

    def __iter__(self) -> Iterator[Part]:
        return (self[index] for index in range(len(self)))

    def resampled(self, people: int) -> Parts:
        """So many people made out of these, who report in their place."""
        raise SettingsError(
            f"{people:,} people can be made only out of histories that are all in memory, not out "
            f"of shards; make shards of them: sottovoce data shard FROM TO --resample {people}"
        )

    @abstractmethod
    def fingerprint(self) -> str:
        """Names the data and what people are tested on: a run is not continued on other data."""


class Whole(Parts):
    """One part: everybody."""

    def __init__(self, part: Part):
        self._part = part

    @classmethod
    def of(cls, data: Interactions, rule: LeaveOut) -> Whole:
        split = leave_one_out(data, rule.split, rule.seed)
        known = Known.of(data, split, tags=rule.tags, time=rule.time)
        left_out = LeftOut(sample_candidates(split, rule.negatives, rule.seed), known)
        return cls(Part(People(split.train), left_out))

    @property
    def n_users(self) -> int:
        return self._part.histories.n_users

    @property
    def n_items(self) -> int:
        return self._part.histories.n_items

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Part:
        return self._part

    def resampled(self, people: int) -> Whole:
        return Whole(replace(self._part, people=replace(self._part.people, resampled=people)))

    def as_they_are(self) -> Whole:
        """The people of the data, whoever is made out of them."""
        return Whole(replace(self._part, people=replace(self._part.people, resampled=None)))

    def fingerprint(self) -> str:
        left_out = self._part.left_out
        if left_out is None:
            return fingerprint(self._part.histories)
        table, times = left_out.known.tags.table, left_out.candidates.split.times
        tags = [table.indptr, table.indices] if left_out.known.tags.names else []
        ordered = [] if left_out.known.weights is None or times is None else [times]
        return fingerprint(self._part.histories, *tags, *ordered)

    def cut(self, pieces: int) -> Parts:
        """The same people in so many parts, without copies; those who report, if they were made."""
        made = self._part.people.resampled
        everybody = self.n_users if made is None else made
        bounds = np.linspace(0, everybody, min(pieces, max(everybody, 1)) + 1).astype(np.int64)
        return Cut(self, bounds.tolist())


class Cut(Parts):
    """A whole in pieces, which are views of it."""

    def __init__(self, whole: Whole, bounds: list[int]):
        self._whole = whole
        self._bounds = bounds

    @property
    def n_users(self) -> int:
        return self._whole.n_users

    @property
    def n_items(self) -> int:
        return self._whole.n_items

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int) -> Part:
        part, begin, end = self._whole[0], *self._bounds[index : index + 2]
        if part.people.resampled is not None:
            return Part(part.people.some(begin, end))
        left_out = None if part.left_out is None else part.left_out.some(begin, end)
        return Part(part.people.some(begin, end), left_out)

    def resampled(self, people: int) -> Parts:
        return self._whole.resampled(people).cut(len(self))

    def fingerprint(self) -> str:
        return self._whole.fingerprint()


class Stored(Parts):
    """Shards in a folder, each read when it is wanted, and not kept."""

    def __init__(self, shards: Shards, rule: LeaveOut):
        self._shards = shards
        self._rule = rule
        # One number for each person: all that is kept of everybody.
        each = [choices(data, rule.split) for data in shards]
        self._places = drawn(np.concatenate(each), rule.seed).astype(np.int32)

    @property
    def n_users(self) -> int:
        return self._shards.n_users

    @property
    def n_items(self) -> int:
        return self._shards.n_items

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> Part:
        data, rule, first = self._shards[index], self._rule, self._shards.first(index)
        split = take_out(data, self._places_of(first, data), rule.split, rule.seed)
        known = replace(Known.of(data, split, tags=False, time=rule.time), tags=self._tags)
        candidates = sample_candidates(split, rule.negatives, rule.seed, first)
        return Part(People(split.train, first), LeftOut(candidates, known))

    def fingerprint(self) -> str:
        return self._shards.digest

    @cached_property
    def _tags(self) -> Tags:
        known = self._shards.tags if self._rule.tags else None
        return no_tags(self.n_items) if known is None else tags_of(known.tolist())

    def _places_of(self, first: int, data: Interactions) -> NDArray[np.int64]:
        return self._places[first : first + data.histories.n_users].astype(np.int64)


def parts_of(data: Interactions | Shards, rule: LeaveOut) -> Parts:
    """In memory if the data is, else part by part."""
    return Stored(data, rule) if isinstance(data, Shards) else Whole.of(data, rule)
