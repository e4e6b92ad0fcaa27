"""`load`: a data set by its name or by where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.data import formats
from sottovoce.data.catalogue import CANNOT_FETCH, CATALOGUE, DataSet, archive_path
from sottovoce.data.items import with_items
from sottovoce.data.shards import Shards
from sottovoce.data.synthetic import SYNTHETIC, parse_synthetic, synthetic_people
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sottovoce.data.interactions import Interactions


def load(
    source: str | Path, columns: Mapping[str, str] | None = None, items: Path | None = None
) -> Interactions:
    """The data set of that name or at that path, with titles and tags from `items` if it is given.

    A string that is a name of the catalogue, or `synthetic`, means that name (write `./ml-1m`
    for a folder that happens to be called so). `columns` says which column of a CSV, TSV or
    Parquet file is the `user`, the `item`, the `rating` and the `timestamp`, where their names
    do not say it.

    >>> load("ml-latest-small").histories.n_users
    610
    """
    data = _found(source, columns)
    return data if items is None else with_items(data, items)


def is_name(source: str | Path) -> bool:
    """Whether it is a name, of the catalogue or of invented people, and not a path."""
    return isinstance(source, str) and (
        source in CATALOGUE or source.partition(":")[0] == SYNTHETIC
    )


def shards_at(source: str | Path) -> Path | None:
    """The folder, if it is one of shards."""
    return None if is_name(source) or not Shards.is_at(Path(source)) else Path(source)


def _found(source: str | Path, columns: Mapping[str, str] | None) -> Interactions:
    folder = shards_at(source)
    if columns and (is_name(source) or folder):
        raise DataError("columns are known here and cannot be named", path=source)
    if folder:
        return Shards.read(folder).joined()
    if is_name(source):
        invented = str(source).partition(":")[0] == SYNTHETIC
        if invented:
            return synthetic_people(**parse_synthetic(str(source)))
        return _named(CATALOGUE[str(source)])
    path = Path(source)
    if not path.exists():
        raise DataError(
            "there is no such file or folder, and no data set of this name. Names: sottovoce data "
            "info. Files: sottovoce data info --help",
            path=source,
        )
    return formats.read(path, columns)


def _named(entry: DataSet) -> Interactions:
    if not entry.fetchable:
        raise DataError(CANNOT_FETCH)
    path = entry.bundled or archive_path(entry.name)
    if not path.exists():
        raise DataError(
            f"{entry.name} is not on this machine yet: run `sottovoce data fetch {entry.name}`"
        )
    return replace(formats.read(path), name=entry.name)
