"""Shards: a data set as a folder of Parquet files, which are read one by one.

A shard has all interactions of some of the users: a row for each interaction, with the numbers of
user and item, sorted by both. `shards.json` lists the shards, and `items.json` has ids, titles and
tags of the items. Ids of users are not stored, because no reader of shards needs them.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from sottovoce.core.histories import Histories
from sottovoce.core.tags import Traits
from sottovoce.data.files import convert_read_errors
from sottovoce.data.interactions import (
    Interactions,
    LoadCounts,
    summarize_load,
    to_id_array,
    to_object_array,
)
from sottovoce.errors import DataError
from sottovoce.storage.files import write_atomically

# Format and version of the files. Files with another one are refused.
SHARDS_FORMAT = "sottovoce-shards-1"
# Names of the files that describe the shards and the items.
INDEX_FILE = "shards.json"
ITEMS_FILE = "items.json"


@dataclass(frozen=True)
class Shard:
    """The description of a shard in `shards.json`."""

    file: str
    """Name of the file."""
    first: int
    """Number of the shard's first user."""
    users: int
    """Number of users in the shard."""
    interactions: int
    """Number of interactions in the shard."""
    digest: str
    """SHA-256 of the file, which is verified whenever the file is read."""


@dataclass(frozen=True, eq=False)
class Shards:
    """A data set that need not fit into memory as a whole; each of its shards must."""

    folder: Path
    name: str
    n_interactions: int
    typical_length: float
    """Median number of items in a history, rounded to two digits."""
    item_ids: NDArray[Any]
    """Ids of the items from the source."""
    titles: NDArray[np.object_] | None
    """Title of each item or an empty string, or None if no item has a title."""
    tags: NDArray[np.object_] | None
    """`Traits` of each item, or None if no item has any."""
    shards: tuple[Shard, ...]
    """The shards, in the order of their users."""
    load_counts: LoadCounts | None = None
    """Counts of the rows of the source, or None if the source was not read from a file."""

    @classmethod
    def is_at(cls, path: Path) -> bool:
        """Return whether `path` is a folder of shards."""
        return (path / INDEX_FILE).is_file()

    @classmethod
    def read(cls, folder: Path) -> Shards:
        """Read the descriptions in a folder of shards; indexing the result reads a shard.

        Raises:
            DataError: The descriptions are missing, damaged or of another version.
        """
        try:
            index = json.loads((folder / INDEX_FILE).read_bytes())
            items = json.loads((folder / ITEMS_FILE).read_bytes())
            if index["format"] != SHARDS_FORMAT:
                raise DataError(f"the format of shards must be {SHARDS_FORMAT}", path=folder)
            ids, titles, json_tags = ([item[column] for item in items] for column in range(3))
            tags = [_parse_traits(traits) for traits in json_tags]
            return cls(
                # The path is absolute, because processes with another working directory use it.
                folder.resolve(),
                str(index["name"]),
                int(index["interactions"]),
                float(index["typical_length"]),
                to_id_array(ids),
                to_object_array(titles) if any(titles) else None,
                to_object_array(tags) if any(tags) else None,
                tuple(Shard(**shard) for shard in index["shards"]),
                LoadCounts(**index["loaded"]) if index["loaded"] else None,
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataError(
                f"shards are incomplete or damaged ({error!r}); "
                "make them again with `sottovoce data shard`",
                path=folder,
            ) from error

    @property
    def n_users(self) -> int:
        """Number of users."""
        return sum(shard.users for shard in self.shards)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def untouched_counts(self) -> NDArray[np.int64]:
        """Bounds on the number of items that a user never touched: lowest and highest."""
        # For the exact counts of all users, every shard would have to be read.
        return np.array([0, self.n_items - 1])

    @property
    def digest(self) -> str:
        """SHA-256 of the items, their tags, and the digests of all shards."""
        tags = None if self.tags is None else self.tags.tolist()
        items = json.dumps([self.item_ids.tolist(), tags])
        # The numbers of users are included, because users without interactions have no rows.
        lines = [items, *(f"{shard.users} {shard.digest}" for shard in self.shards)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.shards)

    def __iter__(self) -> Iterator[Interactions]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Interactions:
        """Read one shard: some of the users, and all items without titles and tags."""
        shard = self.shards[index]
        path = self.folder / shard.file
        with convert_read_errors(path):
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != shard.digest:
            raise DataError(
                f"shard differs from its digest in {INDEX_FILE}; "
                "make the shards again with `sottovoce data shard`",
                path=path,
            )
        # Parse the bytes that were verified: the file could change before it is read again.
        frame = pl.read_parquet(io.BytesIO(content))
        columns = {name: frame[name].to_numpy(writable=True) for name in frame.columns}
        numbers = shard.first + np.arange(shard.users + 1)
        # Rows are sorted by user, so bisection finds the offsets of the histories.
        indptr = np.searchsorted(columns["user"], numbers).astype(np.int64)
        histories = Histories.from_arrays(indptr, columns["item"], self.n_items)
        times = columns.get("timestamp")
        return Interactions(self.name, histories, numbers[:-1], self.item_ids, times)

    def first(self, index: int) -> int:
        """Return the number of a shard's first user."""
        return self.shards[index].first

    def join(self) -> Interactions:
        """Read all shards into one data set in memory."""
        parts = list(self)
        lengths = [np.diff(part.histories.indptr) for part in parts]
        times = [part.timestamps for part in parts if part.timestamps is not None]
        return Interactions(
            self.name,
            Histories(
                np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
                np.concatenate([part.histories.indices for part in parts]),
                self.n_items,
            ),
            np.arange(self.n_users),
            self.item_ids,
            np.concatenate(times) if times else None,
            self.titles,
            self.tags,
            self.load_counts,
        )

    def summary(self) -> dict[str, Any]:
        """Return what `sottovoce data shard` prints."""
        cells = self.n_users * self.n_items
        return {
            "name": self.name,
            "users": self.n_users,
            "items": self.n_items,
            "interactions": self.n_interactions,
            "density": self.n_interactions / cells if cells else 0.0,
            "typical_length": self.typical_length,
            "shards": len(self),
            **summarize_load(self.load_counts),
        }


class ShardWriter:
    """Writer of shards into a new folder, which appears only when all shards are written.

    Call `add` for each part of the data set, in the order of the users, and then `finish`.
    """

    def __init__(self, folder: Path):
        try:
            if folder.exists() and any(folder.iterdir()):
                raise DataError("the folder for shards must be new or empty", path=folder)
            self.folder = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
            """Temporary folder next to the folder of the shards."""
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise _to_write_error(error, folder) from error
        self._target = folder
        self._shards: list[Shard] = []
        self._lengths: list[NDArray[np.int32]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, raised: BaseException | None, trace: object) -> None:
        # After finish() the folder has moved, and nothing is left to delete.
        shutil.rmtree(self.folder, ignore_errors=True)
        if isinstance(raised, (OSError, PolarsError)):
            raise _to_write_error(raised, self._target) from raised

    def add(self, part: Interactions) -> None:
        """Write one shard, unless the part has no users."""
        # Users are numbered through all shards, in the order in which parts are added.
        histories, first = part.histories, sum(shard.users for shard in self._shards)
        if not histories.n_users:
            return
        file = f"part-{len(self._shards):05}.parquet"
        columns = {
            "user": first + histories.users_of_entries(),
            "item": histories.indices,
            **({} if part.timestamps is None else {"timestamp": part.timestamps}),
        }
        pl.DataFrame(columns).write_parquet(self.folder / file)
        # The digest covers the bytes of the written file, because every read verifies these bytes.
        digest = hashlib.sha256((self.folder / file).read_bytes()).hexdigest()
        self._shards.append(Shard(file, first, histories.n_users, histories.n_interactions, digest))
        self._lengths.append(np.diff(histories.indptr).astype(np.int32))

    def finish(self, outline: Interactions) -> Shards:
        """Write the descriptions, and move the temporary folder to its place.

        Args:
            outline: A data set with the name, the items with titles and tags, and the counts of the
                loader. Its users are ignored.
        """
        titles, tags = outline.titles, outline.tags
        rows = zip(
            [
                value if isinstance(value, int) else str(value)
                for value in outline.item_ids.tolist()
            ],
            [""] * len(outline.item_ids) if titles is None else titles.tolist(),
            [{}] * len(outline.item_ids) if tags is None else tags.tolist(),
            strict=True,
        )
        # The entries are left out, because the offsets are enough for the median length.
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        all_users = Histories(np.cumsum(lengths), np.empty(0, np.int32), len(outline.item_ids))
        index = {
            "format": SHARDS_FORMAT,
            "name": outline.name,
            "interactions": sum(shard.interactions for shard in self._shards),
            "typical_length": all_users.typical_length(),
            "shards": [asdict(shard) for shard in self._shards],
            "loaded": asdict(outline.load_counts) if outline.load_counts else None,
        }
        # The index is written last, so that a folder with an index is complete.
        write_atomically(self.folder / ITEMS_FILE, _to_json(list(rows)))
        write_atomically(self.folder / INDEX_FILE, _to_json(index))
        self.folder.replace(self._target)
        return Shards.read(self._target)


def _to_write_error(error: Exception, folder: Path) -> DataError:
    return DataError(f"shards cannot be written: {str(error).splitlines()[0]}", path=folder)


def _parse_traits(traits: dict[str, Any]) -> Traits:
    """Return the traits of an item from JSON, where labels are lists and not tuples."""
    return {
        kind: tuple(value) if isinstance(value, list) else value for kind, value in traits.items()
    }


def _to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()
