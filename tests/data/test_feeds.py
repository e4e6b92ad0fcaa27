"""Product feeds of shops, in the formats that their documentation describes."""

import csv
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sottovoce.data.feeds import GOOGLE, SHOPIFY, TEXT_FORMATS, WOOCOMMERCE, Feed, read_feed
from sottovoce.data.prices import find_decimal_marks, parse_number, split_price
from sottovoce.errors import DataError
from sottovoce.protocol import Catalogue, Item

# The columns of an export, in order: of Shopify until 2024 and since, and of WooCommerce 10.
SHOPIFY_HEADER = (
    "Handle,Title,Body (HTML),Vendor,Product Category,Type,Tags,Published,Option1 Name,"
    "Option1 Value,Option1 Linked To,Option2 Name,Option2 Value,Option2 Linked To,Option3 Name,"
    "Option3 Value,Option3 Linked To,Variant SKU,Variant Grams,Variant Inventory Tracker,"
    "Variant Inventory Qty,Variant Inventory Policy,Variant Fulfillment Service,Variant Price,"
    "Variant Compare At Price,Variant Requires Shipping,Variant Taxable,Variant Barcode,"
    "Image Src,Image Position,Image Alt Text,Gift Card,SEO Title,SEO Description,Variant Image,"
    "Variant Weight Unit,Variant Tax Code,Cost per item,Status"
)
NEW_SHOPIFY_NAMES = {
    "Handle": "URL handle",
    "Body (HTML)": "Description",
    "Product Category": "Product category",
    "Published": "Published on online store",
    "Option1 Value": "Option1 value",
    "Variant SKU": "SKU",
    "Variant Price": "Price",
    "Variant Compare At Price": "Compare-at price",
}
WOOCOMMERCE_HEADER = (
    'ID,Type,SKU,"GTIN, UPC, EAN, or ISBN",Name,Published,Is featured?,Visibility in catalog,'
    "Short description,Description,Date sale price starts,Date sale price ends,Tax status,"
    "Tax class,In stock?,Stock,Low stock amount,Backorders allowed?,Sold individually?,"
    "Weight (kg),Length (cm),Width (cm),Height (cm),Allow customer reviews?,Purchase note,"
    "Sale price,Regular price,Categories,Tags,Shipping class,Images,Download limit,"
    "Download expiry days,Parent,Grouped products,Upsells,Cross-sells,External URL,Button text,"
    "Position,Brands,Attribute 1 name,Attribute 1 value(s),Attribute 1 visible,"
    "Attribute 1 global,Attribute 2 name,Attribute 2 value(s),Attribute 2 visible,"
    "Attribute 2 global"
)
SHOPIFY_COLUMNS = next(csv.reader([SHOPIFY_HEADER]))
WOOCOMMERCE_COLUMNS = next(csv.reader([WOOCOMMERCE_HEADER]))
GERMAN_WOOCOMMERCE_NAMES = {
    "Type": "Typ",
    "SKU": "Artikelnummer",
    "Published": "Veröffentlicht",
    "Visibility in catalog": "Sichtbarkeit im Katalog",
    "In stock?": "Vorrätig?",
    "Sale price": "Angebotspreis",
    "Regular price": "Regulärer Preis",
    "Categories": "Kategorien",
    "Tags": "Schlagwörter",
    "Parent": "Übergeordnetes Produkt",
    "Attribute 1 name": "Attribut 1 Name",
    "Attribute 1 value(s)": "Attribut 1 Wert(e)",
    "Attribute 2 name": "Attribut 2 Name",
    "Attribute 2 value(s)": "Attribut 2 Wert(e)",
}

