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
from sottovoce.data.split import SplitRule, count_choices, draw_choices, take_out
from sottovoce.errors import SettingsError
from sottovoce.simulation.evaluation.ranking import OTHERS, Candidates, sample_candidates
from sottovoce.simulation.evaluation.side_information import SideInformation
from sottovoce.simulation.files import fingerprint

RandomWords = NDArray[np.uint64]
"""Philox 4x64-10, a function of (seed, epoch, user, draw): any number of threads, any batching, a
card or a cluster give the same reports. Never for live clients: those ask the operating system."""
ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
REPORTS, TURNS, RESAMPLED = 1, 2, 3
"""What the words are for, as the second half of the key: another use has another number
(the laboratory has 4)."""

_MASK = (1 << 64) - 1
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def report_words(seed: int, epoch: int, users: NDArray[np.integer], reports: int) -> RandomWords:
    """What `Mechanism.reports` takes for these users: N x (k + 1) x 4."""
    draws = np.arange(reports + 1, dtype=np.uint64)
    return philox((seed, REPORTS), draws[None, :], users[:, None], epoch, 0)


def take_part(
    seed: int, epoch: int, users: NDArray[np.integer], turns: int, epochs: int
) -> NDArray[np.bool_]:
    """Who takes part in an epoch, of people who do so in `turns` of `epochs`, each by own coins.

    With a chance of turns left over epochs left: everybody takes all of their turns, every epoch is
    as likely as any other, and nobody has to remember anything but how many are left. That is the
    rule of a device (`sottovoce.client.timing`); here earlier coins are tossed again.
    """
    left = np.full(len(users), turns, np.uint64)
    takes = np.ones(len(users), bool)
    for each in range(epoch + 1 if turns < epochs else 0):
        random_words = philox((seed, TURNS), np.array(each // WORDS_PER_DRAW), users, 0, 0)
        takes = multiply_high(random_words[..., each % WORDS_PER_DRAW], epochs - each) < left
        left -= takes
    return takes


def philox(
    key: tuple[int, int], c0: NDArray[np.integer], c1: NDArray[np.integer], c2: int, c3: int
) -> RandomWords:
    """Four words for each counter (c0, c1, c2, c3), broadcast; last axis 4."""
    shape = np.broadcast_shapes(np.shape(c0), np.shape(c1))
    x0, x1 = (np.broadcast_to(np.asarray(c, np.uint64), shape) for c in (c0, c1))
    x2, x3 = (np.full(shape, c, np.uint64) for c in (c2, c3))
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _multiply(x0, MULTIPLIERS[0])
        high1, low1 = _multiply(x2, MULTIPLIERS[1])
        x0, x1 = high1 ^ x1 ^ np.uint64(k0), low1
        x2, x3 = high0 ^ x3 ^ np.uint64(k1), low0
        k0, k1 = (k0 + WEYL[0]) & _MASK, (k1 + WEYL[1]) & _MASK
    out = np.empty((*shape, WORDS_PER_DRAW), np.uint64)
    out[..., 0], out[..., 1], out[..., 2], out[..., 3] = x0, x1, x2, x3
    return out


def multiply_high(random_words: RandomWords, below: int) -> RandomWords:
    """From uniform words uniform numbers below this, to within `below / 2^64`."""
    return _multiply(random_words, below)[0]


def _multiply(a: RandomWords, b: int) -> tuple[RandomWords, RandomWords]:
    """The upper and lower 64 bits of a 128-bit product."""
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = np.uint64(b & 0xFFFFFFFF), np.uint64(b >> 32)
    low, middle = a_low * b_low, a_high * b_low
    cross = a_low * b_high + (low >> _HALF)
    middle = middle + (cross & _LOW)
    high = a_high * b_high + (cross >> _HALF) + (middle >> _HALF)
    return high, (middle << _HALF) | (low & _LOW)


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
        drawn = philox((seed, RESAMPLED), np.array(0), numbers, 0, 0)[:, 0]
        rows = multiply_high(drawn, self.histories.n_users)
        return _without_a_tenth(self.histories.take(rows.astype(np.int64)), numbers, seed)


def _without_a_tenth(histories: Histories, numbers: Int64, seed: int) -> Histories:
    """For each entry 16 bits of the words of its owner, who has a draw for each 16 entries."""
    lengths = np.diff(histories.indptr)
    draws = -(-lengths // PIECES)
    first = np.cumsum(draws) - draws
    owners, entries = np.repeat(numbers, draws), histories.users_of_entries()
    nth = 1 + np.arange(len(owners)) - np.repeat(first, draws)
    random_words = philox((seed, RESAMPLED), nth, owners, 0, 0)
    pieces = random_words.astype("<u8").view("<u2").ravel()
    place = np.arange(histories.n_interactions) - histories.indptr[entries]
    kept = pieces[first[entries] * PIECES + place] >= DROPPED
    left = np.bincount(entries[kept], minlength=len(numbers))
    return Histories(
        np.concatenate([[0], np.cumsum(left)]).astype(np.int64),
        histories.indices[kept],
        histories.n_items,
    )


@dataclass(frozen=True)
class LeaveOut:
    """What people are tested on, as a rule."""

    split: SplitRule = "random"
    negatives: int = OTHERS
    """0 ranks the test item among the whole catalogue."""
    seed: int = 0
    tags: bool = True
    """Recommend with the tags of the data, where it has any."""
    time: bool | None = None
    """Recommend by the order of a history; None: unless a random item is asked for."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    candidates: Candidates
    side_information: SideInformation

    @classmethod
    def of(cls, candidates: Candidates) -> LeftOut:
        """With devices that know nothing but the model."""
        return cls(
            candidates, SideInformation(make_empty_tags(candidates.split.train.n_items), None)
        )

    def some(self, begin: int, end: int) -> LeftOut:
        split, informed = self.candidates.split, self.side_information
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
        weights = None if informed.weights is None else informed.weights[entries]
        return LeftOut(
            Candidates(self.candidates.items[begin:end], some),
            SideInformation(informed.tags, weights),
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

    def resampled(self, people: int) -> Parts:
        """So many people made out of these, who report in their place."""
        raise SettingsError(
            f"{people:,} people can be made only out of histories that are all in memory, not out "
            "of shards: name the data that the shards were made from"
        )

    @abstractmethod
    def fingerprint(self) -> str:
        """Names the data and what people are tested on: a run is not continued on other data."""


class Whole(Parts):
    def __init__(self, part: Part):
        self._part = part
        self.n_users, self.n_items = part.histories.n_users, part.histories.n_items

    @classmethod
    def of(cls, data: Interactions, rule: LeaveOut) -> Whole:
        split = leave_one_out(data, rule.split, rule.seed)
        side_information = SideInformation.of(data, split, tags=rule.tags, time=rule.time)
        left_out = LeftOut(sample_candidates(split, rule.negatives, rule.seed), side_information)
        return cls(Part(People(split.train), left_out))

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
        table, times = left_out.side_information.tags.table, left_out.candidates.split.times
        tags = [table.indptr, table.indices] if left_out.side_information.tags.names else []
        ordered = [] if left_out.side_information.weights is None or times is None else [times]
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
        self.n_users, self.n_items = whole.n_users, whole.n_items

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
            SideInformation.of(data, split, tags=False, time=rule.time), tags=self._tags
        )
        candidates = sample_candidates(split, rule.negatives, rule.seed, first)
        return Part(People(split.train, first), LeftOut(candidates, side_information))

    def fingerprint(self) -> str:
        return self._shards.digest

    @cached_property
    def _tags(self) -> Tags:
        known = self._shards.tags if self._rule.tags else None
        return make_empty_tags(self.n_items) if known is None else build_tags(known.tolist())


def parts_of(data: Interactions | Shards, rule: LeaveOut) -> Parts:
    """In memory if the data is, else part by part."""
    return Stored(data, rule) if isinstance(data, Shards) else Whole.of(data, rule)
