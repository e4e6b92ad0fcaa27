"""Loading a data set by name, from a path or from memory, and writing it as shards."""

import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.core.histories import Histories
from sottovoce.data.buckets import Buckets, ReportProgress, divide_users
from sottovoce.data.columns import Columns
from sottovoce.data.fetching import CANNOT_FETCH, DATA_SETS, get_archive_path
from sottovoce.data.files import MATRIX_SUFFIX, PARQUET_SUFFIXES, TEXT_SUFFIXES
from sottovoce.data.frames import from_matrix, is_table, read_frame, read_matrix
from sottovoce.data.interactions import Interactions
from sottovoce.data.items import with_items
from sottovoce.data.parquet import find_parquet_files, read_parquet
from sottovoce.data.published import MOVIELENS_EDITIONS, is_published, read_published
from sottovoce.data.shards import Shards, ShardWriter
from sottovoce.data.synthetic import SYNTHETIC, parse_synthetic, synthetic_people
from sottovoce.data.text_tables import read_text
from sottovoce.errors import DataError, SettingsError

# Default number of interactions in a shard. Processing it takes a few hundred megabytes of memory.
ROWS_PER_SHARD = 4_000_000
# Formats that can be read, for error messages.
READABLE_FORMATS = """\
a MovieLens archive as published, zip or unpacked (u.data, ratings.dat or ratings.csv);
the Netflix Prize folder (training_set/mv_*.txt or combined_data_*.txt);
a .csv, .tsv (also .gz) or .parquet file with the columns user, item and perhaps rating, timestamp;
an .inter file of RecBole (also .gz);
a folder of .parquet files with such columns, or of shards (`sottovoce data shard`);
a .npz matrix saved by scipy.sparse.save_npz"""


def load(source: Any, columns: Columns = None, items: Any = None) -> Interactions:
    """Load a data set by its name, from a path, or from a table or matrix in memory.

    Args:
        source: A name, a path, a table or a matrix. A string that is `synthetic` or in `DATA_SETS`
            is a name (write `./ml-1m` for a folder of that name); any other string is a path. A
            table in memory is a DataFrame of any library (pandas, polars, also lazy, pyarrow), a
            mapping of columns or a pair `(users, items)`. A matrix, sparse or dense, has users as
            rows and items as columns.
        columns: Names of the columns for `user`, `item`, `rating` and `timestamp`, if they are not
            recognised.
        items: Titles and tags of the items: the path of a catalogue or a table, or a table in
            memory with a column `item`.

    Raises:
        DataError: The source does not exist, cannot be read, or holds an invalid value.

    >>> load("ml-latest-small").histories.n_users
    610
    >>> load({"who": ["ann", "bob"], "item": ["tea", "tea"]}, columns={"user": "who"}).user_ids
    array(['ann', 'bob'], dtype=object)
    """
    if isinstance(source, str | Path):
        data = _load_from_disk(source, columns)
    else:
        data = _load_from_memory(source, columns)
    return data if items is None else with_items(data, items)


def to_interactions(source: Any) -> Interactions:
    """Return interactions in any form that `load` takes; ids of `Histories` are numbers."""
    if isinstance(source, Interactions):
        return source
    if isinstance(source, Histories):
        ids = np.arange(source.n_users), np.arange(source.n_items)
        return Interactions("histories", source, *ids)
    return load(source)


def is_name(source: str | Path) -> bool:
    """Return whether a source is the name of a data set, and not a path."""
    return isinstance(source, str) and (source in DATA_SETS or _is_synthetic(source))


def find_shards(source: str | Path) -> Path | None:
    """Return the path of a folder of shards, or None if the source is anything else."""
    return None if is_name(source) or not Shards.is_at(Path(source)) else Path(source)


def _is_synthetic(source: str) -> bool:
    return source.partition(":")[0] == SYNTHETIC


def _load_from_disk(source: str | Path, columns: Columns) -> Interactions:
    folder = find_shards(source)
    if columns and (is_name(source) or folder):
        raise DataError("this data set has fixed columns: leave out columns", path=source)
    if folder:
        # Callers that need not have all users in memory use find_shards() instead.
        return Shards.read(folder).join()
    if is_name(source):
        return _load_by_name(str(source))
    if not Path(source).exists():
        raise DataError(
            "no file, folder or data set has this name. `sottovoce data info` lists the data sets, "
            "and `sottovoce data info --help` the formats of files",
            path=source,
        )
    return _read(Path(source), columns)