TEA_PATH = "Food, Beverages & Tobacco > Beverages > Tea & Infusions"
SHOPIFY_ROWS: list[dict[str, str]] = [
    {
        "Handle": "green-tea", "Title": "Green Tea &amp; Mint", "Vendor": "Leaf",
        "Body (HTML)": '<p>Fresh, "wild" leaves;</p>\n<p>from Assam</p>',
        "Product Category": TEA_PATH, "Type": "Tea", "Tags": "green, loose leaf",
        "Published": "true", "Option1 Name": "Weight", "Option1 Value": "100 g",
        "Variant SKU": "T-01-100", "Variant Price": "9.90", "Image Src": "https://cdn.example/1",
        "Status": "active",
    },
    {"Handle": "green-tea", "Option1 Value": "250 g", "Variant Price": "4.50"},
    {"Handle": "green-tea", "Image Src": "https://cdn.example/2", "Image Position": "2"},
    {
        "Handle": "pot", "Title": "A pot\nfor <b>tea</b>", "Vendor": "Clay", "Published": "true",
        "Product Category": "Home & Garden > Kitchen & Dining", "Option1 Name": "Title",
        "Option1 Value": "Default Title", "Variant Price": "1024.00", "Status": "active",
    },
    {
        "Handle": "old", "Title": "Old", "Published": "true", "Variant Price": "on request",
        "Option1 Value": "Default Title", "Status": "draft",
    },
    {
        "Handle": "gone", "Title": "Gone", "Published": "false", "Variant Price": "3.00",
        "Option1 Value": "Default Title", "Status": "active",
    },
]  # fmt: skip
SHOPIFY_ITEMS = {
    "green-tea": (
        "Green Tea & Mint",
        {
            "category": ("Food, Beverages & Tobacco", "Beverages", "Tea & Infusions"),
            "type": ("Tea",), "brand": ("Leaf",), "tag": ("green", "loose leaf"), "price": 4.5,
        },
    ),
    "pot": (
        "A pot for tea",
        {"category": ("Home & Garden", "Kitchen & Dining"), "brand": ("Clay",), "price": 1024.0},
    ),
}  # fmt: skip

PUBLISHED = {"Published": "1", "Visibility in catalog": "visible", "In stock?": "1"}
WOOCOMMERCE_ROWS: list[dict[str, str]] = [
    # A variation may stand before its product.
    {
        "ID": "12", "Type": "variation", "SKU": "TEA-100", "Name": "Green tea - 100 g",
        "Parent": "TEA", "Sale price": "4,00", "Regular price": "4,50", **PUBLISHED,
        "Attribute 1 name": "Weight", "Attribute 1 value(s)": "100 g",
    },
    {
        "ID": "11", "Type": "variable", "SKU": "TEA", "Name": "Green &amp; wild tea", **PUBLISHED,
        "Description": '<p>Leaves,\n"fresh"</p>', "Categories": "Drinks, Drinks > Tea",
        "Tags": "'=loose", "Brands": "Leaf", "Attribute 1 name": "Weight",
        "Attribute 1 value(s)": "100 g, 250 g", "Attribute 2 name": "Origin",
        "Attribute 2 value(s)": "Assam",
    },
    {
        "ID": "13", "Type": "variation", "Name": "Green tea - 250 g", "Parent": "TEA",
        "Regular price": "2,00", **PUBLISHED, "Published": "0",
    },
    {
        "ID": "21", "Type": "simple, virtual", "Name": "Pot", "Sale price": "10,00",
        "Date sale price starts": "2030-01-01", "Regular price": "1.234,00", **PUBLISHED,
        "In stock?": "0", "Categories": r"Kitchen\, dining > Pots", "Tags": r"a\, b, c",
    },
    {"ID": "22", "Type": "variable", "Name": "Cup", **PUBLISHED, "Categories": "Cups"},
    {
        "ID": "23", "Type": "variation", "Parent": "id:22", "Regular price": "3,00", **PUBLISHED,
    },
    {"ID": "24", "Type": "grouped", "Name": "Set", "Grouped products": "TEA, id:21", **PUBLISHED},
    {"ID": "31", "Type": "simple", "Name": "Old", **PUBLISHED, "Published": "-1"},
    {"ID": "32", "Type": "simple", "Name": "Hid", **PUBLISHED, "Visibility in catalog": "hidden"},
    {"ID": "33", "Type": "variation", "Name": "Orphan", "Parent": "id:99", **PUBLISHED},
]  # fmt: skip
WOOCOMMERCE_ITEMS = {
    "11": (
        "Green & wild tea",
        {
            "category": ("Drinks", "Tea"), "brand": ("Leaf",), "tag": ("=loose",),
            "attribute": ("Origin: Assam",), "price": 4.0,
        },
    ),
    "21": (
        "Pot",
        {"category": ("Kitchen, dining", "Pots"), "tag": ("a, b", "c"), "price": 1234.0},
    ),
    "22": ("Cup", {"category": ("Cups",), "price": 3.0}),
    "24": ("Set", {}),
}  # fmt: skip

