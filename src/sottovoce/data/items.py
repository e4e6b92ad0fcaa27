"""What the items of a data set are called and tagged with, from a file beside it.

Either a catalogue as the protocol has it, or a table: one column for the item, perhaps one called
`title`; of the others those with numbers are numbers (year, price), those with text are labels,
several of them joined by `|`. A column with mostly numbers and some text is refused: one "n/a"
would make labels of all prices.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sottovoce.characters import CONTROL, named
from sottovoce.data.formats.collecting import object_array
from sottovoce.data.formats.columns import ALIASES
from sottovoce.data.item_table import TABLES, read_table
from sottovoce.errors import DataError, MissingExtraError, ProtocolError, reason
from sottovoce.model.tags import KIND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sottovoce.data.interactions import Interactions
    from sottovoce.data.item_table import Table
    from sottovoce.model.tags import Traits

    Described = dict[str, tuple[str, Traits]]
    """Title and tags, by the item's id."""

SINGULAR = {"genres": "genre", "categories": "category", "brands": "brand", "tags": "tag"}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE
)


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


def read_items(
    path: Path, columns: Mapping[str, str] | None = None, *, advice: str = ""
) -> Described:
    """By the suffix: `.json` is a catalogue, `.csv`, `.tsv` and `.parquet` are tables.

    `columns` names those of a table that are read: `{"item": "sku", "title": "name"}`. `advice`
    says how to do that, to whoever is told that no column is the item.
    """
    if path.suffix == ".json":
        return _from_catalogue(path)
    if path.suffix not in TABLES:
        raise DataError(f"items are read from .json, {', '.join(TABLES)}", path=path)
    return _from_table(read_table(path), columns, advice)


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
        raise DataError(f"cannot be read: {reason(error)}", path=path) from error
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error
    return {item.id: (item.title, item.tags) for item in items}


def _from_table(table: Table, columns: Mapping[str, str] | None, advice: str) -> Described:
    item, kinds = _roles(table, columns, advice)
    ids = _ids(table, item)
    for column in (item, *kinds.values()):
        _check_characters(table, column, ids)
    titles = [""] * len(ids)
    tags: list[dict[str, Any]] = [{} for _ in ids]
    for kind, column in kinds.items():
        if kind == "title":
            cells = table.cells[column]
            titles = ["" if title is None else str(title).strip() for title in cells]
        else:
            for row, value in _values(table, column):
                tags[row][kind] = value
    table.check()
    return dict(zip(ids, zip(titles, tags, strict=True), strict=True))


def _roles(
    table: Table, columns: Mapping[str, str] | None, advice: str
) -> tuple[str, dict[str, str]]:
    """The column of the item; those of title and tags, by kind."""
    given = {name: name for name in table.names} if columns is None else dict(columns)
    if missing := [name for name in given.values() if name not in table.names]:
        lacking = " and no column ".join(map(repr, missing))
        raise DataError(
            f"there is no column {lacking}; the columns are {table.listed()}", path=table.path
        )
    if twice := [name for name in given.values() if table.names.count(name) > 1]:
        raise DataError(f"two columns are called {twice[0]!r}", path=table.path)
    items = [role for role in given if _plain(role).replace("_", "") in ALIASES["item"]]
    if len(items) > 1:
        several = ", ".join(repr(given[role]) for role in items)
        raise DataError(f"{several} could each be the item", path=table.path)
    if not items:
        raise DataError(
            f"one column must be the item ({', '.join(ALIASES['item'])}); the columns are "
            f"{table.listed()}{advice}",
            path=table.path,
        )
    kinds: dict[str, str] = {}
    for role, name in given.items():
        if role == items[0]:
            continue
        kind = _kind(role, table.path)
        if kind in kinds:
            both = f"columns {kinds[kind]!r} and {name!r} are both {kind!r}"
            raise DataError(both, path=table.path)
        kinds[kind] = name
    return given[items[0]], kinds


def _ids(table: Table, column: str) -> list[str]:
    """As they are written: "007" and "7" are two items."""
    first: dict[str, int] = {}
    ids = ["" if cell is None else str(cell).strip() for cell in table.cells[column]]
    if any(isinstance(cell, float) for cell in table.cells[column]):
        raise DataError(
            f"column {column!r} has decimal numbers; ids are integers or text", path=table.path
        )
    for row, each in enumerate(ids):
        if not each:
            table.problems.append((row, f"column {column!r} is empty: every item needs an id"))
        elif first.setdefault(each, row) != row:
            before = table.where(first[each])
            table.problems.append((row, f"column {column!r} has {each!r} again, as in {before}"))
    return ids


def _check_characters(table: Table, column: str, ids: list[str]) -> None:
    """Every text of a catalogue is shown, perhaps on a terminal."""
    for row, cell in enumerate(table.cells[column]):
        if isinstance(cell, str) and (found := CONTROL.search(cell.strip())):
            said = f"column {column!r} of item {ids[row]!r:.80} has a control character"
            table.problems.append((row, f"{said}, {named(found[0])}"))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _kind(name: str, path: Path) -> str:
    plain = _plain(name)
    if not KIND.fullmatch(plain):
        raise DataError(f"column {name!r} cannot name a kind of tag: {KIND.pattern}", path=path)
    return SINGULAR.get(plain, plain)


def _values(table: Table, column: str) -> Iterator[tuple[int, tuple[str, ...] | float]]:
    """Row and tag of each item that has one."""
    filled = [(row, cell) for row, cell in enumerate(table.cells[column]) if cell not in (None, "")]
    if table.is_text:
        filled = _judged(table, column, filled)
    for row, value in filled:
        if isinstance(value, str):
            labels = (label for part in value.split("|") if (label := part.strip()))
            yield row, tuple(dict.fromkeys(labels))
        elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            said = f"column {column!r} has neither numbers nor text"
            raise DataError(said, path=table.path)
        elif not 0 <= value < 2**53:  # a NaN is not
            said = f"column {column!r} has {value}; a number is 0 or more, below 2^53"
            table.problems.append((row, said))
        else:
            yield row, float(value) if isinstance(value, Decimal) else value


def _judged(
    table: Table, column: str, filled: list[tuple[int, str]]
) -> list[tuple[int, str | float]]:
    """Numbers if all cells are, labels if most are not. Between that somebody mistyped a number."""
    numbers = [cell for _, cell in filled if _NUMBER.fullmatch(cell)]
    others = [(row, cell) for row, cell in filled if not _NUMBER.fullmatch(cell)]
    if others and len(numbers) > len(others):
        row, example = others[0]
        more = f" (and {len(others) - 1:,} more)" if len(others) > 1 else ""
        said = (
            f"column {column!r} has {len(numbers):,} numbers, but here {example!r:.80}{more}: mend "
            "the cell, an empty one is no tag, or leave the column out"
        )
        table.problems.append((row, said))
    if others:
        return list(filled)
    if all(_WHOLE.fullmatch(cell) for cell in numbers):
        # Thirty digits are too large already; Python reads no more than some thousands.
        return [(row, int(cell[:30])) for row, cell in filled]
    return [(row, float(cell)) for row, cell in filled]
