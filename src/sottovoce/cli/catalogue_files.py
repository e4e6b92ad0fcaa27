"""Catalogues from what an operator has: JSON, a table of items, a data set."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.errors import DataError, MissingExtraError, ProtocolError, SettingsError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_TEXT
from sottovoce.server.choice import read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sottovoce.data import Interactions

FILE = "Catalogue (.json), or a table of items (.csv, .tsv, .parquet)."
EXAMPLE = "item=NAME,title=NAME,genre=NAME"
ADVICE = f". Name one of them so, or say which it is: --columns {EXAMPLE}"
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Names of the table's columns, such as item=sku,title=name,genre=category. Only those "
        "named are read.",
        show_default="item, title, and all others as tags",
    ),
]


def catalogue_in(path: Path, columns: str | None = None) -> Catalogue:
    """As the protocol has it, or a table of items."""
    if path.suffix == ".json":
        if columns:
            raise SettingsError(f"--columns is for tables, and {path} is JSON")
        return read_catalogue(path)
    data = _loaders()
    named = data.parse_columns(columns, EXAMPLE)
    known = data.items.read_items(path, named, advice=ADVICE)
    items = (Item(item, (title or item)[:MAX_TEXT], tags) for item, (title, tags) in known.items())
    with naming(path):
        return Catalogue.of(items)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say which file it was that does not make a catalogue."""
    try:
        yield
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error


def catalogue_of(source: str) -> Catalogue:
    return Catalogue.of(items_of(_loaders().load(source)))


def items_of(data: Interactions) -> list[Item]:
    return [Item(number, title[:MAX_TEXT], tags) for number, title, tags in data.described()]


def _loaders() -> Any:
    """Here and not above: a server that brings its own catalogue needs no data loaders."""
    try:
        import sottovoce.data
    except ImportError as error:
        raise MissingExtraError(
            f"--data, or a table of items, needs {error.name}: pip install 'sottovoce[sim]', or "
            "give --catalogue FILE.json"
        ) from error
    return sottovoce.data