GOOGLE_RSS = """<?xml version="1.0"?>
<rss xmlns:g="http://base.google.com/ns/1.0" version="2.0">
<channel>
<title>Shop</title>
<link>https://shop.example</link>
<description>Everything</description>
<item>
<g:id>T-100</g:id>
<g:item_group_id>T</g:item_group_id>
<g:title>Green tea, 100 g</g:title>
<g:description>&lt;p&gt;Leaves&lt;/p&gt;</g:description>
<g:link>https://shop.example/t-100</g:link>
<g:image_link>https://shop.example/t.png</g:image_link>
<g:condition>new</g:condition>
<g:availability>in stock</g:availability>
<g:price>9.90 EUR</g:price>
<g:shipping><g:country>DE</g:country><g:price>1.00 USD</g:price></g:shipping>
<g:brand>Leaf</g:brand>
<g:product_type>Home &gt; Kitchen &gt; Tea</g:product_type>
</item>
<item>
<g:id>T-250</g:id>
<g:item_group_id>T</g:item_group_id>
<title><![CDATA[Green tea, <b>250 g</b>]]></title>
<g:availability>out_of_stock</g:availability>
<g:price>9.90 EUR</g:price>
<g:sale_price>4.50 EUR</g:sale_price>
<g:product_type>Home &gt; Kitchen &gt; Tea</g:product_type>
<g:product_type>Gifts</g:product_type>
</item>
<item>
<g:id>P</g:id>
<g:title>Pot</g:title>
<g:availability>out_of_stock</g:availability>
<g:price>1024 EUR</g:price>
<g:sale_price>1 EUR</g:sale_price>
<g:sale_price_effective_date>2030-01-01T00:00Z/2030-02-01T00:00Z</g:sale_price_effective_date>
<g:google_product_category>Home &amp; Garden &gt; Kitchen, Dining</g:google_product_category>
</item>
</channel>
</rss>
"""
# Atom has an id of its own, which is an address.
GOOGLE_ATOM = (
    GOOGLE_RSS.replace('<rss xmlns:g="http://base.google.com/ns/1.0" version="2.0">\n<channel>',
                       '<feed xmlns="http://www.w3.org/2005/Atom" '
                       'xmlns:g="http://base.google.com/ns/1.0">')
    .replace("</channel>\n</rss>", "</feed>")
    .replace("<item>", "<entry><id>tag:shop.example,2026:1</id>")
    .replace("</item>", "</entry>")
)  # fmt: skip
GOOGLE_TSV = (
    "id\ttitle\tdescription\tlink\timage link\tcondition\tavailability\tprice\tsale price\t"
    "item group id\tbrand\tproduct type\tgoogle product category\tsale price effective date\n"
    "T-100\tGreen tea, 100 g\tLeaves\thttps://shop.example\t\tnew\tin stock\t9.90 EUR\t\tT\tLeaf\t"
    "Home > Kitchen > Tea\t\t\n"
    "T-250\tGreen tea, 250 g\t\thttps://shop.example\t\tnew\tout_of_stock\t9.90 EUR\t4.50 EUR\tT\t"
    '\t"Home > Kitchen > Tea,Gifts"\t\t\n'
    "P\tPot\t\thttps://shop.example\t\tnew\tout of stock\t1024 EUR\t1 EUR\t\t\t\t"
    "Home & Garden > Kitchen, Dining\t2030-01-01T00:00Z/2030-02-01T00:00Z\n"
)
GOOGLE_ITEMS = {
    "T": (
        "Green tea",
        {"category": ("Home", "Kitchen", "Tea", "Gifts"), "brand": ("Leaf",), "price": 4.5},
    ),
    "P": ("Pot", {"category": ("Home & Garden", "Kitchen, Dining"), "price": 1024.0}),
}


