"""Leave one out: each user's history without one item, and that item (the paper's section 4.2).

The paper tests on a random interaction, and on the latest one when it compares with DPLCF.
The random numbers are the stream "split" of `sottovoce.data.streams`: no other part of the
project draws from it, so a split never depends on what else was drawn with the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.data.interactions import row_sums
from sottovoce.data.streams import stream
from sottovoce.errors import DataError, SettingsError
from sottovoce.model.histories import Histories

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.data.interactions import Interactions

SplitRule = Literal["random", "latest"]


@dataclass(frozen=True, eq=False)
class Split:
    train: Histories
    test: NDArray[np.int32]
    """The item left out; -1 for a user with fewer than 2, whose history stays in training."""
    rule: SplitRule
    seed: int
    times: NDArray[np.int64] | None = None
    """When each entry of `train` was touched, where the data knows."""


def leave_one_out(data: Interactions, rule: SplitRule = "random", seed: int = 0) -> Split:
    """Take one item out of every history that has at least two.

    `random` takes any of them with equal probability, `latest` the one with the largest
    timestamp (among equally late ones any, with equal probability).
    """
    if rule not in ("random", "latest"):
        raise SettingsError(f"the split must be 'random' or 'latest', found {rule!r}")
    return take_out(data, drawn(choices(data, rule), seed), rule, seed)


def choices(data: Interactions, rule: SplitRule) -> NDArray[np.int64]:
    """Among how many entries of each history one is drawn; 0 where none is taken."""
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


def _latest(data: Interactions) -> NDArray[np.bool_]:
    """Which entries are the latest of their history, or as late as it."""
    if data.timestamps is None:
        raise DataError(f"{data.name} has no timestamps: use the random split")
    indptr = data.histories.indptr
    filled = np.flatnonzero(np.diff(indptr))
    last = np.zeros(data.histories.n_users, np.int64)
    if len(filled):
        last[filled] = np.maximum.reduceat(data.timestamps, indptr[filled])
    return np.asarray(data.timestamps == np.repeat(last, np.diff(indptr)))


def _without(histories: Histories, users: NDArray[np.intp], kept: NDArray[np.bool_]) -> Histories:
    """The histories less one entry for each of these users."""
    removed = np.zeros(histories.n_users + 1, np.int64)
    removed[users + 1] = 1
    indptr = histories.indptr - np.cumsum(removed)
    return Histories(indptr, histories.indices[kept], histories.n_items)
