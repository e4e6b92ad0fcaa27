"""Parsed blocks in, a data set out: ids become numbers block by block.

Every reader hands over polars frames with the columns `user`, `item` and perhaps `rating` and
`timestamp`, already free of nulls and NaN. Only 32-bit numbers (and the timestamps) are kept,
so the strings of a large file are never all in memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sottovoce.data.interactions import Interactions, Loaded
from sottovoce.data.packing import Pairs, pack
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from sottovoce.model.tags import Traits

_TABLE = 1 << 24  # the widest range of integers for which a look-up table is worth its memory
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64 = np.iinfo(np.int64)

Films = dict[int, tuple[str, "Traits"]]
"""Title and tags by item id."""


class Numbering:
    """Ids of any hashable kind to 0, 1, 2, ... in the order in which they turn up."""

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}

    def add(self, ids: pl.Series) -> NDArray[np.int32]:
        """The numbers of a block of ids."""
        if ids.dtype.is_integer() and len(ids):
            low, high = int(ids.min()), int(ids.max())  # type: ignore[arg-type]  # integers
            if high - low < _TABLE and _INT64.min <= low and high <= _INT64.max:
                return self._by_table(ids.cast(pl.Int64).to_numpy() - low, low, high)
        known = ids.unique(maintain_order=True)
        numbers = pl.Series(self._numbers(known.to_list()), dtype=pl.Int32)
        return ids.replace_strict(known, numbers, return_dtype=pl.Int32).to_numpy()

    def _by_table(self, offsets: NDArray[np.int64], low: int, high: int) -> NDArray[np.int32]:
        table = np.zeros(high - low + 1, np.int32)
        table[offsets] = 1
        known = np.flatnonzero(table)
        table[known] = self._numbers((known + low).tolist())
        return table[offsets]

    def _numbers(self, ids: Iterable[Any]) -> list[int]:
        number = self._number
        return [number.setdefault(one, len(number)) for one in ids]

    def in_order(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """The ids, ascending, and for each number given out its place among them."""
        ids = _as_integers(list(self._number))
        order = sorted(range(len(ids)), key=ids.__getitem__)
        place = np.empty(len(ids), np.int32)
        place[order] = np.arange(len(ids), dtype=np.int32)
        return id_array([ids[number] for number in order]), place


class Collector:
    """Takes the blocks of one source and becomes a data set."""

    def __init__(self) -> None:
        self._users, self._items = Numbering(), Numbering()
        self._user_blocks: list[NDArray[np.int32]] = []
        self._item_blocks: list[NDArray[np.int32]] = []
        self._time_blocks: list[NDArray[np.integer[Any]]] = []
        self._rows = 0
        self._not_positive = 0

    def add(self, frame: pl.DataFrame) -> None:
        """One block; ratings of 0 or less are counted and left out."""
        self._rows += frame.height
        if "rating" in frame.columns:
            positive = frame.filter(pl.col("rating") > 0)
            self._not_positive += frame.height - positive.height
            frame = positive
        self._user_blocks.append(self._users.add(frame["user"]))
        self._item_blocks.append(self._items.add(frame["item"]))
        if "timestamp" in frame.columns:
            # Narrow until the end: seconds since 1970 fit 32 bits in every data set so far.
            self._time_blocks.append(frame["timestamp"].shrink_dtype().to_numpy())

    def finish(self, path: Path, layout: str, films: Films | None = None) -> Interactions:
        """Everything that was added; `path` names the source."""
        if not any(len(block) for block in self._user_blocks):
            why = f"all {self._rows:,} ratings are 0 or less" if self._rows else "it has no rows"
            raise DataError(f"there is no interaction: {why}", path=path)
        user_ids, user_place = self._users.in_order()
        item_ids, item_place = self._items.in_order()
        pairs = Pairs(
            _placed(_joined(self._user_blocks, np.int32), user_place),
            _placed(_joined(self._item_blocks, np.int32), item_place),
            _joined(self._time_blocks, np.int64) if self._time_blocks else None,
        )
        packed = pack(pairs, len(user_ids), len(item_ids))
        titles, tags = _described(item_ids, films)
        return Interactions(
            name=plain_name(path),
            histories=packed.histories,
            user_ids=user_ids,
            item_ids=item_ids,
            timestamps=packed.timestamps,
            titles=titles,
            tags=tags,
            loaded=Loaded(layout, self._rows, self._not_positive, packed.duplicates),
        )


def plain_name(path: Path) -> str:
    """`ml-1m` for `/somewhere/ml-1m.zip`."""
    name = path.resolve().name.removesuffix(".gz")
    return name if path.is_dir() else name.rsplit(".", 1)[0]


def id_array(ids: list[Any]) -> NDArray[Any]:
    """Integers as int64 where they fit; anything else as Python objects, so nothing is changed."""
    if all(type(one) is int and _INT64.min <= one <= _INT64.max for one in ids):
        return np.array(ids, np.int64)
    return object_array(ids)


def _as_integers(ids: list[Any]) -> list[Any]:
    """Strings that are all plain integers become integers; "007" and "7" stay two ids."""
    if not all(isinstance(one, str) and _INTEGER.fullmatch(one) for one in ids):
        return ids
    return [int(one) for one in ids]


def _joined(blocks: list[NDArray[Any]], dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """The blocks as one array; each is let go as soon as it is copied."""
    joined = np.empty(sum(map(len, blocks)), dtype)
    end = len(joined)
    while blocks:
        block = blocks.pop()
        joined[end - len(block) : end] = block
        end -= len(block)
    return joined


def _placed(numbers: NDArray[np.int32], place: NDArray[np.int32]) -> NDArray[np.int32]:
    if np.array_equal(place, np.arange(len(place))):
        return numbers
    return place[numbers]


def object_array(values: list[Any]) -> NDArray[np.object_]:
    """One element for each, whatever they are: numpy would look into lists and tuples."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _described(
    item_ids: NDArray[Any], films: Films | None
) -> tuple[NDArray[np.object_] | None, NDArray[np.object_] | None]:
    """Titles and tags in the items' order; an item that the list does not know has none."""
    if films is None:
        return None, None
    rows = [films.get(item, ("", {})) for item in item_ids.tolist()]
    tags = [traits for _, traits in rows]
    titles = object_array([title for title, _ in rows])
    return titles, object_array(tags) if any(tags) else None
