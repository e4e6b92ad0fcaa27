"""Test cases of a replay: the next item that a person touches, in a later period."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Split
from sottovoce.data.streams import stream
from sottovoce.simulation.evaluation.ranking import (
    Candidates,
    Factors,
    rank_and_list,
    sample_candidates,
)
from sottovoce_lab.replay.timeline import Timeline

Int64 = NDArray[np.int64]
# Length of the lists of HR@10 and of the chart.
LIST_LENGTH = 10
# An item is new for this number of epochs after it arrives, unless it arrives in the first period.
MAX_NEW_ITEM_AGE = 10


@dataclass(frozen=True, eq=False)
class Cases:
    """People with a history before a period, and the item that each touched first in it."""

    period: int
    users: Int64
    """Number of each tested person."""
    candidates: Candidates
    """Histories at the end of the period before. Negatives are items that the person never touches,
    not even later."""
    age: Int64
    """Number of epochs for which the touched item of each case was in the catalogue before."""
    touched: Int64
    """Number of people who had touched the item of each case before this period."""
    last_counts: Int64
    """Number of people who touched each item of the catalogue in the period before."""

    def __len__(self) -> int:
        return len(self.age)

    @property
    def split(self) -> Split:
        """Histories before the period, and the touched items."""
        return self.candidates.split

    @property
    def whole_catalogue(self) -> Candidates:
        """The same cases, ranked among all items that a person had not touched before."""
        return sample_candidates(self.split, 0, 0)

    @cached_property
    def charts(self) -> NDArray[np.int32]:
        """The most touched items of the last period, without those that the person has, N x 10."""
        ones = np.ones((len(self), 1), np.float32)
        counts = Factors(ones, self.last_counts.astype(np.float32)[:, None])
        return rank_and_list(counts, self.split.train, length=LIST_LENGTH)[1]


def select_cases(
    timeline: Timeline,
    period: int,
    people: int,
    negatives: int,
    seed: int,
    *,
    only_new: bool = False,
) -> Cases:
    """Return the cases of at most `people` people, drawn by the seed.

    With `only_new`, each person's item is the first new item that they touched in the period.
    """
    part = 2 * period + only_new
    users, items = _find_first_items(
        timeline, period, people, stream(seed, "next", part), only_new=only_new
    )
    window = timeline.windows[period]
    ever, _ = timeline.collect_histories(users, timeline.n_periods, window)
    negatives_seed = int(stream(seed, "negs", part).integers(2**63))
    nothing_omitted = Split(ever, np.full(len(users), -1, np.int32), "latest", seed)
    drawn = sample_candidates(nothing_omitted, negatives, negatives_seed).items
    # People who have touched nearly everything have no negatives and cannot be tested.
    testable = np.flatnonzero(drawn[:, 0] >= 0)
    users, items = users[testable], items[testable]
    before, times = timeline.collect_histories(users, period - 1, window)
    split = Split(before, items - np.int32(window.start), "latest", seed, times)
    return Cases(
        period,
        users,
        Candidates(drawn[testable], split),
        period - timeline.arrival[items],
        timeline.counts[:period, items].sum(axis=0),
        timeline.counts[period - 1, window],
    )


def _find_first_items(
    timeline: Timeline, period: int, people: int, rng: np.random.Generator, *, only_new: bool
) -> tuple[Int64, NDArray[np.int32]]:
    """Return the tested users, ascending, and their items.

    If a person's first items have the same moment, one of them is drawn.
    """
    entries = np.flatnonzero(timeline.periods == period)
    # Items that have left the catalogue cannot be recommended.
    removed = timeline.windows[period].start
    entries = entries[timeline.histories.indices[entries] >= removed]
    if only_new:
        arrival = timeline.arrival[timeline.histories.indices[entries]]
        entries = entries[(arrival > 0) & (period - arrival < MAX_NEW_ITEM_AGE)]
    users = np.searchsorted(timeline.histories.indptr, entries, side="right") - 1
    has_history = timeline.joined[users] < period
    entries, users = entries[has_history], users[has_history]
    order = np.lexsort((rng.random(len(entries)), timeline.times[entries], users))
    tested, first = np.unique(users[order], return_index=True)
    chosen = np.sort(rng.permutation(len(tested))[:people])
    return tested[chosen], timeline.histories.indices[entries[order[first[chosen]]]]
