"""Sorting Parquet files that do not fit into memory into shards.

The files are read twice, block by block. The first time, ids are collected; they stay in memory and
take about a hundred bytes for each user and item. The second time, rows are distributed over
buckets on the disk. A bucket has all rows of some of the users, and becomes one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.histories import Histories
from sottovoce.data.collecting import IdEncoder, drop_nonpositive
from sottovoce.data.columns import Columns
from sottovoce.data.files import derive_name
from sottovoce.data.interactions import (
    Bools,
    Interactions,
    LoadCounts,
    Pairs,
    mark_frequent,
    pack,
)
from sottovoce.data.parquet import read_parquet_blocks
from sottovoce.data.shards import ShardWriter
from sottovoce.errors import DataError

# Called at the beginning of each step with a short text about it.
ReportProgress = Callable[[str], None]
# Columns of a bucket that is not sorted yet. Each column is a file of raw numbers of this type.
_RAW_TYPES: dict[str, type[np.signedinteger]] = {
    "user": np.int32,
    "item": np.int32,
    "time": np.int64,
}


class Buckets:
    """Rows of Parquet files, grouped by user into files of a scratch folder."""

    def __init__(
        self,
        path: Path,
        columns: Columns,
        scratch: Path,
        rows: int,
        report_progress: ReportProgress,
    ):
        """Read all rows and sort them into buckets.

        Args:
            path: A Parquet file or a folder of them.
            columns: Column names by role, for columns that are not recognised by their names.
            scratch: An empty folder for the buckets.
            rows: Approximate number of rows in a bucket.
            report_progress: Called at the beginning of each step.
        """
        self._scratch = scratch
        users = IdEncoder()
        items = IdEncoder()
        n_rows = 0
        rows_per_user = np.zeros(0, np.int64)  # users are in the order of their appearance
        for index, frame in enumerate(read_parquet_blocks(path, columns)):
            report_progress(f"reading block {index + 1}")
            positive = drop_nonpositive(frame)
            n_rows += frame.height
            items.encode(positive["item"])
            numbers = users.encode(positive["user"])
            # The array becomes longer if the block has new users.
            sums = np.bincount(numbers, minlength=len(rows_per_user))
            sums[: len(rows_per_user)] += rows_per_user
            rows_per_user = sums
        if not rows_per_user.sum():
            raise DataError("there must be at least one interaction", path=path)
        # Users and items get the numbers that they would have if the data were loaded into memory:
        # the ranks of their ids.
        user_ids, user_ranks = users.sort_ids()
        item_ids, item_ranks = items.sort_ids()
        rows_by_rank = np.zeros(len(user_ids), np.int64)
        rows_by_rank[user_ranks] = rows_per_user
        self._ranges = divide_users(rows_by_rank, rows)
        for index, frame in enumerate(read_parquet_blocks(path, columns)):
            report_progress(f"sorting block {index + 1}")
            positive = drop_nonpositive(frame)
            block: dict[str, NDArray[np.integer]] = {
                "user": user_ranks[users.encode(positive["user"])],
                "item": item_ranks[items.encode(positive["item"])],
            }
            if "timestamp" in positive.columns:
                block["time"] = positive["timestamp"].to_numpy()
            self._append(block)
        n_merged = 0
        for index in range(len(self._ranges)):
            report_progress(f"ordering shard {index + 1} of {len(self._ranges)}")
            n_merged += self._sort_bucket(index, len(item_ids))
        no_users = Histories(np.zeros(1, np.int64), np.empty(0, np.int32), len(item_ids))
        n_not_positive = n_rows - int(rows_per_user.sum())
        self.outline = Interactions(
            derive_name(path),
            no_users,
            np.empty(0, np.int64),
            item_ids,
            load_counts=LoadCounts("Parquet", n_rows, n_not_positive, n_merged),
        )
        """Name, items and counts of the data set, without users."""

    def __getitem__(self, index: int) -> Interactions:
        with np.load(self._get_path(index, "npz")) as arrays:
            times = arrays.get("times")
            histories = Histories(arrays["indptr"], arrays["indices"], self.outline.n_items)
        numbers = np.arange(*self._ranges[index])
        return Interactions(self.outline.name, histories, numbers, self.outline.item_ids, times)

    def write_shards(
        self, writer: ShardWriter, min_interactions: int, report_progress: ReportProgress
    ) -> Interactions:
        """Filter the data as `Interactions.filter` does, and write each bucket as a shard.

        Args:
            writer: The writer of the shards.
            min_interactions: Number of interactions that every user and item must have.
            report_progress: Called at the beginning of each step.

        Returns:
            Name, items and counts of the filtered data set, without users.
        """
        report_progress("leaving out those with few interactions")
        users, items = mark_frequent(
            self._iterate_histories, self._mark_all_users(), self.outline.n_items, min_interactions
        )
        item_numbers = np.flatnonzero(items)
        for index, marks in enumerate(users):
            report_progress(f"writing shard {index + 1} of {len(users)}")
            writer.add(self[index].select(np.flatnonzero(marks), item_numbers))
        return self.outline.select(None, item_numbers)

    def _mark_all_users(self) -> list[Bools]:
        return [np.ones(end - begin, bool) for begin, end in self._ranges]

    def _iterate_histories(self) -> Iterator[Histories]:
        return (self[index].histories for index in range(len(self._ranges)))

    def _append(self, columns: dict[str, NDArray[np.integer]]) -> None:
        """Append a block's rows to the buckets of their users."""
        begins = np.array([begin for begin, _ in self._ranges])
        bucket = np.searchsorted(begins, columns["user"], "right") - 1
        # Group the rows by bucket, and append each group to the files of its bucket.
        order = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[order], np.arange(len(begins) + 1))
        for index in np.flatnonzero(np.diff(cuts)).tolist():
            rows = order[cuts[index] : cuts[index + 1]]
            for name, values in columns.items():
                with self._get_path(index, name).open("ab") as file:
                    values[rows].astype(_RAW_TYPES[name]).tofile(file)

    def _sort_bucket(self, index: int, n_items: int) -> int:
        """Sort a bucket by user and item, merge repeated pairs, and return how many were merged."""
        begin, end = self._ranges[index]
        files = {name: self._get_path(index, name) for name in _RAW_TYPES}
        raw = {
            name: np.fromfile(file, _RAW_TYPES[name])
            for name, file in files.items()
            if file.exists()
        }
        pairs = Pairs(raw["user"] - np.int32(begin), raw["item"], raw.get("time"))
        histories, times, n_merged = pack(pairs, end - begin, n_items)
        # Delete the raw files, to free space on the disk before the sorted file is written.
        for file in files.values():
            file.unlink(missing_ok=True)
        arrays: dict[str, NDArray[np.integer]] = {
            "indptr": histories.indptr,
            "indices": histories.indices,
        }
        if times is not None:
            arrays["times"] = times
        np.savez(self._get_path(index, "npz"), **arrays)  # type: ignore[arg-type]  # arrays all
        return n_merged

    def _get_path(self, index: int, kind: str) -> Path:
        return self._scratch / f"{index:05}.{kind}"


def divide_users(lengths: NDArray[np.int64], rows: int) -> list[tuple[int, int]]:
    """Divide users into consecutive ranges, from begin to end, that have about `rows` rows each.

    Args:
        lengths: Number of rows of each user.
        rows: Approximate number of rows in a range.
    """
    ends = np.cumsum(lengths)
    # A new range begins where the running sum of rows passes a multiple of `rows`.
    begins = np.flatnonzero(np.diff(np.maximum(ends - 1, 0) // rows)) + 1
    return list(pairwise([0, *begins.tolist(), len(lengths)]))
