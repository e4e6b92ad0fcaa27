"""A data set in the order of its days: people and items arrive, histories grow, tastes may move.

Periods have equal numbers of interactions, not equal lengths. A live epoch waits for its crowd, and
a service that grows tenfold would have epochs of a few dozen people at first; so a curve over
epochs shows what is learnt, not how fast the service grows. What happened at one moment is in one
period.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.tags import Tags, build_tags, make_empty_tags
from sottovoce.data import Interactions, Split
from sottovoce.data.interactions import count_marked
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError
from sottovoce.simulation.evaluation.ranking import Candidates, sample_candidates

Int64 = NDArray[np.int64]
FEWEST_PERIODS = 3
ALIKE = 20
"""Items of like popularity among which a switch exchanges identities."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Items are numbered in the order in which they arrive, so a catalogue is a first part of them.

    An item arrives in the period of its first interaction, a person in that of theirs.
    """

    data: Interactions
    histories: Histories
    times: Int64
    """Of the entries of the histories."""
    periods: Int64
    """Of the same, from 0."""
    rows: Int64
    """The data's number of each item."""
    n_periods: int

    @classmethod
    def of(cls, data: Interactions, n_periods: int) -> Timeline:
        if data.timestamps is None:
            raise DataError(f"{data.name} has no timestamps, which a replay needs")
        if n_periods < FEWEST_PERIODS:
            raise SettingsError(
                f"a replay needs at least {FEWEST_PERIODS} periods, got {n_periods}"
            )
        periods = _periods(data.timestamps, n_periods, data.name)
        arrival = np.full(data.histories.n_items, n_periods, np.int64)
        np.minimum.at(arrival, data.histories.indices, periods)
        rows = np.argsort(arrival, kind="stable")
        number = np.empty(len(rows), np.int64)
        number[rows] = np.arange(len(rows))
        items = number[data.histories.indices]
        return _ordered(cls(data, data.histories, data.timestamps, periods, rows, n_periods), items)

    @property
    def later(self) -> range:
        """The periods that results are of: the second half, when a model is no longer young."""
        return range(self.n_periods // 2 + 1, self.n_periods)

    @cached_property
    def catalogue_sizes(self) -> Int64:
        """By period: how many items have arrived by its end."""
        arrival = np.full(self.histories.n_items, self.n_periods, np.int64)
        np.minimum.at(arrival, self.histories.indices, self.periods)
        return np.searchsorted(arrival, np.arange(self.n_periods), side="right")

    @cached_property
    def arrival(self) -> Int64:
        """The period of each item that ever arrives, ascending."""
        sizes = self.catalogue_sizes
        return np.searchsorted(sizes, np.arange(sizes[-1]), side="right")

    @cached_property
    def joined(self) -> Int64:
        """The period of each person's first interaction; beyond the last without any."""
        first = np.full(self.histories.n_users, self.n_periods, np.int64)
        np.minimum.at(first, self.histories.users_of_entries(), self.periods)
        return first

    @cached_property
    def counts(self) -> Int64:
        """By period and item: how many people touched it then."""
        n_items = self.histories.n_items
        cells = np.bincount(
            self.periods * n_items + self.histories.indices, minlength=self.n_periods * n_items
        )
        return cells.reshape(self.n_periods, n_items)

    @cached_property
    def span(self) -> list[tuple[int, int]]:
        """By period: the first and the last moment."""
        first = np.full(self.n_periods, self.times.max())
        last = np.full(self.n_periods, self.times.min())
        np.minimum.at(first, self.periods, self.times)
        np.maximum.at(last, self.periods, self.times)
        return list(zip(first.tolist(), last.tolist(), strict=True))

    def tags(self, period: int) -> Tags:
        """Of the catalogue of a period: devices make the columns anew for every version."""
        size = int(self.catalogue_sizes[period])
        if self.data.tags is None:
            return make_empty_tags(size)
        return build_tags(self.data.tags[self.rows[:size]].tolist())

    def so_far(self, users: Int64, until: int, n_items: int) -> tuple[Histories, Int64]:
        """What these had touched by the end of a period, in a catalogue of so many, and when."""
        everything = self.histories.take(users)
        own = self.entries(users)
        kept = (self.periods[own] <= until) & (everything.indices < n_items)
        lengths = count_marked(everything, kept)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Histories(indptr, everything.indices[kept], n_items), self.times[own[kept]]

    def entries(self, users: Int64) -> Int64:
        """The places of these users' interactions, one user after the other."""
        indptr = self.histories.indptr
        lengths = np.diff(indptr)[users]
        before = np.cumsum(lengths) - lengths
        places: Int64 = np.arange(lengths.sum()) + np.repeat(indptr[users] - before, lengths)
        return places

    def switched(self, at: int, seed: int) -> Timeline:
        """From a period on every item stands for another one that was about as popular by then.

        A public permutation by the seed, among the items that had arrived. What somebody touches
        then although they had touched it before is nothing new, and is left out.
        """
        if not 0 < at < self.n_periods:
            raise SettingsError(
                f"the period of a switch must be from 1 to {self.n_periods - 1}, got {at}"
            )
        other = np.arange(self.histories.n_items)
        there = int(self.catalogue_sizes[at - 1])
        liked = np.argsort(-self.counts[:at, :there].sum(axis=0), kind="stable")
        draw = stream(seed, "swap")
        for start in range(0, there, ALIKE):
            some = liked[start : start + ALIKE]
            other[some] = draw.permutation(some)
        items = np.where(self.periods >= at, other[self.histories.indices], self.histories.indices)
        return _ordered(self, items)


def _periods(times: Int64, n_periods: int, name: str) -> Int64:
    moments, which, counts = np.unique(times, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    of_moments = before * n_periods // max(len(times), 1)
    if len(np.unique(of_moments)) < n_periods:
        raise DataError(
            f"{name} cannot be cut into {n_periods} periods of like numbers of interactions: it "
            f"has {len(moments):,} moments; ask for fewer"
        )
    return np.asarray(of_moments[which.ravel()], np.int64)


def _ordered(timeline: Timeline, items: Int64) -> Timeline:
    """With other items in the entries: ascending by user, and only the first of a repeat."""
    histories = timeline.histories
    cells = histories.users_of_entries() * histories.n_items + items
    order = np.argsort(cells * timeline.n_periods + timeline.periods)
    first = np.ones(len(order), bool)
    first[1:] = np.diff(cells[order]) != 0
    kept = order[first]
    lengths = np.bincount(cells[kept] // histories.n_items, minlength=histories.n_users)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return replace(
        timeline,
        histories=Histories(indptr, items[kept].astype(np.int32), histories.n_items),
        times=timeline.times[kept],
        periods=timeline.periods[kept],
    )


# What a replay is tested on: the next thing that somebody touches, in a period to come.


YOUNG = 10
"""Epochs in which an item that arrived after the first period counts as new."""


@dataclass(frozen=True, eq=False)
class Cases:
    """Of one period: some people with a history before it, and what each touched in it first."""

    period: int
    candidates: Candidates
    """Histories are those of the end of the period before; nobody ever touched their negatives."""
    age: Int64
    """Of each item that was touched: in how many epochs it was in the catalogue."""
    touched: Int64
    """Of the same: by how many people before this period."""

    def __len__(self) -> int:
        return len(self.age)


def cases_of(
    timeline: Timeline, period: int, people: int, negatives: int, seed: int, *, young: bool = False
) -> Cases:
    """At most so many people, drawn by the seed; `young`: what they touched first of new items."""
    part = 2 * period + young
    users, items = _firsts(timeline, period, people, stream(seed, "next", part), young=young)
    size = int(timeline.catalogue_sizes[period])
    ever, _ = timeline.so_far(users, timeline.n_periods, size)
    draw = int(stream(seed, "negs", part).integers(2**63))
    nothing_left_out = Split(ever, np.full(len(users), -1, np.int32), "latest", seed)
    drawn = sample_candidates(nothing_left_out, negatives, draw).items
    able = np.flatnonzero(drawn[:, 0] >= 0)
    users, items = users[able], items[able]
    before, times = timeline.so_far(users, period - 1, size)
    split = Split(before, items, "latest", seed, times)
    return Cases(
        period,
        Candidates(drawn[able], split),
        period - timeline.arrival[items],
        timeline.counts[:period, items].sum(axis=0),
    )


def _firsts(
    timeline: Timeline, period: int, people: int, draw: np.random.Generator, *, young: bool
) -> tuple[Int64, NDArray[np.int32]]:
    """Who is tested, ascending, and on what: of several things of one moment any one."""
    then = np.flatnonzero(timeline.periods == period)
    if young:
        arrival = timeline.arrival[timeline.histories.indices[then]]
        then = then[(arrival > 0) & (period - arrival < YOUNG)]
    users = np.searchsorted(timeline.histories.indptr, then, side="right") - 1
    had = timeline.joined[users] < period
    then, users = then[had], users[had]
    order = np.lexsort((draw.random(len(then)), timeline.times[then], users))
    who, first = np.unique(users[order], return_index=True)
    chosen = np.sort(draw.permutation(len(who))[:people])
    return who[chosen], timeline.histories.indices[then[order[first[chosen]]]]
