"""Product feeds of shops: the exports of Shopify and WooCommerce, and Google Merchant feeds.

A feed has a row for each variant of an article. The variants become one item, whose id is the name
by which a page of the shop knows the article. Categories become labels, one for each level, and
the lowest price of the variants becomes a number.

Formats: help.shopify.com/manual/products/import-export/using-csv (the names of columns until 2024,
and those since), github.com/woocommerce/woocommerce/wiki/Product-CSV-Import-Schema, and
support.google.com/merchants/answer/7052112.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from os.path import commonprefix
from pathlib import Path

from sottovoce.characters import replace_control_characters
from sottovoce.core.tags import Traits
from sottovoce.data.feed_files import (
    TEXT_FEED_SUFFIXES,
    XML_FEED_SUFFIXES,
    FeedFormat,
    FeedRows,
    read_text_rows,
    read_xml_rows,
)
from sottovoce.data.interactions import ItemDescriptions
from sottovoce.data.prices import find_decimal_marks, parse_number, split_price
from sottovoce.errors import DataError
from sottovoce.protocol.catalogue import MAX_LABELS_PER_ITEM, MAX_TEXT_LENGTH

SHOPIFY = FeedFormat(
    "Shopify export",
    {
        "id": ("handle", "url handle"),
        "title": ("title",),
        "category": ("product category",),
        "type": ("type",),
        "brand": ("vendor",),
        "tag": ("tags",),
        "published": ("published", "published on online store"),
        "status": ("status",),
        "price": ("variant price", "price"),
        "option": ("option1 value",),
    },
    required=("id", "title"),
    distinctive=("price", "option", "published"),
    numbered={},
)
# The exporter translates the names of its columns. These are the English and the German ones.
WOOCOMMERCE = FeedFormat(
    "WooCommerce export",
    {
        "id": ("id",),
        "form": ("type", "typ"),
        "sku": ("sku", "artikelnummer"),
        "title": ("name",),
        "published": ("published", "veröffentlicht"),
        "visibility": ("visibility in catalog", "sichtbarkeit im katalog"),
        "stock": ("in stock?", "vorrätig?"),
        "sale begin": ("date sale price starts", "datum, an dem angebotspreis beginnt"),
        "sale end": ("date sale price ends", "datum, an dem angebotspreis endet"),
        "sale price": ("sale price", "angebotspreis"),
        "price": ("regular price", "regulärer preis"),
        "category": ("categories", "kategorien"),
        "tag": ("tags", "schlagwörter"),
        "brand": ("brands", "marken"),
        "parent": ("parent", "übergeordnetes produkt"),
    },
    required=("id", "form", "title"),
    distinctive=("published", "price", "category"),
    numbered={
        "attribute name": re.compile(r"attribute? ([0-9]+) name"),
        "attribute values": re.compile(r"attribute? ([0-9]+) (?:value\(s\)|wert\(e\))"),
    },
)
GOOGLE = FeedFormat(
    "Google Merchant feed",
    {
        "id": ("id",),
        "title": ("title",),
        "group": ("item group id",),
        "category": ("product type",),
        "google category": ("google product category",),
        "brand": ("brand",),
        "price": ("price",),
        "sale price": ("sale price",),
        "sale dates": ("sale price effective date",),
        "availability": ("availability",),
        "link": ("link",),
    },
    required=("id", "title"),
    distinctive=("link", "availability", "group", "category", "google category"),
    numbered={},
)
TEXT_FORMATS = (SHOPIFY, WOOCOMMERCE, GOOGLE)

# What a cell of each column may say, in lower case, and why such an article is left out; None: it
# is not left out. The statuses of WooCommerce are numbers.
_SHOPIFY_STATUSES = {"": None, "active": None, "draft": "draft", "archived": "archived"}
_SHOPIFY_STATUSES |= {"unlisted": "unlisted"}
_SHOPIFY_PUBLISHED = {"": None, "true": None, "false": "not published"}
# A German spreadsheet translates them.
_SHOPIFY_PUBLISHED |= {"wahr": None, "falsch": "not published"}
_WOOCOMMERCE_PUBLISHED = {"": None, "1": None, "0": "private", "-1": "draft", "2": "pending"}
_WOOCOMMERCE_VISIBILITIES = {
    **dict.fromkeys(("", "visible", "catalog", "search")),
    "hidden": "hidden",
}
_ORPHAN_VARIATION = "variation without its product"
_SOLD_OUT = ("out of stock", "out_of_stock")

# WooCommerce puts an apostrophe before text that a spreadsheet might take for a formula.
_FORMULA_GUARD = re.compile(r"^'(?=[=+\-@])")
# A comma between values. WooCommerce writes a comma that belongs to a value as "\,".
_VALUE_SEPARATOR = re.compile(r"(?<!\\),")
_HTML_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# What separates the name of an article from that of its variant.
_VARIANT_SEPARATOR = re.compile(r"\s+[-–—|/(]\s*|[,:]\s+")


@dataclass
class Article:
    """An article, with what its rows say about it."""

    row: int
    """The first row."""
    titles: list[str] = field(default_factory=list)
    labels: dict[str, dict[str, None]] = field(default_factory=dict)
    """Labels by kind, in order and without repetitions."""
    price_rows: list[tuple[int, str]] = field(default_factory=list)
    """Rows and roles of the cells with the prices of its variants."""
    variants: int = 0
    left_out: str | None = None
    """Why it is left out; None if it is not."""
    is_sold_out: bool = False

    def add_labels(self, kind: str, labels: Iterable[str]) -> None:
        """Add the labels of a kind that are not empty."""
        for label in labels:
            if cleaned := clean_text(label)[:MAX_TEXT_LENGTH].strip():
                self.labels.setdefault(kind, {})[cleaned] = None


Articles = dict[str, Article]


@dataclass(frozen=True)
class FeedSummary:
    """What was understood of a feed."""

    format: str
    id_column: str
    """The column with the ids of the articles, or the columns."""
    rows: int
    articles: int
    variants: int
    """Number of variants that were joined to articles with several of them."""
    left_out: Mapping[str, int]
    """Number of articles that were left out, by reason."""
    sold_out: int
    """Number of articles that are sold out, which are not left out."""
    labels: Mapping[str, int]
    """Number of different labels of each kind."""
    common_labels: tuple[str, ...]
    """Labels that all articles have. They tell nothing and are left out."""
    excess_labels: int
    """Labels that were left out because their article has too many."""
    prices: tuple[float, float] | None
    """The lowest and the highest price; None if there is no price."""
    currency: str
    """The code of the currency, or its symbol; empty if the feed does not name it."""


@dataclass(frozen=True)
class Feed:
    """The articles of a feed."""

    items: ItemDescriptions
    """Title and tags of each article, by its id."""
    summary: FeedSummary


def read_feed(path: Path) -> Feed | None:
    """Read a product feed, whose format is recognised by its columns.

    Returns:
        The feed, or None if the file is another table.

    Raises:
        DataError: The feed is invalid. The error names the format, the line and the column.
    """
    suffix = path.suffix.lower()
    if suffix in XML_FEED_SUFFIXES:
        rows: FeedRows | None = read_xml_rows(path, GOOGLE)
    elif suffix in TEXT_FEED_SUFFIXES:
        rows = read_text_rows(path, TEXT_FORMATS)
    else:
        return None
    if rows is None:
        return None
    if not len(rows):
        raise DataError(
            f"{rows.format.name}: there must be at least one row below the header", path=path
        )
    id_roles, articles = _READERS[rows.format.name](rows)
    rows.table.raise_problems()
    return _make_feed(rows, id_roles, articles)


def clean_text(text: str) -> str:
    """Return text as people read it: one line, without HTML."""
    return " ".join(replace_control_characters(_HTML_TAG.sub(" ", unescape(text))).split())


def _read_id(rows: FeedRows, row: int, role: str) -> str:
    """Return an id, or add a problem if it is empty or cannot be an id."""
    item = rows.get(row, role)
    if not item:
        rows.add_problem(row, role, "is empty: every row needs an id")
    elif len(item) > MAX_TEXT_LENGTH or replace_control_characters(item) != item:
        rows.add_problem(
            row, role, f"must have at most {MAX_TEXT_LENGTH} characters, none of them invisible"
        )
    return item


def _read_choice(
    rows: FeedRows, row: int, role: str, reasons: Mapping[str, str | None]
) -> str | None:
    """Return why a cell leaves an article out, or None; add a problem if the cell is unknown."""
    cell = rows.get(row, role).lower()
    if cell not in reasons:
        expected = ", ".join(filter(None, reasons))
        rows.add_problem(row, role, f"has {rows.get(row, role)!r:.80}; it must be {expected}")
    return reasons.get(cell)


def _split_values(cell: str) -> list[str]:
    return [value.replace("\\,", ",") for value in _VALUE_SEPARATOR.split(cell)]


def _split_levels(path: str) -> list[str]:
    """Split a path of categories, such as "Drinks > Tea", into its levels."""
    return unescape(path).split(">")


def _read_shopify(rows: FeedRows) -> tuple[Sequence[str], Articles]:
    """Join the rows of each handle. Only the first of them describes the article."""
    articles: Articles = {}
    for row in range(len(rows)):
        article = articles.setdefault(_read_id(rows, row, "id"), Article(row))
        article.titles.append(rows.get(row, "title"))
        article.left_out = (
            article.left_out
            or _read_choice(rows, row, "status", _SHOPIFY_STATUSES)
            or _read_choice(rows, row, "published", _SHOPIFY_PUBLISHED)
        )
        article.add_labels("category", _split_levels(rows.get(row, "category")))
        article.add_labels("type", [rows.get(row, "type")])
        article.add_labels("brand", [rows.get(row, "brand")])
        article.add_labels("tag", _split_values(rows.get(row, "tag")))
        # Rows with neither have a further picture.
        if rows.get(row, "price") or rows.get(row, "option"):
            article.variants += 1
            article.price_rows.append((row, "price"))
    return ("id",), articles


def _read_google(rows: FeedRows) -> tuple[Sequence[str], Articles]:
    """Join the rows of each group of variants."""
    articles: Articles = {}
    first_rows: dict[str, int] = {}
    for row in range(len(rows)):
        name = _read_id(rows, row, "id")
        _check_repeated(rows, row, name, first_rows)
        group = _read_id(rows, row, "group") if rows.get(row, "group") else name
        article = articles.setdefault(group, Article(row, is_sold_out=True))
        article.titles.append(rows.get(row, "title"))
        article.variants += 1
        types = _split_values(rows.get(row, "category"))
        if not any(types):
            # Google's own category may be a number. It has commas within its levels.
            google_category = rows.get(row, "google category")
            types = [] if google_category.isdecimal() else [google_category]
        for path in types:
            article.add_labels("category", _split_levels(path))
        article.add_labels("brand", [rows.get(row, "brand")])
        # A sale between two dates would change a price without a new feed.
        has_sale = rows.get(row, "sale price") and not rows.get(row, "sale dates")
        article.price_rows.append((row, "sale price" if has_sale else "price"))
        article.is_sold_out &= rows.get(row, "availability").lower() in _SOLD_OUT
    has_groups = any(rows.table.cells.get("group", ()))
    return (("group", "id") if has_groups else ("id",)), articles


def _check_repeated(rows: FeedRows, row: int, name: str, first_rows: dict[str, int]) -> None:
    if name and first_rows.setdefault(name, row) != row:
        location = rows.table.format_location(first_rows[name])
        rows.add_problem(row, "id", f"must not repeat {name!r:.80} of {location}")


def _read_woocommerce(rows: FeedRows) -> tuple[Sequence[str], Articles]:
    """Join variations to their products, which may stand before or after them."""
    for cells in rows.table.cells.values():
        cells[:] = [_FORMULA_GUARD.sub("", cell) for cell in cells]
    articles: Articles = {}
    by_reference: dict[str, Article] = {}
    first_rows: dict[str, int] = {}
    variations: list[int] = []
    for row in range(len(rows)):
        name = _read_id(rows, row, "id")
        _check_repeated(rows, row, name, first_rows)
        if rows.get(row, "form").lower().endswith("variation"):
            variations.append(row)
            continue
        articles[name] = article = Article(row, titles=[rows.get(row, "title")])
        by_reference[f"id:{name}"] = article
        if sku := rows.get(row, "sku"):
            by_reference.setdefault(sku, article)
        article.left_out = _read_choice(
            rows, row, "published", _WOOCOMMERCE_PUBLISHED
        ) or _read_choice(rows, row, "visibility", _WOOCOMMERCE_VISIBILITIES)
        for path in _split_values(rows.get(row, "category")):
            article.add_labels("category", _split_levels(path))
        for path in _split_values(rows.get(row, "brand")):
            article.add_labels("brand", _split_levels(path))
        article.add_labels("tag", _split_values(rows.get(row, "tag")))
        _add_woocommerce_price(rows, row, article)
        article.is_sold_out = rows.get(row, "stock") == "0"
    options = _join_variations(rows, variations, articles, by_reference)
    for article in articles.values():
        _add_attributes(rows, article, options.get(article.row, set()))
    return ("id",), articles


def _join_variations(
    rows: FeedRows, variations: list[int], articles: Articles, by_reference: dict[str, Article]
) -> dict[int, set[str]]:
    """Add the prices of variations to their products.

    Returns:
        For the row of each product, the names of the attributes in which its variations differ.
    """
    options: dict[int, set[str]] = {}
    for row in variations:
        parent = by_reference.get(rows.get(row, "parent"))
        if parent is None:
            name = rows.get(row, "id")
            articles[f"variation {name}"] = Article(row, left_out=_ORPHAN_VARIATION)
            continue
        parent.variants += 1
        options.setdefault(parent.row, set()).update(
            name for name, values in _list_attributes(rows, row) if values
        )
        if _read_choice(rows, row, "published", _WOOCOMMERCE_PUBLISHED) is None:
            _add_woocommerce_price(rows, row, parent)
    return options


def _add_woocommerce_price(rows: FeedRows, row: int, article: Article) -> None:
    # A sale between two dates would change a price without a new export.
    has_dates = rows.get(row, "sale begin") or rows.get(row, "sale end")
    has_sale = rows.get(row, "sale price") and not has_dates
    article.price_rows.append((row, "sale price" if has_sale else "price"))


def _list_attributes(rows: FeedRows, row: int) -> list[tuple[str, str]]:
    """Return the names of the attributes of a row, and their values in one text."""
    prefix = "attribute name "
    numbers = [role.removeprefix(prefix) for role in rows.columns if role.startswith(prefix)]
    return [
        (name, rows.get(row, f"attribute values {number}"))
        for number in numbers
        if (name := rows.get(row, prefix + number))
    ]


def _add_attributes(rows: FeedRows, article: Article, options: set[str]) -> None:
    """Add attributes as labels, such as "Origin: Assam", but not those that a visitor chooses."""
    for name, values in _list_attributes(rows, article.row):
        if name not in options:
            cleaned = (value for value in map(clean_text, _split_values(values)) if value)
            article.add_labels("attribute", (f"{name}: {value}" for value in cleaned))


_READERS = {
    SHOPIFY.name: _read_shopify,
    WOOCOMMERCE.name: _read_woocommerce,
    GOOGLE.name: _read_google,
}


def _make_feed(rows: FeedRows, id_roles: Sequence[str], articles: Articles) -> Feed:
    """Return the items of those articles that are not left out, and a summary."""
    path = rows.table.path
    published = {item: article for item, article in articles.items() if article.left_out is None}
    left_out = Counter(article.left_out for article in articles.values() if article.left_out)
    if not published:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise DataError(
            f"{rows.format.name}: there must be at least one published article, but all are left "
            f"out ({reasons})",
            path=path,
        )
    prices, currency = _read_prices(rows, published)
    counts = Counter(
        (kind, label)
        for article in published.values()
        for kind, labels in article.labels.items()
        for label in labels
    )
    common = {entry for entry, count in counts.items() if count == len(published) > 1}
    items: dict[str, tuple[str, Traits]] = {}
    excess = 0
    for item, article in published.items():
        tags, n_excess = _choose_tags(article, common)
        excess += n_excess
        if item in prices:
            tags["price"] = prices[item]
        items[item] = (_choose_title(article), tags)
    summary = FeedSummary(
        rows.format.name,
        " or else ".join(rows.columns[role] for role in id_roles),
        rows=len(rows),
        articles=len(published),
        variants=sum(article.variants for article in published.values() if article.variants > 1),
        left_out=dict(left_out),
        sold_out=sum(article.is_sold_out for article in published.values()),
        labels=Counter(kind for kind, label in counts if (kind, label) not in common),
        common_labels=tuple(label for _, label in sorted(common)),
        excess_labels=excess,
        prices=(min(prices.values()), max(prices.values())) if prices else None,
        currency=currency,
    )
    return Feed(items, summary)


def _choose_tags(
    article: Article, common: set[tuple[str, str]]
) -> tuple[dict[str, tuple[str, ...] | float], int]:
    """Return the labels of an article by kind, and how many were too many."""
    tags: dict[str, tuple[str, ...] | float] = {}
    left = MAX_LABELS_PER_ITEM
    excess = 0
    for kind, all_labels in article.labels.items():
        labels = [label for label in all_labels if (kind, label) not in common]
        if chosen := tuple(labels[:left]):
            tags[kind] = chosen
        left -= len(chosen)
        excess += len(labels) - len(chosen)
    return tags, excess


def _choose_title(article: Article) -> str:
    """Return the title of an article.

    If its variants have titles of their own, such as "Lamp, red" and "Lamp, blue", it is what they
    have in common. Without a separator there, it is the first title.
    """
    titles = list(dict.fromkeys(filter(None, map(clean_text, article.titles))))
    if len(titles) < 2:
        return titles[0] if titles else ""
    prefix = commonprefix(titles)  # noqa: RUF071 - of characters
    ends = [match.start() for match in _VARIANT_SEPARATOR.finditer(prefix)]
    return prefix[: ends[-1]].strip() if ends and ends[-1] else titles[0]


def _read_prices(rows: FeedRows, articles: Articles) -> tuple[dict[str, float], str]:
    """Return the lowest price of each article that has one, and the currency of all of them."""
    cells = {
        (row, role): rows.get(row, role)
        for article in articles.values()
        for row, role in article.price_rows
        if rows.get(row, role)
    }
    prices = {place: split_price(cell) for place, cell in cells.items()}
    marks = find_decimal_marks(price.digits for price in prices.values() if price)
    currencies: dict[str, tuple[int, str]] = {}
    values: dict[tuple[int, str], float] = {}
    for (row, role), price in sorted(prices.items()):
        value = None if price is None else parse_number(price.digits, marks)
        if price is None or value is None:
            rows.add_problem(
                row,
                role,
                f"has {cells[row, role]!r:.80}; it must be a price such as 1234.50 or 4.50 EUR, "
                "which can be read in one way only",
            )
            continue
        values[row, role] = value
        if price.currency:
            currencies.setdefault(price.currency, (row, role))
    if len(currencies) > 1:
        (first, (first_row, _)), (second, (row, role)) = list(currencies.items())[:2]
        location = rows.table.format_location(first_row)
        rows.add_problem(
            row,
            role,
            f"has {second}, but {first} on {location}: a feed must have one currency, so give one "
            "feed for each",
        )
    rows.table.raise_problems()
    lowest = {
        item: min(article_prices)
        for item, article in articles.items()
        if (article_prices := [values[place] for place in article.price_rows if place in values])
    }
    return lowest, next(iter(currencies), "")
