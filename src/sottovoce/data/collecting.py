"""Collecting blocks of interactions into one data set.

Ids are replaced by 32-bit numbers block by block, so the text of a large file is never in memory as
a whole.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sottovoce.data.files import derive_name
from sottovoce.data.interactions import Interactions, LoadCounts, Pairs, pack, to_id_array
from sottovoce.errors import DataError

# Integer ids within a range of this size are encoded by a look-up table of int32 (64 MiB).
_MAX_LOOKUP_RANGE = 1 << 24
# Text ids that may become integers. Leading zeros do not match, so "007" and "7" stay different.
_INTEGER_ID = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64_RANGE = np.iinfo(np.int64)


class IdEncoder:
    """A map from ids of any hashable type to 0, 1, 2, ... in the order of their appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def encode(self, ids: pl.Series) -> NDArray[np.int32]:
        """Return the numbers of a block of ids; new ids get the next free numbers."""
        if ids.is_empty():
            return np.empty(0, np.int32)
        if ids.dtype.is_integer():
            low, high = int(ids.min()), int(ids.max())  # type: ignore[arg-type]  # integers
            if (
                high - low < _MAX_LOOKUP_RANGE
                and _INT64_RANGE.min <= low
                and high <= _INT64_RANGE.max
            ):
                return self._encode_by_table(ids.cast(pl.Int64).to_numpy() - low, low, high)
        # Python objects are slow and large, so only distinct ids are converted to them.
        distinct = ids.unique(maintain_order=True)
        numbers = pl.Series(self._assign_numbers(distinct.to_list()), dtype=pl.Int32)
        return ids.replace_strict(distinct, numbers, return_dtype=pl.Int32).to_numpy()

    def _encode_by_table(
        self, offsets: NDArray[np.int64], low: int, high: int
    ) -> NDArray[np.int32]:
        # At first, the table marks the ids that occur. Then it has their numbers.
        table = np.zeros(high - low + 1, np.int32)
        table[offsets] = 1
        distinct = np.flatnonzero(table)
        table[distinct] = self._assign_numbers((distinct + low).tolist())
        return table[offsets]

    def _assign_numbers(self, ids: Iterable[Any]) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(value, len(numbers)) for value in ids]

    def sort_ids(self, *, keep_types: bool = False) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the sorted ids and, for each assigned number, the rank of its id.

        Args:
            keep_types: Whether ids of type text stay text. Otherwise they become integers if all
                ids are whole numbers.
        """
        ids = list(self._numbers)
        if not keep_types and all(isinstance(x, str) and _INTEGER_ID.fullmatch(x) for x in ids):
            ids = [int(text) for text in ids]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        ranks = np.empty(len(ids), np.int32)
        ranks[order] = np.arange(len(ids), dtype=np.int32)
        return to_id_array([ids[number] for number in order]), ranks


class Collector:
    """Accumulator of blocks of interactions, which become one data set.

    A block has the columns `user` and `item`, and perhaps `rating` and `timestamp`. It has no
    missing or invalid values.
    """

    def __init__(self) -> None:
        self._users = IdEncoder()
        self._items = IdEncoder()
        self._blocks: dict[str, list[NDArray[Any]]] = {"user": [], "item": [], "timestamp": []}
        self._n_rows = 0
        self._n_not_positive = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Add a block; rows with a rating of 0 or less are counted and left out."""
        positive = drop_nonpositive(frame)
        self._n_rows += frame.height
        self._n_not_positive += frame.height - positive.height
        self._blocks["user"].append(self._users.encode(positive["user"]))
        self._blocks["item"].append(self._items.encode(positive["item"]))
        if "timestamp" in positive.columns:
            # The smallest integer type saves memory: seconds since 1970 nearly always fit 32 bits.
            self._blocks["timestamp"].append(positive["timestamp"].shrink_dtype().to_numpy())

    def finish(self, path: Path, layout: str, *, keep_types: bool = False) -> Interactions:
        """Return everything that was added as one data set.

        Args:
            path: The source, from which the name of the data set is derived.
            layout: The recognised layout, for `LoadCounts.format`.
            keep_types: As in `IdEncoder.sort_ids`.

        Raises:
            DataError: There is no interaction.
        """
        if self._n_rows == self._n_not_positive:
            why = (
                f"all {self._n_rows:,} ratings are 0 or less" if self._n_rows else "it has no rows"
            )
            raise DataError(f"there must be at least one interaction: {why}", path=path)
        user_ids, user_ranks = self._users.sort_ids(keep_types=keep_types)
        item_ids, item_ranks = self._items.sort_ids(keep_types=keep_types)
        has_times = bool(self._blocks["timestamp"])
        pairs = Pairs(
            _remap(_concatenate(self._blocks["user"], np.int32), user_ranks),
            _remap(_concatenate(self._blocks["item"], np.int32), item_ranks),
            _concatenate(self._blocks["timestamp"], np.int64) if has_times else None,
        )
        histories, times, duplicates = pack(pairs, len(user_ids), len(item_ids))
        load_counts = LoadCounts(layout, self._n_rows, self._n_not_positive, duplicates)
        return Interactions(
            derive_name(path), histories, user_ids, item_ids, times, load_counts=load_counts
        )


def drop_nonpositive(frame: pl.DataFrame) -> pl.DataFrame:
    """Drop rows with a rating of 0 or less, because these are not interactions."""
    return frame.filter(pl.col("rating") > 0) if "rating" in frame.columns else frame


def _concatenate(blocks: list[NDArray[Any]], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Concatenate blocks and empty the list, so that each block is freed once it is copied."""
    # The result is filled from its end, because pop() removes the last block.
    result = np.empty(sum(map(len, blocks)), dtype)
    end = len(result)
    while blocks:
        block = blocks.pop()
        result[end - len(block) : end] = block
        end -= len(block)
    return result


def _remap(numbers: NDArray[np.int32], ranks: NDArray[np.int32]) -> NDArray[np.int32]:
    return numbers if np.array_equal(ranks, np.arange(len(ranks))) else ranks[numbers]
