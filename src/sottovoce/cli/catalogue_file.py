"""Read catalogues from files and data sets, and describe the difference between two catalogues."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sottovoce.cli import output
from sottovoce.cli.options import make_option
from sottovoce.errors import DataError, MissingExtraError, ProtocolError, SettingsError
from sottovoce.protocol import Catalogue, Item
from sottovoce.protocol.catalogue import MAX_LABELS_PER_ITEM, MAX_TEXT_LENGTH
from sottovoce.server.agreement import read_catalogue as read_json_catalogue
from sottovoce.server.catalogue import Difference
from sottovoce.server.setup import list_catalogue_items

if TYPE_CHECKING:
    from sottovoce.data.feeds import Feed

CATALOGUE_HELP = (
    "File with the items: a product export of Shopify or WooCommerce, a Google Merchant feed "
    "(.csv, .tsv, .txt, .xml), a table (.csv, .tsv, .parquet), or a catalogue (.json)."
)
COLUMNS_EXAMPLE = "item=NAME,title=NAME,genre=NAME"
# Letters of the code of a currency, such as EUR.
CURRENCY_CODE_LETTERS = 3
# Items that are listed for each kind of change.
MAX_ITEMS_LISTED = 10

CatalogueColumns = Annotated[
    str | None,
    make_option(
        "Names of the table's columns, such as item=sku,title=name,genre=category. Columns that "
        "are not named here are not read.",
        "those of a known export; else item, title, and all others as tags",
        "--columns",
    ),
]


def read_catalogue_file(
    path: Path, columns: str | None = None, option: str = "--columns"
) -> Catalogue:
    """Read a catalogue from a JSON file, a product feed or a table of items.

    Without names of columns a feed is recognised by its own, and what was understood is printed.

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
    feed = data.feeds.read_feed(path) if columns is None else None
    if feed:
        descriptions = feed.items
        for line in _describe_feed(feed):
            output.print_note(line)
    else:
        advice = (
            f", or say which one it is: {option} {COLUMNS_EXAMPLE}. An export of Shopify has "
            "Handle and Title, one of WooCommerce ID, Type and Name"
        )
        chosen = data.parse_columns(columns, COLUMNS_EXAMPLE)
        descriptions = data.items.read_items(path, chosen, advice=advice)
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
        import sottovoce.data.feeds
    except ImportError as error:
        raise MissingExtraError(
            f"--data, or a table of items, needs {error.name}: pip install 'sottovoce[sim]', or "
            "give --catalogue FILE.json"
        ) from error
    return sottovoce.data


def _describe_feed(feed: "Feed") -> Iterator[str]:
    """Yield lines of text that say what was understood of a feed."""
    summary = feed.summary
    joined = f"; {output.pluralize(summary.variants, 'variant')} joined" * bool(summary.variants)
    articles = output.pluralize(summary.articles, "article")
    yield f"{summary.format}: {articles} from {output.pluralize(summary.rows, 'row')}{joined}."
    left_out = [f"{count:,} {reason}" for reason, count in summary.left_out.items()]
    if summary.common_labels:
        left_out.append(f"labels of all articles ({', '.join(summary.common_labels)})")
    if summary.excess_labels:
        labels = output.pluralize(summary.excess_labels, "label")
        left_out.append(f"{labels} of articles with more than {MAX_LABELS_PER_ITEM}")
    if left_out:
        yield f"Left out: {', '.join(left_out)}."
    if summary.sold_out:
        yield f"Sold out, but not left out: {summary.sold_out:,}."
    tags = ", ".join(f"{count:,} of {kind}" for kind, count in summary.labels.items())
    yield f"Labels: {tags or 'none'}."
    if summary.prices:
        low, high = summary.prices
        yield f"Prices: {low:,.2f} to {high:,.2f}, {summary.currency or 'without a currency'}."
        # A symbol such as "$" stands for several currencies.
        code = summary.currency if len(summary.currency) == CURRENCY_CODE_LETTERS else "XXX"
        numbers = f'{{ price: {{ name: "Price", style: "currency", currency: "{code}" }} }}'
        hint = " (XXX: the code of your currency)" * (code == "XXX")
        yield f"For prices in reasons, give the widget numbers: {numbers}{hint}"
    example = next(iter(feed.items))
    yield f'Ids: {summary.id_column}. A page names an article as in seen="{example}".'


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
