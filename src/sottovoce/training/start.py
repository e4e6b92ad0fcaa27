"""A public start: the first item matrix, learnt from a table that anybody may see.

Alternating least squares over people and items, by the same equations that a device solves for its
user vector (`sottovoce.core.solve_user_vectors`). So every machine learns the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, draw_initial_items, solve_user_vectors
from sottovoce.core.bounds import flush_small_entries
from sottovoce.errors import DataError

Float32 = NDArray[np.float32]

# Weight and ridge of the equations. On the Netflix films with a table of 296 people, an alpha of 2
# gave better lists than 1.
START_ALPHA = 2.0
START_RIDGE = 10.0
# Number of factors, and the smaller number for a table of few people.
START_FACTORS = 16
FEW_FACTORS = 8
MAX_FEW_PEOPLE = 200
# Rounds of alternating least squares. After these, more rounds change no list.
LEARNING_ROUNDS = 10
# Vectors that are solved at the same time, so that their equations fit in memory.
VECTORS_PER_BLOCK = 8_192
# Standard deviation of the matrix before the first round.
INITIAL_SCALE = 0.1


def learn_start(histories: Histories, factors: int | None = None) -> Float32:
    """Learn an item matrix from public histories; an item that nobody touched gets zeros.

    Args:
        histories: The items that each person of the public table touched.
        factors: Number of factors; None: the usual one for this number of people.

    Raises:
        DataError: Nobody touched anything.
    """
    if not histories.n_interactions:
        raise DataError("a start needs at least one interaction with an item of the catalogue")
    if factors is None:
        factors = choose_start_factors(histories.n_users)
    by_item = transpose(histories)
    V = draw_initial_items(histories.n_items, factors, INITIAL_SCALE, 0, head_start=1.0)
    for _ in range(LEARNING_ROUNDS):
        V = _solve_blocks(_solve_blocks(V, histories), by_item)
    return flush_small_entries(V)


def choose_start_factors(people: int) -> int:
    """Return the usual number of factors of a start.

    Args:
        people: Number of people in the public table.
    """
    return START_FACTORS if people > MAX_FEW_PEOPLE else FEW_FACTORS


def transpose(histories: Histories) -> Histories:
    """Return for each item the people who touched it, as histories of items.

    >>> transpose(Histories.from_lists([[0, 1], [1]], n_items=3)).indices.tolist()
    [0, 0, 1]
    """
    # A stable sort leaves the people of an item in ascending order.
    order = np.argsort(histories.indices, kind="stable")
    people = histories.users_of_entries()[order].astype(np.int32)
    ends = np.cumsum(histories.popularity())
    return Histories(np.concatenate([[0], ends]).astype(np.int64), people, histories.n_users)


def _solve_blocks(V: Float32, histories: Histories) -> Float32:
    """Return the vectors of all rows of `histories`, solved block by block."""
    blocks = [
        solve_user_vectors(
            V,
            histories.slice(begin, min(begin + VECTORS_PER_BLOCK, histories.n_users)),
            alpha=START_ALPHA,
            regularization=START_RIDGE,
        )
        for begin in range(0, histories.n_users, VECTORS_PER_BLOCK)
    ]
    return np.concatenate(blocks)
