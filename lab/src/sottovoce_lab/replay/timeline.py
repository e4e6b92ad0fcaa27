"""A data set in the order of its days: people and items arrive, histories grow, tastes may change.

Periods have equal numbers of interactions, not equal lengths. With equal lengths, a service that
grows tenfold would have epochs of a few dozen people at first, while a live epoch waits for its
crowd. With equal numbers, a curve over epochs shows what the model learns, not how fast the service
grows. All interactions of one moment are in one period.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories
from sottovoce.core.tags import Tags, build_tags, make_empty_tags
from sottovoce.data import Interactions
from sottovoce.data.interactions import count_marked
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError

Int64 = NDArray[np.int64]
SECONDS_PER_DAY = 86_400
# Minimum number of periods: a first one without a test, and later ones with tests.
MIN_PERIODS = 3
# When tastes change, items exchange their identities within groups of this many items of similar
# popularity.
ITEMS_PER_SWITCH_GROUP = 20


@dataclass(frozen=True, eq=False)
class Timeline:
    """Interactions in periods, with items numbered in the order in which they arrive.

    An item arrives in the period of its first interaction, and a person joins in the period of
    their first interaction. The catalogue of a period, its window, has consecutive numbers.
    """

    data: Interactions
    histories: Histories
    times: Int64
    """Times of the entries of the histories."""
    periods: Int64
    """Periods of the entries of the histories, from 0."""
    rows: Int64
    """Number of each item in the data."""
    n_periods: int
    max_age: float = inf
    """Days for which an item stays in the catalogue."""

    @classmethod
    def from_data(cls, data: Interactions, n_periods: int, max_age: float = inf) -> Timeline:
        """Cut a data set into periods.

        Args:
            data: The data, with timestamps.
            n_periods: Number of periods.
            max_age: Days for which an item stays in the catalogue.

        Raises:
            DataError: There are no timestamps, or fewer moments than periods.
            SettingsError: There are too few periods.
        """
        if data.timestamps is None:
            raise DataError(f"{data.name} has no timestamps, which a replay needs")
        if n_periods < MIN_PERIODS:
            raise SettingsError(f"a replay needs at least {MIN_PERIODS} periods, got {n_periods}")
        periods = _cut_into_periods(data.timestamps, n_periods, data.name)
        # Items that nobody touches get a period after the last one: they never arrive.
        arrival = np.full(data.histories.n_items, n_periods, np.int64)
        np.minimum.at(arrival, data.histories.indices, periods)
        # Number items by arrival, so that the items that have arrived by a period are the first.
        rows = np.argsort(arrival, kind="stable")
        number = np.empty(len(rows), np.int64)
        number[rows] = np.arange(len(rows))
        timeline = cls(data, data.histories, data.timestamps, periods, rows, n_periods, max_age)
        return _replace_items(timeline, number[data.histories.indices])

    @property
    def later(self) -> range:
        """Periods over which results are averaged: the second half, when the model has learnt."""
        return range(self.n_periods // 2 + 1, self.n_periods)

    @property
    def choosing(self) -> range:
        """Periods that settings are chosen on: the quarter of all periods before `later`."""
        return range(max(self.n_periods // 4, 1), self.n_periods // 2 + 1)

    @cached_property
    def catalogue_sizes(self) -> Int64:
        """Number of items that have arrived by the end of each period, removed ones included."""
        arrival = np.full(self.histories.n_items, self.n_periods, np.int64)
        np.minimum.at(arrival, self.histories.indices, self.periods)
        return np.searchsorted(arrival, np.arange(self.n_periods), side="right")

    @cached_property
    def arrival(self) -> Int64:
        """Period of each item that ever arrives, ascending."""
        sizes = self.catalogue_sizes
        return np.searchsorted(sizes, np.arange(sizes[-1]), side="right")

    @cached_property
    def windows(self) -> list[slice]:
        """The items that are in the catalogue of each period."""
        # The age of an item is counted from the beginning of the period in which it arrives. So
        # items leave the catalogue in the order of their numbers.
        begins = np.array([first for first, _ in self.span])
        min_begins = begins - self.max_age * SECONDS_PER_DAY
        removed = np.searchsorted(begins[self.arrival], min_begins, side="left")
        return [
            slice(*ends)
            for ends in zip(removed.tolist(), self.catalogue_sizes.tolist(), strict=True)
        ]

    @cached_property
    def joined(self) -> Int64:
        """Period of each person's first interaction; the number of periods if there is none."""
        first = np.full(self.histories.n_users, self.n_periods, np.int64)
        np.minimum.at(first, self.histories.users_of_entries(), self.periods)
        return first

    @cached_property
    def counts(self) -> Int64:
        """Number of people who touched each item in each period, periods x items."""
        n_items = self.histories.n_items
        cells = np.bincount(
            self.periods * n_items + self.histories.indices, minlength=self.n_periods * n_items
        )
        return cells.reshape(self.n_periods, n_items)

    @cached_property
    def span(self) -> list[tuple[int, int]]:
        """First and last moment of each period."""
        first = np.full(self.n_periods, self.times.max())
        last = np.full(self.n_periods, self.times.min())
        np.minimum.at(first, self.periods, self.times)
        np.maximum.at(last, self.periods, self.times)
        return list(zip(first.tolist(), last.tolist(), strict=True))

    def find_periods(self, times: Int64) -> Int64:
        """Return the periods of moments; all interactions of one moment are in one period."""
        return np.searchsorted([first for first, _ in self.span], times, side="right") - 1

    def build_tags(self, period: int) -> Tags:
        """Build the tags of a period's catalogue, as devices do for each new catalogue."""
        window = self.windows[period]
        if self.data.tags is None:
            return make_empty_tags(window.stop - window.start)
        return build_tags(self.data.tags[self.rows[window]].tolist())

    def collect_histories(self, users: Int64, until: int, window: slice) -> tuple[Histories, Int64]:
        """Return what these users have touched by the end of a period, and when.

        Args:
            users: Numbers of the users.
            until: The last period that counts.
            window: The items of the catalogue; all others are omitted. The first item of the window
                gets number 0.
        """
        all_histories = self.histories.take(users)
        own = self.list_entries(users)
        # Omit later interactions, and items that have left the catalogue or have not arrived.
        indices = all_histories.indices
        is_listed = (indices >= window.start) & (indices < window.stop)
        selected = (self.periods[own] <= until) & is_listed
        lengths = count_marked(all_histories, selected)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        numbers = indices[selected] - np.int32(window.start)
        histories = Histories(indptr, numbers, window.stop - window.start)
        return histories, self.times[own[selected]]

    def list_entries(self, users: Int64) -> Int64:
        """Return the indices of these users' entries in `histories`, one user after the other."""
        indptr = self.histories.indptr
        lengths = np.diff(indptr)[users]
        before = np.cumsum(lengths) - lengths
        places: Int64 = np.arange(lengths.sum()) + np.repeat(indptr[users] - before, lengths)
        return places

    def switch_tastes(self, period: int, seed: int) -> Timeline:
        """Return a timeline in which items change identities from this period on.

        A random permutation exchanges items that had similar popularity before.
        """
        if not 0 < period < self.n_periods:
            raise SettingsError(
                f"the period of a switch must be from 1 to {self.n_periods - 1}, got {period}"
            )
        other = np.arange(self.histories.n_items)
        n_arrived = int(self.catalogue_sizes[period - 1])
        by_popularity = np.argsort(-self.counts[:period, :n_arrived].sum(axis=0), kind="stable")
        rng = stream(seed, "swap")
        for start in range(0, n_arrived, ITEMS_PER_SWITCH_GROUP):
            group = by_popularity[start : start + ITEMS_PER_SWITCH_GROUP]
            # Exchange items within a group of similar popularity. Otherwise a model could recover
            # from the switch by learning popularity only.
            other[group] = rng.permutation(group)
        indices = self.histories.indices
        return _replace_items(self, np.where(self.periods >= period, other[indices], indices))


