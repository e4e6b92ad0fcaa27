"""Read catalogues from files and data sets, and describe the difference between two catalogues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from sottovoce.cli.options import make_option
from sottovoce.errors import DataError, MissingExtraError, ProtocolError, SettingsError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_TEXT_LENGTH
from sottovoce.server.agreement import read_catalogue as read_json_catalogue
from sottovoce.server.catalogue import Difference
from sottovoce.server.setup import list_catalogue_items

CATALOGUE_HELP = "File with the items: a catalogue (.json), or a table (.csv, .tsv, .parquet)."
COLUMNS_EXAMPLE = "item=NAME,title=NAME,genre=NAME"
# Items that are listed for each kind of change.
MAX_ITEMS_LISTED = 10

CatalogueColumns = Annotated[
    str | None,
    make_option(
        "Names of the table's columns, such as item=sku,title=name,genre=category. Columns that "
        "are not named here are not read.",
        "item, title, and all other columns as tags",
        "--columns",
    ),
]


def read_catalogue_file(
    path: Path, columns: str | None = None, option: str = "--columns"
) -> Catalogue:
    """Read a catalogue from a JSON file or from a table of items.

    Args:
        path: The file.
        columns: The value of the option that names the columns of a table.
        option: Name of that option, for error messages.
    """
    if path.suffix == ".json":
        if columns:
            raise SettingsError(f"{option} is for tables, and {path} is JSON: leave it out")
        return read_json_catalogue(path)
    data = _import_data()
    advice = f", or say which one it is: {option} {COLUMNS_EXAMPLE}"
    descriptions = data.items.read_items(
        path, data.parse_columns(columns, COLUMNS_EXAMPLE), advice=advice
    )
    items = (
        Item(item, (title or item)[:MAX_TEXT_LENGTH], tags)
        for item, (title, tags) in descriptions.items()
    )
    try:
        return Catalogue.from_items(items)
    except ProtocolError as error:
        raise DataError(str(error), path=path) from error


def load_catalogue(source: str) -> Catalogue:
    """Return a catalogue of the items of a data set."""
    return Catalogue.from_items(list_catalogue_items(_import_data().load(source)))


def _import_data() -> Any:
    # Import it here, because a server with a JSON catalogue needs no data loaders.
    try:
        import sottovoce.data
    except ImportError as error:
        raise MissingExtraError(
            f"--data, or a table of items, needs {error.name}: pip install 'sottovoce[sim]', or "
            "give --catalogue FILE.json"
        ) from error
    return sottovoce.data


def describe_difference(difference: Difference) -> Iterator[str]:
    """Yield lines of text that name the added, changed and retired items."""
    changed = [
        f"{after.id}: {before.title} -> {after.title}"
        if before.title != after.title
        else f"{after.id}: {after.title}, other tags"
        for before, after in difference.changed
    ]
    for verb, items in (
        ("added", [f"{item.id}: {item.title}" for item in difference.added]),
        ("changed", changed),
        ("retired", [f"{item.id}: {item.title}" for item in difference.retired]),
    ):
        if items:
            yield f"{len(items):,} {verb}"
        yield from (f"  {item}" for item in items[:MAX_ITEMS_LISTED])
        if len(items) > MAX_ITEMS_LISTED:
            yield f"  and {len(items) - MAX_ITEMS_LISTED:,} more"
