"""Making shards, of data that need not fit into memory.

Parquet is read twice, block by block: once for the ids, which are all that stays in memory (about a
hundred bytes for each person and item), once to sort rows into buckets on the disk, each with some
of the people. Then bucket after bucket is put in order, filtered and written. Anything else is
loaded first, and cut; invented people are written as they are made.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.data import formats
from sottovoce.data.formats import parquet
from sottovoce.data.formats.collecting import Numbering, plain_name
from sottovoce.data.interactions import Interactions, Loaded, counts_among
from sottovoce.data.items import with_items
from sottovoce.data.loading import is_name, load
from sottovoce.data.packing import Pairs, pack
from sottovoce.data.shards import Shards, ShardWriter
from sottovoce.data.synthetic import (
    SYNTHETIC,
    TYPICAL_FILMS,
    parse_synthetic,
    synthetic_parts,
)
from sottovoce.errors import DataError, SettingsError
from sottovoce.model.histories import Histories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import polars as pl
    from numpy.typing import NDArray

    from sottovoce.data.interactions import FilterRule

    Bools = NDArray[np.bool_]
    Watch = Callable[[str], None]
    Made = Callable[[Interactions, int], Iterator[Interactions]]

ROWS = 4_000_000
"""Interactions of a shard: some hundred megabytes while it is worked on."""


def shard(
    source: str,
    folder: Path,
    *,
    columns: Mapping[str, str] | None = None,
    items: Path | None = None,
    min_interactions: int = 0,
    rule: FilterRule = "stable",
    rows: int = ROWS,
    made: Made | None = None,
    watch: Watch = lambda _: None,
) -> Shards:
    """Write a data set as shards of about so many rows; with the people and items of `filter`.

    `made` makes other people out of these, so many at a time.
    """
    if rows < 1:
        raise SettingsError(f"a shard must have at least one row, not {rows}")
    path = Path(source)
    is_path = not is_name(source)
    if is_path and path.is_dir() and folder.resolve().is_relative_to(path.resolve()):
        raise DataError(f"shards of {source} must not be written into it", path=folder)
    is_parquet = is_path and not Shards.is_at(path) and formats.is_parquet(path)
    with ShardWriter(folder) as writer:
        if is_parquet and made is None:
            about = _sorted_out(path, writer, columns, (min_interactions, rule), rows, watch)
            return writer.finish(about if items is None else with_items(about, items))
        is_invented = source.partition(":")[0] == SYNTHETIC and not columns
        if is_invented and not min_interactions and items is None and made is None:
            return _invented(source, writer, rows, watch)
        watch(f"reading {source}")
        data = load(source, columns, items).filter(min_interactions, rule)
        people = 0
        for part in _cut(data, rows) if made is None else made(data, rows):
            people += part.n_users
            watch(f"{people:,} people")
            writer.add(part)
        return writer.finish(data)


def _cut(data: Interactions, rows: int) -> Iterator[Interactions]:
    for begin, end in _bounds(np.diff(data.histories.indptr), rows):
        yield data.select(np.arange(begin, end), None)


def _invented(source: str, writer: ShardWriter, rows: int, watch: Watch) -> Shards:
    """People who are made as they are written."""
    people = 0
    for part in synthetic_parts(**parse_synthetic(source), at_once=rows // TYPICAL_FILMS):
        people += part.n_users
        watch(f"{people:,} people")
        writer.add(part)
    return writer.finish(part)


def _sorted_out(
    path: Path,
    writer: ShardWriter,
    columns: Mapping[str, str] | None,
    least: tuple[int, FilterRule],
    rows: int,
    watch: Watch,
) -> Interactions:
    """Write what Parquet files hold; the items that are left, and nobody."""
    with tempfile.TemporaryDirectory(dir=writer.folder, prefix="sorting-") as scratch:
        buckets = Buckets(path, columns, Path(scratch), rows, watch)
        users, items = buckets.enough(least[0], repeat=least[1] == "stable")
        if not items.any() or not any(each.any() for each in users):
            raise DataError(
                f"nothing is left when every user and item must have at least {least[0]} "
                "interactions; ask for fewer",
                path=path,
            )
        for index, some in enumerate(users):
            watch(f"writing shard {index + 1} of {len(users)}")
            writer.add(buckets[index].select(np.flatnonzero(some), np.flatnonzero(items)))
        return buckets.about.select(None, np.flatnonzero(items))


class Buckets:
    """The rows of Parquet files, sorted by person into files of a scratch folder."""

    def __init__(
        self,
        path: Path,
        columns: Mapping[str, str] | None,
        scratch: Path,
        rows: int,
        watch: Watch,
    ):
        self._scratch, self._watch = scratch, watch
        users, items = Numbering(), Numbering()
        self._rows, self._merged = 0, 0
        counts = self._count(_blocks(path, columns, self._see), users, items)
        if not counts.sum():
            raise DataError("there is no interaction", path=path)
        user_ids, user_place = users.in_order()
        item_ids, item_place = items.in_order()
        per_user = np.zeros(len(user_ids), np.int64)
        per_user[user_place] = counts
        self._bounds = _bounds(per_user, rows)
        nobody = Histories(np.zeros(1, np.int64), np.empty(0, np.int32), len(item_ids))
        self.about = Interactions(plain_name(path), nobody, np.empty(0, np.int64), item_ids)
        """The items, and nobody."""
        begins = np.array([begin for begin, _ in self._bounds])
        for n, some in enumerate(_blocks(path, columns)):
            watch(f"sorting block {n + 1}")
            numbers = user_place[users.add(some["user"])]
            things = item_place[items.add(some["item"])]
            times = some["timestamp"].to_numpy() if "timestamp" in some.columns else None
            self._sort(numbers, things, times, np.searchsorted(begins, numbers, "right") - 1)
        for index in range(len(self)):
            watch(f"ordering shard {index + 1} of {len(self)}")
            self._order(index)
        dropped = self._rows - int(counts.sum())
        loaded = Loaded("Parquet", self._rows, dropped, self._merged)
        self.about = replace(self.about, loaded=loaded)

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, index: int) -> Interactions:
        begin, end = self._bounds[index]
        indptr, items = (np.load(self._file(index, what)) for what in ("indptr.npy", "items.npy"))
        times = self._file(index, "times.npy")
        return Interactions(
            self.about.name,
            Histories(indptr, items, len(self.about.item_ids)),
            np.arange(begin, end),
            self.about.item_ids,
            np.load(times) if times.exists() else None,
        )

    def enough(self, least: int, *, repeat: bool) -> tuple[list[Bools], Bools]:
        """The users, bucket by bucket, and the items that have enough, as `Interactions.filter`."""
        users = [np.ones(end - begin, bool) for begin, end in self._bounds]
        items = np.ones(len(self.about.item_ids), bool)
        while least:
            self._watch("leaving out those with few interactions")
            left, per_item = [], np.zeros(len(items), np.int64)
            for index, some in enumerate(users):
                per_user, counts = counts_among(self[index].histories, some, items)
                left.append(some & (per_user >= least))
                per_item += counts
            kept = items & (per_item >= least)
            done = all(map(np.array_equal, left, users)) and np.array_equal(kept, items)
            users, items = left, kept
            if done or not repeat:
                break
        return users, items

    def _count(
        self, blocks: Iterator[pl.DataFrame], users: Numbering, items: Numbering
    ) -> NDArray[np.int64]:
        """Give numbers to all ids; how many rows each person has, by their number."""
        counts = np.zeros(0, np.int64)
        for n, some in enumerate(blocks):
            self._watch(f"reading block {n + 1}")
            items.add(some["item"])
            more = np.bincount(users.add(some["user"]), minlength=len(counts))
            more[: len(counts)] += counts
            counts = more
        return counts

    def _sort(
        self,
        users: NDArray[np.int32],
        items: NDArray[np.int32],
        times: NDArray[np.integer] | None,
        bucket: NDArray[np.int64],
    ) -> None:
        order = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[order], np.arange(len(self) + 1))
        for index in np.flatnonzero(np.diff(cuts)).tolist():
            rows = order[cuts[index] : cuts[index + 1]]
            self._append(index, "users", users[rows])
            self._append(index, "items", items[rows])
            if times is not None:
                self._append(index, "times", times[rows].astype(np.int64))

    def _order(self, index: int) -> None:
        """A bucket's rows by person and item, repeated pairs merged."""
        (begin, end), times = self._bounds[index], self._file(index, "times")
        users = np.fromfile(self._file(index, "users"), np.int32) - np.int32(begin)
        items = np.fromfile(self._file(index, "items"), np.int32)
        pairs = Pairs(users, items, np.fromfile(times, np.int64) if times.exists() else None)
        packed = pack(pairs, end - begin, len(self.about.item_ids))
        self._merged += packed.duplicates
        for what in ("users", "items", "times"):
            self._file(index, what).unlink(missing_ok=True)
        np.save(self._file(index, "indptr.npy"), packed.histories.indptr)
        np.save(self._file(index, "items.npy"), packed.histories.indices)
        if packed.timestamps is not None:
            np.save(self._file(index, "times.npy"), packed.timestamps)

    def _see(self, rows: int) -> None:
        self._rows += rows

    def _append(self, index: int, what: str, values: NDArray[np.integer]) -> None:
        with self._file(index, what).open("ab") as file:
            file.write(np.ascontiguousarray(values).data)

    def _file(self, index: int, what: str) -> Path:
        return self._scratch / f"{index:05}.{what}"


def _blocks(
    path: Path, columns: Mapping[str, str] | None, see: Callable[[int], None] = lambda _: None
) -> Iterator[pl.DataFrame]:
    """Without ratings of 0 or less, which are no interactions; none is empty.

    `see` is told how many rows there are, whatever their ratings.
    """
    for frame in parquet.blocks(path, columns):
        see(frame.height)
        some = frame.filter(frame["rating"] > 0) if "rating" in frame.columns else frame
        if some.height:
            yield some


def _bounds(lengths: NDArray[np.int64], rows: int) -> list[tuple[int, int]]:
    """From which person to which: so many that their rows are about this many."""
    ends = np.cumsum(lengths)
    turns = np.flatnonzero(np.diff(np.maximum(ends - 1, 0) // rows)) + 1
    return list(pairwise([0, *turns.tolist(), len(lengths)]))