def _cut_into_periods(times: Int64, n_periods: int, name: str) -> Int64:
    moments, which, counts = np.unique(times, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    # The number of interactions before a moment decides its period. So interactions of one moment
    # are never in two periods.
    of_moments = before * n_periods // max(len(times), 1)
    if len(np.unique(of_moments)) < n_periods:
        raise DataError(
            f"{name} cannot be cut into {n_periods} periods with similar numbers of interactions: "
            f"it has {len(moments):,} moments; ask for fewer"
        )
    return np.asarray(of_moments[which.ravel()], np.int64)


def _replace_items(timeline: Timeline, items: Int64) -> Timeline:
    """Return a timeline with other items in its entries, sorted by user and item.

    If a user now touches an item twice, only the first time counts.
    """
    histories = timeline.histories
    cells = histories.users_of_entries() * histories.n_items + items
    # Sort by user, item and period, so that the first entry of each (user, item) is the earliest.
    order = np.argsort(cells * timeline.n_periods + timeline.periods)
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.diff(cells[order]) != 0
    selected = order[is_first]
    lengths = np.bincount(cells[selected] // histories.n_items, minlength=histories.n_users)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return replace(
        timeline,
        histories=Histories(indptr, items[selected].astype(np.int32), histories.n_items),
        times=timeline.times[selected],
        periods=timeline.periods[selected],
    )
