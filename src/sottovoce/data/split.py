"""What is trained on and what is tested: one item of everybody left out.

The paper (section 4.2) tests on a random interaction, and on the latest one when it compares with
DPLCF. Both let a model learn from what others touched after it. A split by date does not: training
ends there.

Random numbers are streams of `sottovoce.data.streams` from which nothing else is drawn, so a split
never depends on what else was drawn with the same seed.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.model import Histories
from sottovoce.data.interactions import Bools, Interactions, Times, row_sums
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError

SplitRule = Literal["random", "latest", "date"]
SPLIT_RULES: tuple[SplitRule, ...] = get_args(SplitRule)
BEFORE = 0.9
"""The part of all interactions that lies before the date of a split by date, at most."""


@dataclass(frozen=True, eq=False)
class Split:
    """What people are trained on, and the item of each that is left out."""

    train: Histories
    test: NDArray[np.int32]
    """The item left out; -1 for a user who has none, as one with a single item."""
    rule: SplitRule
    seed: int
    times: Times = None
    """When each entry of `train` was touched, where the data knows."""
    all_but_test: Histories | None = None
    """What they touch in all besides the test item, where that is more than `train`."""

    @property
    def not_competing(self) -> Histories:
        """What each touches besides the test item: it is never ranked against these."""
        return self.train if self.all_but_test is None else self.all_but_test

    @property
    def left_out(self) -> Histories:
        """The test items, a row for each user: none or one."""
        tested = self.test >= 0
        indptr = np.concatenate([[0], np.cumsum(tested)])
        return Histories.from_arrays(indptr, self.test[tested], self.train.n_items)


def leave_one_out(data: Interactions, rule: SplitRule = "random", seed: int = 0) -> Split:
    """Take one item out of every history that has at least two.

    `train` and `left_out` have no ids: their people and items are numbers, the places in
    `data.user_ids` and `data.item_ids`, also for a model that is fitted to `train`.

    Args:
        data: What to split.
        rule: `random` takes any item with equal probability, `latest` the one with the largest
            timestamp (among equally late ones any, with equal probability). `date` takes the first
            after one date that is the same for everybody (`first_after`).
        seed: Of what is drawn.
    """
    if rule not in SPLIT_RULES:
        raise SettingsError(f"the split must be one of {', '.join(SPLIT_RULES)}, found {rule!r}")
    if rule == "date":
        return first_after(data, seed)
    return take_out(data, drawn(choices(data, rule), seed), rule, seed)


def choices(data: Interactions, rule: SplitRule) -> NDArray[np.int64]:
    """Among how many entries of each history one is drawn; 0 where none is taken."""
    if rule == "date":
        raise SettingsError("a split by date needs everybody in memory, not in shards")
    histories = data.histories
    lengths = np.diff(histories.indptr)
    if rule == "random":
        return np.where(lengths >= 2, lengths, 0)
    return np.where(lengths >= 2, row_sums(histories, _latest(data)), 0)


def drawn(choices: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Which of so many, for everybody at once: the stream goes from person to person."""
    place = np.zeros(len(choices), np.int64)
    able = choices > 0
    place[able] = stream(seed, "split").integers(0, choices[able])
    return place


def take_out(data: Interactions, places: NDArray[np.int64], rule: SplitRule, seed: int) -> Split:
    """Each history without the entry that was drawn of it, for some or for all people."""
    histories = data.histories
    able = np.flatnonzero(np.diff(histories.indptr) >= 2)
    chosen = histories.indptr[able] + places[able]
    if rule == "latest":
        last = np.flatnonzero(_latest(data))
        chosen = last[np.searchsorted(last, histories.indptr[able]) + places[able]]
    test = np.full(histories.n_users, -1, np.int32)
    test[able] = histories.indices[chosen]
    kept = np.ones(histories.n_interactions, bool)
    kept[chosen] = False
    times = None if data.timestamps is None else data.timestamps[kept]
    return Split(_without(histories, able, kept), test, rule, seed, times)


def first_after(data: Interactions, seed: int) -> Split:
    """Train on what lies before a date, test on what each person touched first from then on.

    The date is that of the interaction at `BEFORE` of all, in their order; whatever is as late is
    after it. Tested is who touched something before and something after; of several first things
    any, with equal probability.
    """
    histories, times = data.histories, _times(data)
    before = times < np.quantile(times, BEFORE, method="higher") if len(times) else times < 0
    had = row_sums(histories, before)
    if not had.any():
        raise DataError(
            f"{data.name}: something must lie before the date of a split: all of it is as late"
        )
    users, after = histories.users_of_entries(), np.flatnonzero(~before)
    ties = stream(seed, "split").random(len(after))
    order = after[np.lexsort((ties, times[after], users[after]))]
    who, first = np.unique(users[order], return_index=True)
    able = had[who] > 0
    chosen = order[first[able]]
    test = np.full(histories.n_users, -1, np.int32)
    test[who[able]] = histories.indices[chosen]
    kept = np.ones(histories.n_interactions, bool)
    kept[chosen] = False
    rest = _without(histories, who[able], kept)
    return Split(marked(histories, before), test, "date", seed, times[before], rest)


def _times(data: Interactions) -> NDArray[np.int64]:
    if data.timestamps is None:
        raise DataError(f"{data.name} has no timestamps: use the random split")
    return data.timestamps


def _latest(data: Interactions) -> Bools:
    """Which entries are the latest of their history, or as late as it."""
    times = _times(data)
    indptr = data.histories.indptr
    filled = np.flatnonzero(np.diff(indptr))
    last = np.zeros(data.histories.n_users, np.int64)
    if len(filled):
        last[filled] = np.maximum.reduceat(times, indptr[filled])
    return np.asarray(times == np.repeat(last, np.diff(indptr)))


def _without(histories: Histories, users: NDArray[np.intp], kept: Bools) -> Histories:
    """The histories less one entry for each of these users."""
    removed = np.zeros(histories.n_users + 1, np.int64)
    removed[users + 1] = 1
    indptr = histories.indptr - np.cumsum(removed)
    return Histories(indptr, histories.indices[kept], histories.n_items)


def marked(histories: Histories, entries: Bools) -> Histories:
    """The histories with these entries alone."""
    ends = np.cumsum(row_sums(histories, entries))
    indptr = np.concatenate([[0], ends]).astype(np.int64)
    return Histories(indptr, histories.indices[entries], histories.n_items)
