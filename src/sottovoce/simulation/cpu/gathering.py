"""Whose turn it is and what they touched, compiled: `sottovoce.simulation.people` bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from sottovoce.simulation.cpu.philox import multiply_high, philox
from sottovoce.simulation.people import DROPPED, PIECES
from sottovoce.simulation.words import RESAMPLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RESAMPLED = np.uint64(RESAMPLED)
_DROPPED, _PIECE = np.uint64(DROPPED), np.uint64(0xFFFF)


class Gathering(NamedTuple):
    """Public numbers of an epoch: who there is, and how often they take part."""

    first: int
    chosen: NDArray[np.int64]
    """The numbers of people; empty: consecutive from the first."""
    people: int
    resampled: bool
    turns: int
    epochs: int


@njit
def number_of(place: int, who: Gathering) -> int:
    """`People.numbers` of one."""
    return who.chosen[place] if who.chosen.shape[0] else who.first + place


@njit
def history_of(
    place: int,
    who: Gathering,
    seed: np.uint64,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """The items of somebody, into `out`; how many there are."""
    if not who.resampled:
        items = indices[indptr[place] : indptr[place + 1]]
        out[: items.shape[0]] = items
        return items.shape[0]
    user = number_of(place, who)
    words = philox(seed, _RESAMPLED, 0, user, 0)
    row = np.int64(multiply_high(words[0], np.uint64(indptr.shape[0] - 1)))
    items = indices[indptr[row] : indptr[row + 1]]
    n = 0
    for t in range(items.shape[0]):
        if t % PIECES == 0:
            words = philox(seed, _RESAMPLED, 1 + t // PIECES, user, 0)
        piece = t % PIECES
        word = words[piece // 4] >> np.uint64(16 * (piece % 4))
        if word & _PIECE >= _DROPPED:
            out[n] = items[t]
            n += 1
    return n
