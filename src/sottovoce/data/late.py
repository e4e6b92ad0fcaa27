"""People who come late: out of training altogether, with a part of their history hidden.

Strong generalisation, as Liang et al. (2018) test it. Who is late and what is hidden of them are
streams of their own of `sottovoce.data.streams`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.data.interactions import row_sums
from sottovoce.data.streams import stream
from sottovoce.errors import DataError
from sottovoce.model.histories import Histories

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.data.interactions import Interactions

ONE_IN = 5
"""So many items of a late person hide one, rounded down: a fifth, as in the literature."""


@dataclass(frozen=True, eq=False)
class Late:
    others: Interactions
    """Everybody else, with whole histories."""
    known: Histories
    """What the devices of late people have."""
    hidden: Histories
    """What is to be found, at least one item for each of the same people."""


def hold_people(data: Interactions, people: int, seed: int = 0) -> Late:
    """Take so many people out, drawn uniformly among those with at least five items."""
    histories = data.histories
    able = np.flatnonzero(np.diff(histories.indptr) >= ONE_IN)
    if not 1 <= people <= len(able):
        raise DataError(
            f"{data.name}: asked for {people:,} late people, there are {len(able):,} with at "
            f"least {ONE_IN} interactions"
        )
    late = np.sort(stream(seed, "late").permutation(able)[:people])
    others = np.setdiff1d(np.arange(histories.n_users), late)
    known, hidden = _parted(histories.take(late), seed)
    return Late(data.select(others, None), known, hidden)


def _parted(histories: Histories, seed: int) -> tuple[Histories, Histories]:
    """What stays and what is hidden of everybody."""
    lengths = np.diff(histories.indptr)
    chance = stream(seed, "hide").random(histories.n_interactions)
    shuffled = np.lexsort((chance, histories.users_of_entries()))
    place = np.arange(histories.n_interactions) - np.repeat(histories.indptr[:-1], lengths)
    hidden = np.zeros(histories.n_interactions, bool)
    hidden[shuffled[place < np.repeat(lengths // ONE_IN, lengths)]] = True
    return _marked(histories, ~hidden), _marked(histories, hidden)


def _marked(histories: Histories, entries: NDArray[np.bool_]) -> Histories:
    ends = np.cumsum(row_sums(histories, entries))
    indptr = np.concatenate([[0], ends]).astype(np.int64)
    return Histories(indptr, histories.indices[entries], histories.n_items)
