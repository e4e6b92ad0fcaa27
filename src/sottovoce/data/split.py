"""Splits into training and test that leave one item of every user out.

The paper (section 4.2) tests on a random interaction of each user, and on the latest one when it
compares with DPLCF. In both cases a model may learn from interactions of other users that came
later than the test item. A split by date prevents this, because training ends on that date.

Random numbers come from a stream of its own (`sottovoce.data.streams`), so a split does not depend
on other draws with the same seed.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.histories import Histories
from sottovoce.data.interactions import Bools, Interactions, Times, count_marked
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError

SplitRule = Literal["random", "latest", "date"]
SPLIT_RULES: tuple[SplitRule, ...] = get_args(SplitRule)
# At most this fraction of the interactions lies before the date of a split by date.
MAX_FRACTION_BEFORE = 0.9


@dataclass(frozen=True, eq=False)
class Split:
    """Histories for training, and the test item of each user, which was taken out of them."""

    train: Histories
    test: NDArray[np.int32]
    """Test item of each user, or -1 for a user without one, such as a user with a single item."""
    rule: SplitRule
    """How the test items were chosen: see `leave_one_out`."""
    seed: int
    """Seed of the random draws."""
    times: Times = None
    """Timestamp of each entry of `train`, if the data has timestamps."""
    all_but_test: Histories | None = None
    """The whole histories without the test items, or None if `train` is the same."""

    @property
    def excluded_from_ranking(self) -> Histories:
        """All touched items except the test item. Lists that rank the test item leave them out."""
        return self.train if self.all_but_test is None else self.all_but_test

    @property
    def left_out(self) -> Histories:
        """The test items as histories, in which each user has one item or none."""
        tested = self.test >= 0
        indptr = np.concatenate([[0], np.cumsum(tested)])
        return Histories.from_arrays(indptr, self.test[tested], self.train.n_items)


def leave_one_out(data: Interactions, rule: SplitRule = "random", seed: int = 0) -> Split:
    """Take one item out of every history that has at least two.

    The result has no ids. Its users and items are numbers, namely positions in `data.user_ids` and
    `data.item_ids`. The same holds for a model that is fitted to `train`.

    Args:
        data: The data set to split.
        rule: `random` takes a uniformly random item. `latest` takes the item with the largest
            timestamp, or a random one if several items have it. `date` takes each user's first
            item from a certain date on, which is the same for all users; training ends before it.
        seed: Seed of the random draws.

    Raises:
        DataError: The rule needs timestamps and the data has none, or no interaction is before the
            date.
        SettingsError: The rule is unknown.
    """
    if rule not in SPLIT_RULES:
        raise SettingsError(f"the split must be one of {', '.join(SPLIT_RULES)}, not {rule!r}")
    if rule == "date":
        return split_by_date(data, seed)
    return take_out(data, draw_choices(count_choices(data, rule), seed), rule, seed)


def count_choices(data: Interactions, rule: SplitRule) -> NDArray[np.int64]:
    """Return how many entries of each history the test item is drawn from; 0 means no test item."""
    if rule == "date":
        raise SettingsError("a split by date needs all users in memory, not in shards")
    histories = data.histories
    lengths = np.diff(histories.indptr)
    if rule == "random":
        return np.where(lengths >= 2, lengths, 0)
    return np.where(lengths >= 2, count_marked(histories, _mark_latest(data)), 0)


def draw_choices(counts: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Draw one of the choices of each user, as an index from 0.

    Args:
        counts: Number of choices of each user. It must have all users of the data set, because all
            draws come from one random stream.
        seed: Seed of the split.
    """
    picks = np.zeros(len(counts), np.int64)
    has_choice = counts > 0
    picks[has_choice] = stream(seed, "split").integers(0, counts[has_choice])
    return picks


def take_out(data: Interactions, picks: NDArray[np.int64], rule: SplitRule, seed: int) -> Split:
    """Take the drawn entry out of each history.

    Args:
        data: Some or all users of a data set.
        picks: The result of `draw_choices` for these users.
        rule: `random` or `latest`.
        seed: Seed of the split.
    """
    histories = data.histories
    # Users with a single item are trained on, and not tested.
    users = np.flatnonzero(np.diff(histories.indptr) >= 2)
    entries = histories.indptr[users] + picks[users]
    if rule == "latest":
        # For this rule, a pick is an index into the latest entries of a history only.
        latest = np.flatnonzero(_mark_latest(data))
        entries = latest[np.searchsorted(latest, histories.indptr[users]) + picks[users]]
    test = np.full(histories.n_users, -1, np.int32)
    test[users] = histories.indices[entries]
    in_train = np.ones(histories.n_interactions, bool)
    in_train[entries] = False
    times = None if data.timestamps is None else data.timestamps[in_train]
    return Split(_remove_entries(histories, users, in_train), test, rule, seed, times)


