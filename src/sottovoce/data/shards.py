"""A data set in a folder of Parquet files, each with some of the people: read part by part.

`shards.json` says what is there, `items.json` what the items are called and tagged with. A shard
has one row for each interaction, by the numbers of people and items, in their order. Ids of people
are not kept: nothing that reads shards asks for them.

Shards are made of Parquet files that need not fit into memory either. These are read twice, block
by block: once for the ids, which are all that stays in memory (about a hundred bytes for each
person and item), once to sort rows into buckets on the disk, each with some of the people. Then
bucket after bucket is put in order, filtered and written.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from sottovoce.core.model import Histories
from sottovoce.core.recommending import Traits
from sottovoce.data.interactions import (
    Bools,
    Interactions,
    Loaded,
    Pairs,
    enough,
    id_array,
    loaded_in_words,
    object_array,
    pack,
)
from sottovoce.data.tables import Columns, Numbering, parquet_blocks, plain_name, positive, reading
from sottovoce.errors import DataError
from sottovoce.storage.files import write_atomically

Watch = Callable[[str], None]
FORMAT = "sottovoce-shards-1"
INDEX, ITEMS = "shards.json", "items.json"
_RAW: dict[str, type[np.integer[Any]]] = {"user": np.int32, "item": np.int32, "time": np.int64}


@dataclass(frozen=True)
class Shard:
    file: str
    first: int
    """The number of its first person."""
    users: int
    interactions: int
    digest: str
    """SHA-256 of the file, checked whenever it is read."""


@dataclass(frozen=True, eq=False)
class Shards:
    """A data set that need not fit into memory; one shard must."""

    folder: Path
    name: str
    n_interactions: int
    typical_length: float
    """Of a history: the median number of items, to two digits."""
    item_ids: NDArray[Any]
    titles: NDArray[np.object_] | None
    tags: NDArray[np.object_] | None
    shards: tuple[Shard, ...]
    loaded: Loaded | None = None
    """What reading the source came to."""

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return (path / INDEX).is_file()

    @classmethod
    def read(cls, folder: Path) -> Shards:
        """What is in a folder; shards themselves are read when they are asked for."""
        try:
            index = json.loads((folder / INDEX).read_bytes())
            items = json.loads((folder / ITEMS).read_bytes())
            if index["format"] != FORMAT:
                raise DataError(f"these shards must be of this version ({FORMAT})", path=folder)
            ids, titles, listed = ([item[place] for item in items] for place in range(3))
            tags = [_traits(each) for each in listed]
            return cls(
                folder.resolve(),  # processes elsewhere on the machine read them too
                str(index["name"]),
                int(index["interactions"]),
                float(index["typical_length"]),
                id_array(ids),
                object_array(titles) if any(titles) else None,
                object_array(tags) if any(tags) else None,
                tuple(Shard(**shard) for shard in index["shards"]),
                Loaded(**index["loaded"]) if index["loaded"] else None,
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            said = f"not whole shards: {error!r}; make them again with `sottovoce data shard`"
            raise DataError(said, path=folder) from error

    @property
    def n_users(self) -> int:
        return sum(shard.users for shard in self.shards)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def untouched(self) -> NDArray[np.int64]:
        """The fewest and the most items that a person may never have touched: nothing is read."""
        return np.array([0, self.n_items - 1])

    @property
    def digest(self) -> str:
        tags = None if self.tags is None else self.tags.tolist()
        items = json.dumps([self.item_ids.tolist(), tags])
        whole = [items, *(f"{shard.users} {shard.digest}" for shard in self.shards)]
        return hashlib.sha256("\n".join(whole).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.shards)

    def __iter__(self) -> Iterator[Interactions]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Interactions:
        """The people of one shard, with all items; titles and tags are those of the whole."""
        shard = self.shards[index]
        path = self.folder / shard.file
        with reading(path):
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != shard.digest:
            said = f"not the shard of {INDEX}; make them again with `sottovoce data shard`"
            raise DataError(said, path=path)
        frame = pl.read_parquet(io.BytesIO(content))
        columns = {name: frame[name].to_numpy(writable=True) for name in frame.columns}
        numbers = shard.first + np.arange(shard.users + 1)
        indptr = np.searchsorted(columns["user"], numbers).astype(np.int64)
        histories = Histories.from_arrays(indptr, columns["item"], self.n_items)
        times = columns.get("timestamp")
        return Interactions(self.name, histories, numbers[:-1], self.item_ids, times)

    def first(self, index: int) -> int:
        """The number of a shard's first person."""
        return self.shards[index].first

    def joined(self) -> Interactions:
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
            self.loaded,
        )

    def summary(self) -> dict[str, Any]:
        cells = self.n_users * self.n_items
        return {
            "name": self.name,
            "users": self.n_users,
            "items": self.n_items,
            "interactions": self.n_interactions,
            "density": self.n_interactions / cells if cells else 0.0,
            "typical_length": self.typical_length,
            "shards": len(self),
            **loaded_in_words(self.loaded),
        }


