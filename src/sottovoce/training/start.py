"""A public start: the first item matrix, learnt from a table that anybody may see.

`sottovoce start` writes a start to a file, which a simulation and a server read.

Alternating least squares over people and items, by the same equations that a device solves for its
user vector (`sottovoce.core.solve_user_vectors`). So every machine learns the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core import Histories, draw_initial_items, solve_user_vectors
from sottovoce.core.bounds import is_within_bounds, round_items
from sottovoce.errors import CheckpointError, DataError

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

# Names in the file of a start, which is a model file of `sottovoce.simulation.files`: the item
# matrix, the JSON text in the header's metadata, and the values in this JSON.
ITEM_MATRIX_NAME = "item_matrix"
HEADER_NAME = "sottovoce"
PROVENANCE_NAME = "start"
IDS_NAME = "item_ids"


@dataclass(frozen=True)
class Provenance:
    """Where a start comes from, as every device shows it."""

    name: str
    """Name of the public table."""
    people: int
    """Number of people in the table who touched an item of the catalogue."""
    last_date: str | None
    """Date of the latest interaction (YYYY-MM-DD); None if the table has no times."""
    licence: str
    """Licence of the table, or another reason why it may be used."""


@dataclass(frozen=True, eq=False)
class Start:
    """An item matrix learnt from a public table, with the ids of its rows."""

    V: Float32
    item_ids: tuple[str, ...]
    provenance: Provenance

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Parse the bytes of a file of `sottovoce start`.

        The server reads it too, so this function needs no library for the format (safetensors). The
        provenance is not checked (`sottovoce.protocol.manifest.decode_start` does that).

        Raises:
            CheckpointError: These are not the bytes of a start.
        """
        length = int.from_bytes(raw[:8], "little")
        try:
            header = json.loads(raw[8 : 8 + length])
            extra = json.loads(header["__metadata__"][HEADER_NAME])["extra"]
            provenance = Provenance(**extra[PROVENANCE_NAME])
            ids, tensor = tuple(map(str, extra[IDS_NAME])), header[ITEM_MATRIX_NAME]
            if tensor["dtype"] != "F32" or not ids or len(set(ids)) != len(ids):
                raise ValueError("there must be items with different ids, and rows of float32")
            numbers = np.frombuffer(raw[8 + length :], "<f4")
            V = numbers.reshape(len(ids), tensor["shape"][1]).astype(np.float32)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"it is not a start: `sottovoce start` writes one ({error})"
            ) from error
        if not is_within_bounds(V):
            raise CheckpointError("the item matrix must have entries that devices accept")
        return cls(V, ids, provenance)

    def select_items(self, item_ids: Iterable[Any]) -> Float32:
        """Return the rows of these items; an item that the start does not have gets zeros."""
        # Ids in a file are text, even if the ids of a data set are integers.
        rows = {item: row for row, item in enumerate(self.item_ids)}
        numbers = np.array([rows.get(str(item), -1) for item in item_ids], np.int64)
        return np.where((numbers >= 0)[:, None], self.V[numbers], np.float32(0))

    def select_matching_items(self, item_ids: Iterable[Any]) -> Float32:
        """Return the rows of these items, as `select_items` does.

        Raises:
            DataError: The start has none of the items.
        """
        V = self.select_items(item_ids)
        if not V.any():
            raise DataError(
                f"the start {self.provenance.name} has none of the {len(V):,} items: its ids must "
                "be those of the catalogue"
            )
        return V


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
    return round_items(V)


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