def split_by_date(data: Interactions, seed: int) -> Split:
    """Train on the interactions before a date, and test on each user's first one from then on.

    The date is the timestamp at the quantile `MAX_FRACTION_BEFORE`. Only users with interactions
    both before the date and from the date on are tested. If several of a user's interactions are
    the first ones, the test item is drawn uniformly among them.

    Args:
        data: The data set to split.
        seed: Seed of the random draws.
    """
    histories, times = data.histories, _get_times(data)
    before = _mark_before(data, None)
    n_before = count_marked(histories, before)
    users, after = histories.users_of_entries(), np.flatnonzero(~before)
    # Order by user, then time, then a random number, and take the first entry of each user.
    ties = stream(seed, "split").random(len(after))
    order = after[np.lexsort((ties, times[after], users[after]))]
    late_users, first = np.unique(users[order], return_index=True)
    is_tested = n_before[late_users] > 0
    tested_users, entries = late_users[is_tested], order[first[is_tested]]
    test = np.full(histories.n_users, -1, np.int32)
    test[tested_users] = histories.indices[entries]
    not_test = np.ones(histories.n_interactions, bool)
    not_test[entries] = False
    all_but_test = _remove_entries(histories, tested_users, not_test)
    train = select_entries(histories, before)
    return Split(train, test, "date", seed, times[before], all_but_test)


def split_by_time(
    data: Interactions, since: float | None = None
) -> tuple[Interactions, Interactions]:
    """Return the interactions before a moment, and the interactions from then on.

    Both parts have the same users and items. The second part has no interactions of users who have
    none in the first, because a model knows nothing about them.

    Args:
        data: The data set to split.
        since: The moment, in the unit of the timestamps. None means the moment before which nine
            tenths of all interactions lie.

    Raises:
        DataError: The data has no timestamps, or no interactions before the moment.
    """
    before, times, histories = _mark_before(data, since), _get_times(data), data.histories
    is_known = count_marked(histories, before) > 0
    after = ~before & is_known[histories.users_of_entries()]
    train, test = (
        replace(data, histories=select_entries(histories, entries), timestamps=times[entries])
        for entries in (before, after)
    )
    return train, test


def _mark_before(data: Interactions, since: float | None) -> Bools:
    """Mark the interactions before a moment; None means the date of a split by date."""
    times = _get_times(data)
    if since is None:
        since = np.quantile(times, MAX_FRACTION_BEFORE, method="higher") if len(times) else 0
    before = np.asarray(times < since)
    if not before.any():
        raise DataError(
            f"{data.name}: a split by time must have interactions before the moment {since}, and "
            "has none; name a later one"
        )
    return before


def _get_times(data: Interactions) -> NDArray[np.int64]:
    if data.timestamps is None:
        raise DataError(f"{data.name} has no timestamps: use the random split")
    return data.timestamps


def _mark_latest(data: Interactions) -> Bools:
    """Mark the entries with the largest timestamp of their history."""
    times = _get_times(data)
    indptr = data.histories.indptr
    filled = np.flatnonzero(np.diff(indptr))
    # Empty histories are left out, because reduceat() returns wrong values for them.
    latest = np.zeros(data.histories.n_users, np.int64)
    if len(filled):
        latest[filled] = np.maximum.reduceat(times, indptr[filled])
    return np.asarray(times == np.repeat(latest, np.diff(indptr)))


def _remove_entries(histories: Histories, users: NDArray[np.intp], remaining: Bools) -> Histories:
    """Remove one entry of each of these users, the one that `remaining` does not mark."""
    # Every offset after the entry of a user decreases by one.
    removed = np.zeros(histories.n_users + 1, np.int64)
    removed[users + 1] = 1
    indptr = histories.indptr - np.cumsum(removed)
    return Histories(indptr, histories.indices[remaining], histories.n_items)


def select_entries(histories: Histories, entries: Bools) -> Histories:
    """Return the histories with only the marked entries."""
    ends = np.cumsum(count_marked(histories, entries))
    indptr = np.concatenate([[0], ends]).astype(np.int64)
    return Histories(indptr, histories.indices[entries], histories.n_items)
