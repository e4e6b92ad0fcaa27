"""The people whose devices are simulated: those of a data set, or any number resampled from them.

A resampled person has the history of a person of the data set, drawn with replacement, without
about a tenth of its items. Both the draw and the dropped items are functions of the seed and the
resampled person's number, so nothing is stored for each resampled person.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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

# An item of a resampled person's history is dropped if its 16 random bits are below this number,
# which is a tenth of 2^16.
DROPPED_OF_65536 = 6554
# Each item needs 16 bits, and a draw has four words of 64 bits: enough for this number of items.
ITEMS_PER_DRAW = 4 * WORDS_PER_DRAW


@dataclass(frozen=True, eq=False)
class People:
    """Simulated people. Each has a number, which determines the random words of their reports."""

    histories: Histories
    first: int = 0
    """The number of the first person. It is above 0 for a shard that is not the first."""
    resampled: int | None = None
    """How many people are resampled from the histories. None: each history is one person's own."""
    chosen: Int64 | None = None
    """The number of the person with each history. None: consecutive numbers from `first` on."""

    def __post_init__(self) -> None:
        if self.chosen is not None and (
            self.resampled is not None or len(self.chosen) != self.histories.n_users
        ):
            raise SettingsError(
                "chosen must have one number for each history, and cannot be used with resampled"
            )
        if self.resampled is not None and not (self.resampled >= 1 and self.histories.n_users):
            raise SettingsError("resampled must be at least 1, and there must be a history to draw")

    def __len__(self) -> int:
        return self.histories.n_users if self.resampled is None else self.resampled

    def get_numbers(self, places: Int64) -> Int64:
        """Return the numbers of the people at these places of this group."""
        return self.first + places if self.chosen is None else self.chosen[places]

    def slice(self, begin: int, end: int) -> People:
        """Return views of the people at places `begin` to `end - 1`, who keep their numbers."""
        if self.resampled is not None:
            return People(self.histories, self.first + begin, end - begin)
        if self.chosen is not None:
            return People(self.histories.slice(begin, end), 0, None, self.chosen[begin:end])
        return People(self.histories.slice(begin, end), self.first + begin)

    def take(self, places: Int64, seed: int) -> Histories:
        """Return the histories of the people at these places."""
        if self.resampled is None:
            return self.histories.take(places)
        numbers = self.get_numbers(places)
        # Draw 0 chooses the history. The later draws choose which of its items are dropped.
        random_words = philox((seed, RESAMPLING_PURPOSE), np.array(0), numbers, 0, 0)[:, 0]
        rows = multiply_high(random_words, self.histories.n_users)
        return _drop_a_tenth(self.histories.take(rows.astype(np.int64)), numbers, seed)