def _load_from_memory(source: Any, columns: Columns) -> Interactions:
    if is_table(source):
        return read_frame(source, columns)
    if columns:
        kind = type(source).__name__
        raise DataError(
            f"columns must be left out for a matrix, and {kind} is taken for one, because it is no "
            "table in memory: its columns are items"
        )
    return from_matrix(source, Path(type(source).__name__))


def _load_by_name(name: str) -> Interactions:
    if _is_synthetic(name):
        return synthetic_people(**parse_synthetic(name))
    entry = DATA_SETS[name]
    if not entry.fetchable:
        raise DataError(CANNOT_FETCH)
    path = entry.bundled or get_archive_path(name)
    if not path.exists():
        raise DataError(f"{name} is not on this machine: run `sottovoce data fetch {name}`")
    return replace(_read(path, None), name=name)


def _read(path: Path, columns: Columns) -> Interactions:
    """Read a file or folder in the format that its name or contents show."""
    # The name is checked first. A file is opened, to see whether it is an archive, only if its name
    # does not show the format.
    name = path.name.lower()
    if _is_parquet(path):
        return read_parquet(path, columns)
    if name.endswith(TEXT_SUFFIXES) and not path.is_dir():
        return read_text(path, columns)
    if columns:
        raise DataError(
            "columns can be named only for CSV, TSV and Parquet files or folders of Parquet files; "
            "leave out columns",
            path=path,
        )
    if name.endswith(MATRIX_SUFFIX) and not path.is_dir():
        return read_matrix(path)
    # For a file of ratings of MovieLens, read its folder, where the titles are.
    if name in {edition.ratings for edition in MOVIELENS_EDITIONS} and not path.is_dir():
        path = path.parent
    if path.is_dir() or name.endswith(".zip") or zipfile.is_zipfile(path):
        data = read_published(path)
        if data is not None:
            return data
    raise DataError(f"the format is not known. It must be one of:\n{READABLE_FORMATS}", path=path)


def _is_parquet(path: Path) -> bool:
    """Return whether `path` is a Parquet file, or a folder of such files.

    A published data set is never treated as such a folder.
    """
    if not path.is_dir():
        return path.name.lower().endswith(PARQUET_SUFFIXES)
    return bool(find_parquet_files(path)) and not is_published(path)


def shard(
    source: str,
    folder: Path,
    *,
    columns: Columns = None,
    items: Path | None = None,
    min_interactions: int = 0,
    rows: int = ROWS_PER_SHARD,
    report_progress: ReportProgress = lambda _: None,
) -> Shards:
    """Filter a data set as `Interactions.filter` does, and write it as shards.

    Args:
        source: The name or path of the data set, as for `load`. Parquet files need not fit into
            memory; other formats are loaded as a whole.
        folder: The folder for the shards, which must be new or empty.
        columns: Names of columns, as for `load`.
        items: A file with titles and tags, as for `load`.
        min_interactions: Number of interactions that every user and item must have.
        rows: Approximate number of rows in a shard.
        report_progress: Called with a short text at the beginning of each step.
    """
    if rows < 1:
        raise SettingsError(f"a shard must have at least 1 row, not {rows}")
    path, is_path = Path(source), not is_name(source)
    # A folder of Parquet files is read with all folders below it, which would include the shards.
    if is_path and path.is_dir() and folder.resolve().is_relative_to(path.resolve()):
        raise DataError(
            f"shards of {source} must be written to a folder outside of it", path=folder
        )
    with ShardWriter(folder) as writer:
        if is_path and not Shards.is_at(path) and _is_parquet(path):
            # Buckets need about as much space as the shards, so they are written on the same disk.
            with tempfile.TemporaryDirectory(dir=writer.folder, prefix="sorting-") as scratch:
                buckets = Buckets(path, columns, Path(scratch), rows, report_progress)
                data = buckets.write_shards(writer, min_interactions, report_progress)
            return writer.finish(data if items is None else with_items(data, items))
        report_progress(f"reading {source}")
        data = load(source, columns, items).filter(min_interactions)
        for begin, end in divide_users(np.diff(data.histories.indptr), rows):
            report_progress(f"{end:,} people")
            writer.add(data.select(np.arange(begin, end), None))
        return writer.finish(data)
