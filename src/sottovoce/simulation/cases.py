"""What a replay is tested on: the next thing that somebody touches, in a period to come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.data import Split
from sottovoce.data.streams import stream
from sottovoce.evaluation import Candidates, sample_candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.simulation.timeline import Timeline

    Int64 = NDArray[np.int64]


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
