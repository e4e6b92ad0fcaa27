"""What the items of a data set are called and tagged with, from a file beside it.

Either a catalogue as the protocol has it, or a table: one column for the item, perhaps one called
`title`; of the others those with numbers are numbers (year, price), those with text are labels,
several of them joined by `|`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.exceptions import PolarsError

from sottovoce.data.formats.collecting import object_array
from sottovoce.data.formats.columns import ALIASES
from sottovoce.errors import DataError, MissingExtraError, ProtocolError
from sottovoce.model.tags import KIND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sottovoce.data.interactions import Interactions
    from sottovoce.model.tags import Traits

    Described = dict[str, tuple[str, Traits]]
    """Title and tags, by the item's id."""

SINGULAR = {"genres": "genre", "categories": "category", "brands": "brand", "tags": "tag"}
_TEXT = {".csv": ",", ".tsv": "\t"}
_TABLES = (*_TEXT, ".parquet", ".pq")


def with_items(data: Interactions, path: Path) -> Interactions:
    """The data set with titles and tags from a file; an item that is not in it has none."""
    known = read_items(path)
    found = [known.get(str(item), ("", {})) for item in data.item_ids.tolist()]
    if not any(title or tags for title, tags in found):
        raise DataError(
            f"describes none of the {len(found):,} items of {data.name}: the first is "
            f"{str(data.item_ids[0])!r}, here it is {next(iter(known), None)!r}",
            path=path,
        )
    titles, tags = ([each[place] for each in found] for place in (0, 1))
    return replace(data, titles=object_array(titles), tags=object_array(tags))


def read_items(path: Path, columns: Mapping[str, str] | None = None) -> Described:
    """By the suffix: `.json` is a catalogue, `.csv`, `.tsv` and `.parquet` are tables.

    `columns` names those of a table that are read: `{"item": "sku", "title": "name"}`.
    """
    if path.suffix == ".json":
        return _from_catalogue(path)
    if path.suffix not in _TABLES:
        raise DataError(f"items are read from .json, {', '.join(_TABLES)}", path=path)
    try:
        table = _table(path, columns)
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"this table cannot be read: {reason}", path=path) from error
    return _from_table(table, path)


def _from_catalogue(path: Path) -> Described:
    # Here and not above: whoever simulates needs no cryptography.
    try:
        from sottovoce.protocol import Catalogue
    except ImportError as error:
        raise MissingExtraError(
            f"a catalogue needs {error.name}: pip install 'sottovoce[client]', or give a table"
        ) from error
    try:
        items = Catalogue.decode(path.read_bytes()).items
    except OSError as error:
        raise DataError(f"cannot be read: {error}", path=path) from error
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error
    return {item.id: (item.title, item.tags) for item in items}


def _table(path: Path, columns: Mapping[str, str] | None) -> pl.DataFrame:
    """Columns under the names that they go by here."""
    if path.suffix not in _TEXT:
        return _named(pl.read_parquet(path, glob=False), columns, path)
    how: dict[str, Any] = {"separator": _TEXT[path.suffix], "glob": False}
    names = pl.read_csv(path, n_rows=0, **how).columns
    given = {name: role for role, name in (columns or {}).items()}
    # As they are written: "007" and "7" are two items.
    known = {name: given.get(name, name) for name in names}
    text = {n: pl.String for n, role in known.items() if _is_item(role) or _plain(role) == "title"}
    table = pl.read_csv(path, schema_overrides=text, infer_schema_length=None, **how)
    return _named(table, columns, path)


def _named(table: pl.DataFrame, columns: Mapping[str, str] | None, path: Path) -> pl.DataFrame:
    if columns is None:
        return table
    missing = [name for name in columns.values() if name not in table.columns]
    if missing:
        raise DataError(
            f"there is no column {missing[0]!r}; the columns are "
            f"{', '.join(map(repr, table.columns))}",
            path=path,
        )
    return table.select(pl.col(name).alias(role) for role, name in columns.items())


def _is_item(name: str) -> bool:
    return _plain(name).replace("_", "") in ALIASES["item"]


def _from_table(table: pl.DataFrame, path: Path) -> Described:
    names = {name: _plain(name) for name in table.columns}
    ids = [name for name in names if _is_item(name)]
    if len(ids) > 1:
        raise DataError(f"{', '.join(map(repr, ids))} could each be the item", path=path)
    if not ids:
        raise DataError(
            f"one column must be the item ({', '.join(ALIASES['item'])}); the columns are "
            f"{', '.join(map(repr, table.columns))}",
            path=path,
        )
    item = ids[0]
    if table[item].dtype.is_float():
        raise DataError(f"column {item!r} has decimal numbers; ids are integers or text", path=path)
    if table[item].null_count() or table[item].n_unique() != table.height:
        twice = table[item].drop_nulls().filter(table[item].drop_nulls().is_duplicated())
        what = f"{twice[0]!r} is there twice" if len(twice) else "an item is missing"
        raise DataError(f"in column {item!r} {what}", path=path)
    titles = [""] * table.height
    tags: list[dict[str, Any]] = [{} for _ in titles]
    columns: dict[str, str] = {}
    for name, plain in names.items():
        if name == item:
            continue
        kind = _kind(plain, name, path)
        if kind in columns:
            raise DataError(f"columns {columns[kind]!r} and {name!r} are both {kind!r}", path=path)
        columns[kind] = name
        if kind == "title":
            titles = ["" if title is None else str(title) for title in table[name]]
        else:
            _add_kind(tags, kind, table[name], path)
    keys = [str(each) for each in table[item]]
    return dict(zip(keys, zip(titles, tags, strict=True), strict=True))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _kind(plain: str, name: str, path: Path) -> str:
    if not KIND.fullmatch(plain):
        raise DataError(f"column {name!r} cannot name a kind of tag: {KIND.pattern}", path=path)
    return SINGULAR.get(plain, plain)


def _add_kind(tags: list[dict[str, Any]], kind: str, column: pl.Series, path: Path) -> None:
    """The column's value of each item, where it has one."""
    is_number = column.dtype.is_numeric()
    if not is_number and column.dtype != pl.String:
        raise DataError(f"column {column.name!r} has neither numbers nor text", path=path)
    if column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    for row, value in enumerate(column):
        if value is None or value == "":
            continue
        if is_number and not 0 <= value < 2**53:  # a NaN is not
            raise DataError(
                f"row {row + 1}: {column.name} is {value!r}; a number is 0 or more", path=path
            )
        if not is_number:
            value = tuple(
                dict.fromkeys(label for part in value.split("|") if (label := part.strip()))
            )
        tags[row][kind] = value
