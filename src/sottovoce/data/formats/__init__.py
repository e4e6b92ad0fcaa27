"""Reading data sets: one module for each layout, chosen by looking at what is there."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from sottovoce.data.formats import delimited, matrix, movielens, netflix, parquet
from sottovoce.data.formats.sources import Archive, Folder, Source
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sottovoce.data.interactions import Interactions

UNDERSTOOD = """\
a MovieLens archive as published, zip or unpacked (u.data, ratings.dat or ratings.csv);
the Netflix Prize folder (training_set/mv_*.txt or combined_data_*.txt);
a .csv, .tsv (also .gz) or .parquet file with columns user, item and perhaps rating, timestamp;
a folder of .parquet files with such columns, or of shards (`sottovoce data shard`);
a .npz matrix saved by scipy.sparse.save_npz"""
"""What `read` can read, for messages."""


def read(path: Path, columns: Mapping[str, str] | None = None) -> Interactions:
    """The data set in a file or folder, whichever layout it has."""
    if is_parquet(path):
        return parquet.read(path, columns)
    if path.is_dir():
        return _from_source(Folder(path), columns)
    name = path.name.lower()
    if name.endswith(delimited.SUFFIXES):
        return delimited.read(path, columns)
    _no_columns(columns, path)
    if name.endswith(matrix.SUFFIXES):
        return matrix.read(path)
    if name.endswith(".zip") or zipfile.is_zipfile(path):
        return _from_source(Archive(path), columns)
    if name in {edition.ratings for edition in movielens.EDITIONS}:
        return _from_source(Folder(path.parent), columns)
    raise _not_understood(path)


def is_parquet(path: Path) -> bool:
    """A file of that name, or a folder with some that is not published as anything else."""
    if not path.is_dir():
        return path.name.lower().endswith(parquet.SUFFIXES)
    source = Folder(path)
    published = movielens.recognised(source) or netflix.recognised(source)
    return not published and bool(parquet.files(path))


def _from_source(source: Source, columns: Mapping[str, str] | None) -> Interactions:
    _no_columns(columns, source.path)
    if edition := movielens.recognised(source):
        return movielens.read(source, edition)
    if netflix.recognised(source):
        return netflix.read(source)
    raise _not_understood(source.path)


def _no_columns(columns: Mapping[str, str] | None, path: Path) -> None:
    if columns:
        raise DataError(
            "columns can be named for one CSV, TSV or Parquet file, or for a folder of Parquet",
            path=path,
        )


def _not_understood(path: Path) -> DataError:
    return DataError(f"nothing here is understood. What is:\n{UNDERSTOOD}", path=path)