def _drop_a_tenth(histories: Histories, numbers: Int64, seed: int) -> Histories:
    """Return the histories without about a tenth of their items.

    Args:
        histories: The histories that were drawn for the resampled people.
        numbers: The number of the resampled person of each history.
        seed: The seed of the training.
    """
    # Each history needs one draw for every `ITEMS_PER_DRAW` items.
    n_draws = -(-np.diff(histories.indptr) // ITEMS_PER_DRAW)
    first_draws = np.cumsum(n_draws) - n_draws
    owners, users = np.repeat(numbers, n_draws), histories.users_of_entries()
    draws = 1 + np.arange(len(owners)) - np.repeat(first_draws, n_draws)
    random_words = philox((seed, RESAMPLING_PURPOSE), draws, owners, 0, 0)
    # The words are little-endian on any machine, so that their 16-bit pieces have the same order.
    pieces = random_words.astype("<u8").view("<u2").ravel()
    places = np.arange(histories.n_interactions) - histories.indptr[users]
    # The piece of an item is given by its place within its own history.
    remains = pieces[first_draws[users] * ITEMS_PER_DRAW + places] >= DROPPED_OF_65536
    lengths = np.bincount(users[remains], minlength=len(numbers))
    return Histories(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        histories.indices[remains],
        histories.n_items,
    )


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the people, in memory."""

    people: People
    holdout: Holdout | None = None
    """The test items of the people of the data set; None: nobody is tested."""

    @property
    def histories(self) -> Histories:
        """The histories of the data set, even if people are resampled from them."""
        return self.people.histories


class Parts(ABC):
    """All people, divided into parts in the order of their numbers.

    A person's reports, test item and negatives are functions of the person's number. So any
    division gives the same reports and ranks, and results of the parts can be added up.
    """

    n_users: int
    """The number of people in the data set."""
    n_items: int

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of parts."""

    @abstractmethod
    def __getitem__(self, index: int) -> Part: ...

    def __iter__(self) -> Iterator[Part]:
        return (self[index] for index in range(len(self)))

    def resample(self, people: int) -> Parts:
        """Return parts with this number of resampled people, who report in place of these people.

        Raises:
            SettingsError: The histories are in shards.
        """
        raise SettingsError(
            f"{people:,} people can be made only out of histories that are all in memory, not out "
            "of shards: name the data that the shards were made from"
        )

    @abstractmethod
    def compute_fingerprint(self) -> str:
        """Return a hash of data and test items, which must be the same to continue a checkpoint."""


class WholeParts(Parts):
    """All people in one part."""

    def __init__(self, part: Part):
        self._part = part
        self.n_users, self.n_items = part.histories.n_users, part.histories.n_items

    @classmethod
    def from_data(cls, data: Interactions, rule: HoldoutRule) -> WholeParts:
        """Return the people of the data, with a test item of each held out by the rule."""
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

    def drop_resampling(self) -> WholeParts:
        """Return the people of the data set, who then report themselves."""
        return WholeParts(replace(self._part, people=replace(self._part.people, resampled=None)))

    def compute_fingerprint(self) -> str:
        holdout = self._part.holdout
        if holdout is None:
            return compute_fingerprint(self._part.histories)
        # Tags and times change the metrics, so they are part of the hash if devices use them.
        tags, times = holdout.side_information.tags, holdout.candidates.split.times
        arrays: list[NDArray[Any]] = [tags.table.indptr, tags.table.indices] if tags.names else []
        if holdout.side_information.weights is not None and times is not None:
            arrays.append(times)
        return compute_fingerprint(self._part.histories, *arrays)

    def cut(self, pieces: int) -> Parts:
        """Divide the people who report into this number of parts, which are views."""
        n_people = len(self._part.people)
        # There are never more parts than people: an empty part would have nothing to compute.
        bounds = np.linspace(0, n_people, min(pieces, max(n_people, 1)) + 1).astype(np.int64)
        return CutParts(self, bounds.tolist())


class CutParts(Parts):
    """Parts that are views of one whole."""

    def __init__(self, whole: WholeParts, bounds: list[int]):
        self._whole = whole
        self._bounds = bounds
        self.n_users, self.n_items = whole.n_users, whole.n_items

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int) -> Part:
        part, begin, end = self._whole[0], *self._bounds[index : index + 2]
        # Resampled people have no test item. To test the people of the data set, an engine uses the
        # parts that `drop_resampling` returns.
        if part.people.resampled is not None:
            return Part(part.people.slice(begin, end))
        # The people of the data set are tested in the part in which they report.
        holdout = None if part.holdout is None else part.holdout.slice(begin, end)
        return Part(part.people.slice(begin, end), holdout)

    def resample(self, people: int) -> Parts:
        return self._whole.resample(people).cut(len(self))

    def compute_fingerprint(self) -> str:
        return self._whole.compute_fingerprint()


class StoredParts(Parts):
    """A part for each shard in a folder, which is read when it is needed and then dropped."""

    def __init__(self, shards: Shards, rule: HoldoutRule):
        self._shards = shards
        self._rule = rule
        self.n_users, self.n_items = shards.n_users, shards.n_items
        # The place of each person's test item is all that is kept in memory for every person.
        n_choices = [count_choices(data, rule.split) for data in shards]
        self._places = draw_choices(np.concatenate(n_choices), rule.seed).astype(np.int32)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> Part:
        data, rule, first = self._shards[index], self._rule, self._shards.first(index)
        places = self._places[first : first + data.n_users].astype(np.int64)
        split = take_out(data, places, rule.split, rule.seed)
        side_information = replace(
            # Tags belong to the catalogue and not to a shard, so they are built only once.
            SideInformation.from_split(data, split, tags=False, time=rule.time),
            tags=self._tags,
        )
        candidates = sample_candidates(split, rule.negatives, rule.seed, first)
        return Part(People(split.train, first), Holdout(candidates, side_information))

    def compute_fingerprint(self) -> str:
        return self._shards.digest

    @cached_property
    def _tags(self) -> Tags:
        tags = self._shards.tags if self._rule.tags else None
        return make_empty_tags(self.n_items) if tags is None else build_tags(tags.tolist())


def make_parts(data: Interactions | Shards, rule: HoldoutRule) -> Parts:
    """Return one part if the data is in memory, otherwise a part for each shard."""
    return StoredParts(data, rule) if isinstance(data, Shards) else WholeParts.from_data(data, rule)
