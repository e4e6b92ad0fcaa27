"""A data set by its name, by where it is, or from a table in memory; and cut into shards."""

import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.data.fetching import CANNOT_FETCH, CATALOGUE, archive_path
from sottovoce.data.interactions import Interactions
from sottovoce.data.items import with_items
from sottovoce.data.published import EDITIONS, is_published, read_published
from sottovoce.data.shards import Buckets, Shards, ShardWriter, Watch, bounds, sort_out
from sottovoce.data.synthetic import SYNTHETIC, parse_synthetic, synthetic_people
from sottovoce.data.tables import (
    MATRIX,
    PARQUET,
    TEXT,
    Columns,
    is_table,
    of_matrix,
    parquet_files,
    read_frame,
    read_matrix,
    read_parquet,
    read_text,
)
from sottovoce.errors import DataError, SettingsError

ROWS = 4_000_000
"""Interactions of a shard: some hundred megabytes while it is worked on."""
UNDERSTOOD = """\
a MovieLens archive as published, zip or unpacked (u.data, ratings.dat or ratings.csv);
the Netflix Prize folder (training_set/mv_*.txt or combined_data_*.txt);
a .csv, .tsv (also .gz) or .parquet file with columns user, item and perhaps rating, timestamp;
a folder of .parquet files with such columns, or of shards (`sottovoce data shard`);
a .npz matrix saved by scipy.sparse.save_npz"""
"""What can be read, for messages."""


def load(source: Any, columns: Columns = None, items: Path | None = None) -> Interactions:
    """A data set by its name, its path, or from a table in memory.

    Args:
        source: A string that is a name of the catalogue, or `synthetic`, means that name (write
            `./ml-1m` for a folder of that name); any other string is a path. A table in memory is a
            DataFrame of any library (pandas, polars, pyarrow), a mapping of columns or a pair
            `(users, items)`; a matrix, sparse or dense, has people as rows and items as columns.
        columns: Which column of a table is the `user`, the `item`, the `rating` and the
            `timestamp`, where their names do not say it.
        items: A file with titles and tags of the items: a catalogue, or a table.

    >>> load("ml-latest-small").histories.n_users
    610
    >>> load({"who": ["ann", "bob"], "item": ["tea", "tea"]}, columns={"user": "who"}).user_ids
    array(['ann', 'bob'], dtype=object)
    """
    data = _found(source, columns) if isinstance(source, str | Path) else _given(source, columns)
    return data if items is None else with_items(data, items)


def is_name(source: str | Path) -> bool:
    """Whether it is a name, of the catalogue or of invented people, and not a path."""
    return isinstance(source, str) and (source in CATALOGUE or _is_invented(source))


def shards_at(source: str | Path) -> Path | None:
    """The folder, if it is one of shards."""
    return None if is_name(source) or not Shards.is_at(Path(source)) else Path(source)


def _is_invented(source: str) -> bool:
    return source.partition(":")[0] == SYNTHETIC


def _found(source: str | Path, columns: Columns) -> Interactions:
    folder = shards_at(source)
    if columns and (is_name(source) or folder):
        raise DataError("columns are known here: leave them out", path=source)
    if folder:
        return Shards.read(folder).joined()
    if is_name(source):
        return _named(str(source))
    if not Path(source).exists():
        raise DataError(
            "there is no such file or folder, and no data set of this name. Names: sottovoce data "
            "info. Files: sottovoce data info --help",
            path=source,
        )
    return _read(Path(source), columns)


def _given(source: Any, columns: Columns) -> Interactions:
    if is_table(source):
        return read_frame(source, columns)
    if columns:
        raise DataError("a matrix must be given without columns: its rows are people")
    return of_matrix(source, Path(type(source).__name__))


def _named(name: str) -> Interactions:
    if _is_invented(name):
        return synthetic_people(**parse_synthetic(name))
    entry = CATALOGUE[name]
    if not entry.fetchable:
        raise DataError(CANNOT_FETCH)
    path = entry.bundled or archive_path(name)
    if not path.exists():
        raise DataError(f"{name} is not on this machine yet: run `sottovoce data fetch {name}`")
    return replace(_read(path, None), name=name)


def _read(path: Path, columns: Columns) -> Interactions:
    """The data set in a file or folder, whichever layout it has."""
    name = path.name.lower()
    if _is_parquet(path):
        return read_parquet(path, columns)
    if name.endswith(TEXT) and not path.is_dir():
        return read_text(path, columns)
    if columns:
        said = "columns must be those of one CSV, TSV or Parquet file, or of a folder of Parquet"
        raise DataError(said, path=path)
    if name.endswith(MATRIX) and not path.is_dir():
        return read_matrix(path)
    if name in {each.ratings for each in EDITIONS} and not path.is_dir():
        path = path.parent
    if path.is_dir() or name.endswith(".zip") or zipfile.is_zipfile(path):
        data = read_published(path)
        if data is not None:
            return data
    raise DataError(f"nothing here is understood. What is:\n{UNDERSTOOD}", path=path)


def _is_parquet(path: Path) -> bool:
    """A file of that name, or a folder with some that is not published as anything else."""
    if not path.is_dir():
        return path.name.lower().endswith(PARQUET)
    return bool(parquet_files(path)) and not is_published(path)


def shard(
    source: str,
    folder: Path,
    *,
    columns: Columns = None,
    items: Path | None = None,
    min_interactions: int = 0,
    rows: int = ROWS,
    watch: Watch = lambda _: None,
) -> Shards:
    """Write a data set as shards of about so many rows; with the people and items of `filter`.

    Parquet need not fit into memory; anything else is loaded first, and cut.
    """
    if rows < 1:
        raise SettingsError(f"a shard must have at least one row, not {rows}")
    path, is_path = Path(source), not is_name(source)
    if is_path and path.is_dir() and folder.resolve().is_relative_to(path.resolve()):
        raise DataError(f"shards of {source} must not be written into it", path=folder)
    with ShardWriter(folder) as writer:
        if is_path and not Shards.is_at(path) and _is_parquet(path):
            with tempfile.TemporaryDirectory(dir=writer.folder, prefix="sorting-") as scratch:
                buckets = Buckets(path, columns, Path(scratch), rows, watch)
                about = sort_out(buckets, writer, min_interactions, watch)
            return writer.finish(about if items is None else with_items(about, items))
        watch(f"reading {source}")
        about, people = load(source, columns, items).filter(min_interactions), 0
        for begin, end in bounds(np.diff(about.histories.indptr), rows):
            part = about.select(np.arange(begin, end), None)
            people += part.n_users
            watch(f"{people:,} people")
            writer.add(part)
        return writer.finish(about)
