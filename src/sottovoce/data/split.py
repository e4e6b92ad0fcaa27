"""Splits into training and test: by item of each user, or by time.

The paper (section 4.2) tests on a random interaction of each user, and on the latest one when it
compares with DPLCF. In both cases a model may learn from interactions of other users that came
later than the test item. A split by date prevents this, because training ends on that date.

Random numbers come from a stream of its own (`sottovoce.data.streams`), so a split does not depend
on other draws with the same seed.
"""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sottovoce.characters import format_html_table
from sottovoce.core.histories import Histories
from sottovoce.data.collecting import drop_nonpositive
from sottovoce.data.columns import Columns, check_frame
from sottovoce.data.frames import is_table, read_frame, read_roles
from sottovoce.data.interactions import Bools, Interactions, Pairs, Times, count_marked, pack
from sottovoce.data.loading import load, to_interactions
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError, warn_about_ratings

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

    def __repr__(self) -> str:
        return (
            f"Split({self.rule}, seed {self.seed}: {np.count_nonzero(self.test >= 0):,} of "
            f"{self.train.n_users:,} users tested, {self.train.n_items:,} items, "
            f"{self.train.n_interactions:,} interactions left)"
        )

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        rows = {
            "rule": self.rule,
            "seed": self.seed,
            "users": self.train.n_users,
            "users tested": np.count_nonzero(self.test >= 0),
            "items": self.train.n_items,
            "interactions left": self.train.n_interactions,
        }
        return format_html_table(rows)

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


def leave_out(
    data: Any, n: int = 1, rule: Literal["random", "latest"] = "random", seed: int = 0
) -> tuple[Interactions, Interactions]:
    """Take n items out of every history that has more, and return what is left and what was taken.

    >>> bought = {"user": ["ann", "ann", "ann", "bob"], "item": ["tea", "pot", "cup", "tea"]}
    >>> train, test = leave_out(bought, n=2)
    >>> train.n_interactions, test.n_interactions
    (2, 2)

    Both parts keep the ids and the timestamps. Users with n items or fewer are trained on, and not
    tested.

    Args:
        data: The data set to split, in any form that `load` takes.
        n: Number of items to take out of each history.
        rule: `random` takes uniformly random items. `latest` takes those with the largest
            timestamps, and random ones of equal timestamps.
        seed: Seed of the random draws.

    Raises:
        DataError: The rule needs timestamps and the data has none.
        SettingsError: `n` is below 1, or there is no such rule.
    """
    if rule not in ("random", "latest"):
        raise SettingsError(
            f"the rule must be random or latest, not {rule!r:.80}; split_by_time splits by a moment"
        )
    if n < 1:
        raise SettingsError(f"n must be at least 1, not {n}")
    data = _warn_and_forget(to_interactions(data))
    histories = data.histories
    lengths, users = np.diff(histories.indptr), histories.users_of_entries()
    order = stream(seed, "out").random(histories.n_interactions)
    # The first item is the one that `leave_one_out` takes.
    order[_find_entries(data, draw_choices(count_choices(data, rule), seed), rule)] = 1
    keys = (order, users) if rule == "random" else (order, _get_times(data), users)
    # The last n entries of each user in this order are taken.
    sorted_entries = np.lexsort(keys)
    place = np.arange(len(users)) - np.repeat(histories.indptr[:-1], lengths)
    is_taken = np.zeros(len(users), bool)
    is_taken[sorted_entries] = (place >= np.repeat(lengths - n, lengths)) & (lengths > n)[users]
    return _select(data, ~is_taken), _select(data, is_taken)