class ShardWriter:
    """Takes the parts of a data set in the order of their people.

    They are written next to the folder, which is there when all of them are.
    """

    def __init__(self, folder: Path):
        try:
            if folder.exists() and any(folder.iterdir()):
                raise DataError("this folder must be new or empty", path=folder)
            self.folder = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
            """Where they are written."""
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise _cannot_write(error, folder) from error
        self._wanted = folder
        self._shards: list[Shard] = []
        self._lengths: list[NDArray[np.int32]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, raised: BaseException | None, trace: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if isinstance(raised, (OSError, PolarsError)):
            raise _cannot_write(raised, self._wanted) from raised

    def add(self, part: Interactions) -> None:
        """One shard; nothing for nobody."""
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
        digest = hashlib.sha256((self.folder / file).read_bytes()).hexdigest()
        self._shards.append(Shard(file, first, histories.n_users, histories.n_interactions, digest))
        self._lengths.append(np.diff(histories.indptr).astype(np.int32))

    def finish(self, about: Interactions) -> Shards:
        """With the name, the items, their titles and tags of this one; its people do not count."""
        titles, tags = about.titles, about.tags
        rows = zip(
            [one if isinstance(one, int) else str(one) for one in about.item_ids.tolist()],
            [""] * len(about.item_ids) if titles is None else titles.tolist(),
            [{}] * len(about.item_ids) if tags is None else tags.tolist(),
            strict=True,
        )
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        everybody = Histories(np.cumsum(lengths), np.empty(0, np.int32), len(about.item_ids))
        index = {
            "format": FORMAT,
            "name": about.name,
            "interactions": sum(shard.interactions for shard in self._shards),
            "typical_length": everybody.typical_length(),
            "shards": [asdict(shard) for shard in self._shards],
            "loaded": asdict(about.loaded) if about.loaded else None,
        }
        write_atomically(self.folder / ITEMS, _json(list(rows)))
        write_atomically(self.folder / INDEX, _json(index))
        self.folder.replace(self._wanted)
        return Shards.read(self._wanted)


def _cannot_write(error: Exception, folder: Path) -> DataError:
    return DataError(f"shards cannot be written: {str(error).splitlines()[0]}", path=folder)


def _traits(listed: dict[str, Any]) -> Traits:
    """JSON has lists for tuples."""
    return {
        kind: tuple(value) if isinstance(value, list) else value for kind, value in listed.items()
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def sort_out(buckets: Buckets, writer: ShardWriter, least: int, watch: Watch) -> Interactions:
    """Write what is in the buckets; the items that are left, and nobody."""
    watch("leaving out those with few interactions")
    users, items = enough(buckets.histories, buckets.everybody(), buckets.about.n_items, least)
    kept = np.flatnonzero(items)
    for index, some in enumerate(users):
        watch(f"writing shard {index + 1} of {len(users)}")
        writer.add(buckets[index].select(np.flatnonzero(some), kept))
    return buckets.about.select(None, kept)


class Buckets:
    """The rows of Parquet files, sorted by person into files of a scratch folder."""

    def __init__(self, path: Path, columns: Columns, scratch: Path, rows: int, watch: Watch):
        self._scratch = scratch
        users, items, seen, counts = Numbering(), Numbering(), 0, np.zeros(0, np.int64)
        for n, frame in enumerate(parquet_blocks(path, columns)):
            watch(f"reading block {n + 1}")
            some = positive(frame)
            seen += frame.height
            items.add(some["item"])
            more = np.bincount(users.add(some["user"]), minlength=len(counts))
            more[: len(counts)] += counts
            counts = more
        if not counts.sum():
            raise DataError("there must be an interaction", path=path)
        user_ids, user_place = users.in_order()
        item_ids, item_place = items.in_order()
        per_user = np.zeros(len(user_ids), np.int64)
        per_user[user_place] = counts
        self._bounds = bounds(per_user, rows)
        for n, frame in enumerate(parquet_blocks(path, columns)):
            watch(f"sorting block {n + 1}")
            some = positive(frame)
            block = {
                "user": user_place[users.add(some["user"])],
                "item": item_place[items.add(some["item"])],
                **({"time": some["timestamp"].to_numpy()} if "timestamp" in some.columns else {}),
            }
            self._sort(block)
        merged = 0
        for index in range(len(self._bounds)):
            watch(f"ordering shard {index + 1} of {len(self._bounds)}")
            merged += self._order(index, len(item_ids))
        nobody = Histories(np.zeros(1, np.int64), np.empty(0, np.int32), len(item_ids))
        loaded = Loaded("Parquet", seen, seen - int(counts.sum()), merged)
        no_ids = np.empty(0, np.int64)
        self.about = Interactions(plain_name(path), nobody, no_ids, item_ids, loaded=loaded)
        """The items, and nobody."""

    def __getitem__(self, index: int) -> Interactions:
        with np.load(self._file(index, "npz")) as found:
            times = found.get("times")
            histories = Histories(found["indptr"], found["indices"], self.about.n_items)
        ids = np.arange(*self._bounds[index])
        return Interactions(self.about.name, histories, ids, self.about.item_ids, times)

    def everybody(self) -> list[Bools]:
        """Marks all people, bucket by bucket."""
        return [np.ones(end - begin, bool) for begin, end in self._bounds]

    def histories(self) -> Iterator[Histories]:
        return (self[index].histories for index in range(len(self._bounds)))

    def _sort(self, columns: dict[str, NDArray[np.integer]]) -> None:
        """Append a block's rows to the files of their people."""
        begins = np.array([begin for begin, _ in self._bounds])
        bucket = np.searchsorted(begins, columns["user"], "right") - 1
        order = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[order], np.arange(len(begins) + 1))
        for index in np.flatnonzero(np.diff(cuts)).tolist():
            rows = order[cuts[index] : cuts[index + 1]]
            for name, values in columns.items():
                with self._file(index, name).open("ab") as file:
                    values[rows].astype(_RAW[name]).tofile(file)

    def _order(self, index: int, n_items: int) -> int:
        """A bucket's rows by person and item; how many repeated pairs were merged."""
        (begin, end), files = self._bounds[index], {name: self._file(index, name) for name in _RAW}
        raw = {name: np.fromfile(file, _RAW[name]) for name, file in files.items() if file.exists()}
        pairs = Pairs(raw["user"] - np.int32(begin), raw["item"], raw.get("time"))
        histories, times, merged = pack(pairs, end - begin, n_items)
        for file in files.values():
            file.unlink(missing_ok=True)
        timed = {} if times is None else {"times": times}
        found = {"indptr": histories.indptr, "indices": histories.indices, **timed}
        np.savez(self._file(index, "npz"), **found)  # type: ignore[arg-type]  # arrays all
        return merged

    def _file(self, index: int, kind: str) -> Path:
        return self._scratch / f"{index:05}.{kind}"


def bounds(lengths: NDArray[np.int64], rows: int) -> list[tuple[int, int]]:
    """From which person to which: so many that their rows are about this many."""
    ends = np.cumsum(lengths)
    turns = np.flatnonzero(np.diff(np.maximum(ends - 1, 0) // rows)) + 1
    return list(pairwise([0, *turns.tolist(), len(lengths)]))