def format_csv(
    columns: list[str], rows: list[dict[str, str]], separator: str = ",", names: Any = None
) -> str:
    """Return a table of text, whose columns may have other names."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    writer.writerow([(names or {}).get(column, column) for column in columns])
    writer.writerows([row.get(column, "") for column in columns] for row in rows)
    return text.getvalue()


def read(folder: Path, content: str | bytes, name: str = "feed.csv") -> Feed | None:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_feed(path)


SHOPIFY_TEXT = format_csv(SHOPIFY_COLUMNS, SHOPIFY_ROWS)
WOOCOMMERCE_TEXT = format_csv(WOOCOMMERCE_COLUMNS, WOOCOMMERCE_ROWS)


@pytest.mark.parametrize(
    ("name", "content", "items", "counts"),
    [
        ("a.csv", SHOPIFY_TEXT, SHOPIFY_ITEMS, (6, 2, 2, 0)),
        (
            "a.csv",
            "\ufeff" + format_csv(SHOPIFY_COLUMNS, SHOPIFY_ROWS, ";", NEW_SHOPIFY_NAMES),
            SHOPIFY_ITEMS,
            (6, 2, 2, 0),
        ),
        ("a.csv", WOOCOMMERCE_TEXT, WOOCOMMERCE_ITEMS, (10, 2, 3, 1)),
        (
            "a.txt",
            format_csv(WOOCOMMERCE_COLUMNS, WOOCOMMERCE_ROWS, names=GERMAN_WOOCOMMERCE_NAMES),
            WOOCOMMERCE_ITEMS,
            (10, 2, 3, 1),
        ),
        ("a.xml", GOOGLE_RSS, GOOGLE_ITEMS, (3, 2, 0, 1)),
        ("a.XML", GOOGLE_ATOM.encode("utf-16"), GOOGLE_ITEMS, (3, 2, 0, 1)),
        ("a.tsv", GOOGLE_TSV, GOOGLE_ITEMS, (3, 2, 0, 1)),
    ],
    ids=["shopify", "new-shopify", "woocommerce", "german-woocommerce", "rss", "atom", "tsv"],
)  # fmt: skip
def test_documented_formats_are_read(
    tmp_path: Path, name: str, content: str | bytes, items: Any, counts: tuple[int, ...]
) -> None:
    feed = read(tmp_path, content, name)
    assert feed is not None
    assert feed.items == items
    summary = feed.summary
    left_out = sum(summary.left_out.values())
    assert (summary.rows, summary.variants, left_out, summary.sold_out) == counts
    prices = [tags["price"] for _, tags in feed.items.values() if "price" in tags]
    assert summary.prices == (min(prices), max(prices))
    assert summary.currency == ("EUR" if items is GOOGLE_ITEMS else "")


def test_other_tables_are_no_feeds(tmp_path: Path) -> None:
    tables: list[tuple[str, str | bytes]] = [
        ("a.csv", "sku,name,category,price\nT-01,Green tea,tea,4.50\n"),
        ("a.tsv", "item\ttitle\tprice\nT-01\tGreen tea\t4.50\n"),
        ("a.csv", "id,title,price\n1,Tea,4\n"), ("a.csv", "item,id,title,link\n1,2,Tea,x\n"),
        ("a.csv", ""), ("a.csv", b"\xff\xfe\0"), ("a.parquet", b"PAR1"),
    ]  # fmt: skip
    for name, content in tables:
        assert read(tmp_path, content, name) is None


def test_labels_of_all_articles_and_too_many_labels_are_left_out(tmp_path: Path) -> None:
    tags = ", ".join(f"tag {number}" for number in range(80))
    rows = [
        {"Handle": handle, "Title": handle, "Vendor": "Us", "Tags": tags, "Variant Price": "$1"}
        for handle in "ab"
    ]
    rows[0]["Tags"] = "c"
    feed = read(tmp_path, format_csv(SHOPIFY_COLUMNS, rows))
    assert feed is not None
    assert feed.items["a"] == ("a", {"tag": ("c",), "price": 1.0})
    assert feed.summary.common_labels == ("Us",)
    assert (len(feed.items["b"][1]["tag"]), feed.summary.excess_labels) == (64, 16)  # type: ignore[arg-type]
    assert feed.summary.currency == "$"


def edit_shopify(row: int, **cells: str) -> str:
    rows = [dict(cells_of_row) for cells_of_row in SHOPIFY_ROWS]
    rows[row] |= {name.replace("_", " "): cell for name, cell in cells.items()}
    return format_csv(SHOPIFY_COLUMNS, rows)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
LOOT = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("name", "content", "line", "named"),
    [
        # Lines count those within quotes: the description of the first article has two.
        ("a.csv", edit_shopify(1, Variant_Price="on request"), 4, "Shopify.*'Variant Price'"),
        ("a.csv", edit_shopify(1, Variant_Price="1.234,5.6"), 4, "'Variant Price'"),
        ("a.csv", edit_shopify(3, Handle=""), 6, "'Handle'"),
        ("a.csv", edit_shopify(3, Handle="a\tb"), 6, "'Handle'"),
        ("a.csv", edit_shopify(3, Status="Aktiv"), 6, "'Status'.*draft"),
        ("a.csv", edit_shopify(3, Variant_Price="3 EUR").replace("4.50", "4.50 USD"), 6, "USD"),
        ("a.csv", SHOPIFY_TEXT + "x,y\n", 10, "Shopify"),
        ("a.csv", SHOPIFY_TEXT + '"x', 10, None),
        ("a.csv", SHOPIFY_TEXT.encode() + b"\xff", 10, "UTF-8"),
        ("a.csv", SHOPIFY_TEXT.splitlines()[0], None, "Shopify"),
        ("a.csv", format_csv(SHOPIFY_COLUMNS, SHOPIFY_ROWS[-2:]), None, "1 draft, 1 not"),
        ("a.csv", WOOCOMMERCE_TEXT.replace("\r\n12,", "\r\n11,"), 3, "WooC.*'ID'.*'11'"),
        ("a.xml", GOOGLE_RSS.replace("T-250", "T-100"), 21, "Google.*'g:id'.*'T-100'"),
        ("a.xml", GOOGLE_RSS.replace("9.90 EUR", "9.90 EURO", 1), 7, "Google.*'g:price'"),
        ("a.xml", GOOGLE_RSS.replace("?>", "?>" + BOMB, 1), 1, "DOCTYPE"),
        ("a.xml", GOOGLE_RSS.replace("?>", "?>" + LOOT, 1), 1, "DOCTYPE"),
        ("a.xml", "<!DOCTYPE html><html><body>Log in</body></html>", 1, "DOCTYPE"),
        ("a.xml", GOOGLE_RSS.replace("</g:price>", ""), 17, None),
        ("a.xml", GOOGLE_RSS.replace('"1.0"', '"1.0" encoding="klingon"', 1), None, "UTF-8"),
        ("a.xml", GOOGLE_RSS.replace('"1.0"', '"1.0" encoding="utf-7"', 1), None, "UTF-8"),
        ("a.xml", "<rss/>", None, "Google"), ("a.xml", b"", 1, None), ("a.xml", b"\0\1", 1, None),
    ],
)  # fmt: skip
def test_error_names_format_line_and_column(
    tmp_path: Path, name: str, content: str | bytes, line: int | None, named: str | None
) -> None:
    with pytest.raises(DataError, match=named) as caught:
        read(tmp_path, content, name)
    assert (caught.value.path, caught.value.line) == (tmp_path / name, line)


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("4.50 EUR", 4.5, "EUR"), ("1.234,50 €", 1234.5, "EUR"), ("$1,234.50", 1234.5, "$"),
        ("eur 4,5", 4.5, "EUR"), ("1 234,50 zł", 1234.5, "PLN"), ("1'234.50 CHF", 1234.5, "CHF"),
        ("4.-", 4, ""), (".5", 0.5, ""), ("0.234", 0.234, ""), ("1,234,567", 1234567, ""),
        ("1234.567 KWD", 1234.567, "KWD"), ("1\u202f234,00\u00a0€", 1234, "EUR"), ("0", 0, ""),
        ("1.234", None, ""), ("1,234", None, ""), ("1.23.45", None, ""), ("1,2345.6", None, ""),
        ("1" + "0" * 17, None, ""),
    ],
)  # fmt: skip
def test_prices_are_read_in_one_way_or_not_at_all(
    text: str, value: float | None, currency: str
) -> None:
    price = split_price(text)
    assert price is not None
    assert price.currency == currency
    assert parse_number(price.digits, find_decimal_marks([price.digits])) == value


def test_other_prices_of_a_feed_tell_its_decimal_mark(tmp_path: Path) -> None:
    feed = read(tmp_path, edit_shopify(1, Variant_Price="1.234"))
    assert feed is not None
    assert feed.items["green-tea"][1]["price"] == 1.234


@pytest.mark.parametrize("text", ["", "free", "-5", "from 4.50 EUR", "4.50 to 5", "1e5", "4" * 99])
def test_other_texts_are_no_prices(text: str) -> None:
    assert split_price(text) is None


CELLS = st.text(max_size=12) | st.sampled_from(
    ["", "1", "-1", "a > b, c", "id:1", "variation", "simple", "true", "active", "4.50 EUR", "1.5"]
)


@st.composite
def draw_table(draw: st.DrawFn) -> bytes:
    """Draw a text file whose header is that of a feed, and whose cells may be anything."""
    columns = draw(
        st.sampled_from(
            [sorted({aliases[0] for aliases in form.columns.values()}) for form in TEXT_FORMATS]
        )
    )
    rows = draw(st.lists(st.lists(CELLS, min_size=len(columns), max_size=len(columns)), max_size=4))
    text = format_csv(columns, [dict(zip(columns, row, strict=True)) for row in rows])
    return text.encode(errors="replace") + draw(st.binary(max_size=3))


@st.composite
def draw_xml(draw: st.DrawFn) -> bytes:
    """Draw a Google feed of which a part is missing or replaced."""
    raw = GOOGLE_RSS.encode()
    begin = draw(st.integers(0, len(raw)))
    return raw[:begin] + draw(st.binary(max_size=8)) + raw[begin + draw(st.integers(0, 60)) :]


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.tuples(st.just("a.csv"), draw_table()) | st.tuples(st.just("a.xml"), draw_xml()))
def test_any_file_becomes_a_catalogue_or_a_data_error(
    tmp_path: Path, file: tuple[str, bytes]
) -> None:
    name, content = file
    path = tmp_path / name
    path.write_bytes(content)
    with suppress(DataError):
        feed = read_feed(path)
        if feed:
            items = [Item(item, title or item, tags) for item, (title, tags) in feed.items.items()]
            assert Catalogue.from_items(items).tags.n_items == feed.summary.articles


def test_each_format_is_recognised_by_its_own_columns() -> None:
    names = {form.name: [aliases[0] for aliases in form.columns.values()] for form in TEXT_FORMATS}
    for form in (SHOPIFY, WOOCOMMERCE, GOOGLE):
        recognised = [other.name for other in TEXT_FORMATS if other.find_columns(names[form.name])]
        assert recognised == [form.name]