def leave_one_out(data: Any, rule: SplitRule = "random", seed: int = 0) -> Split:
    """Take one item out of every history that has at least two, as the paper does.

    The result has no ids. Its users and items are numbers, namely positions in the ascending ids of
    the data. The same holds for a model that is fitted to `train`; `leave_out` keeps ids.

    Args:
        data: The data set to split, in any form that `load` takes.
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
    data = to_interactions(data)
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
    histories, entries = data.histories, _find_entries(data, picks, rule)
    users = histories.users_of_entries()[entries]
    test = np.full(histories.n_users, -1, np.int32)
    test[users] = histories.indices[entries]
    in_train = np.ones(histories.n_interactions, bool)
    in_train[entries] = False
    times = None if data.timestamps is None else data.timestamps[in_train]
    return Split(_remove_entries(histories, users, in_train), test, rule, seed, times)


def _find_entries(
    data: Interactions, picks: NDArray[np.int64], rule: SplitRule
) -> NDArray[np.int64]:
    """Return the drawn entry of each history that has at least two."""
    indptr = data.histories.indptr
    # Users with a single item are trained on, and not tested.
    users = np.flatnonzero(np.diff(indptr) >= 2)
    if rule == "random":
        return np.asarray(indptr[users] + picks[users])
    # For this rule, a pick is an index into the latest entries of a history only.
    latest = np.flatnonzero(_mark_latest(data))
    return np.asarray(latest[np.searchsorted(latest, indptr[users]) + picks[users]])


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
    before = _mark_before(times, None, data.name)
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
    data: Any,
    since: float | str | date | None = None,
    *,
    columns: Columns = None,
    repurchases: bool = False,
) -> tuple[Interactions, Interactions]:
    """Return the interactions before a moment, and the interactions from then on.

    Both parts have the same users and items. The second part has no interactions of users who have
    none in the first, because a model knows nothing about them.

    Args:
        data: The data set to split, in any form that `load` takes.
        since: The moment: a date or an ISO date for timestamps in seconds, or a number in their
            unit. None means the moment before which nine tenths of all interactions lie.
        columns: Names of the columns of a table, as for `load`.
        repurchases: Whether the second part has what people touched again. It needs a table in
            memory, because `load` merges repeated rows into the latest one.

    Raises:
        DataError: The data has no timestamps, or no interactions before the moment.
    """
    if repurchases:
        return _split_rows(data, since, columns)
    if not isinstance(data, Interactions):
        data = to_interactions(data) if columns is None else load(data, columns)
    data = _warn_and_forget(data)
    before, histories = _mark_before(_get_times(data), since, data.name), data.histories
    is_known = count_marked(histories, before) > 0
    after = ~before & is_known[histories.users_of_entries()]
    return _select(data, before), _select(data, after)


def _split_rows(
    source: Any, since: float | str | date | None, columns: Columns
) -> tuple[Interactions, Interactions]:
    """Split a table in memory by time, before repeated rows are merged."""
    if not is_table(source):
        raise DataError(
            f"repurchases need a table in memory, because {type(source).__name__} has no repeated "
            "rows: pass the DataFrame"
        )
    data = _warn_and_forget(read_frame(source, columns))
    rows = drop_nonpositive(check_frame(read_roles(source, columns), 0, Path(data.name)))
    _get_times(data)
    times = rows["timestamp"].to_numpy()
    users, items = (
        rows[role].replace_strict(ids.tolist(), list(range(len(ids))), return_dtype=pl.Int32)
        for role, ids in (("user", data.user_ids), ("item", data.item_ids))
    )
    before = _mark_before(times, since, data.name)
    is_known = np.zeros(data.n_users, bool)
    is_known[users.to_numpy()[before]] = True
    parts = []
    for entries in (before, ~before & is_known[users.to_numpy()]):
        pairs = Pairs(users.to_numpy()[entries], items.to_numpy()[entries], times[entries])
        histories, timestamps, _ = pack(pairs, data.n_users, data.n_items)
        parts.append(replace(data, histories=histories, timestamps=timestamps))
    return parts[0], parts[1]


def _warn_and_forget(data: Interactions) -> Interactions:
    """Warn about ratings that do not count, and return the data without its counts.

    Otherwise each use of each part would warn about all that was loaded.
    """
    if data.load_counts:
        warn_about_ratings(data.name, data.load_counts.not_positive, data.load_counts.rows)
    return replace(data, load_counts=None)


def _select(data: Interactions, entries: Bools) -> Interactions:
    """Return the same users and items with only the marked interactions."""
    times = None if data.timestamps is None else data.timestamps[entries]
    return replace(data, histories=select_entries(data.histories, entries), timestamps=times)


def _mark_before(times: NDArray[np.int64], since: float | str | date | None, name: str) -> Bools:
    """Mark the interactions before a moment; None means the date of a split by date."""
    if isinstance(since, str | date):
        try:
            since = int(np.datetime64(since, "s").astype(np.int64))
        except ValueError as error:
            raise DataError(
                f"since must be a date such as 2025-08-01, not {since!r:.80}"
            ) from error
    if since is None:
        since = np.quantile(times, MAX_FRACTION_BEFORE, method="higher") if len(times) else 0
    before = np.asarray(times < since)
    if not before.any():
        raise DataError(
            f"{name}: a split by time must have interactions before the moment {since}, and "
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
