"""Titles and tags of items from a file."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sottovoce.core.histories import Histories
from sottovoce.core.tags import build_tags
from sottovoce.data import Interactions
from sottovoce.data.items import read_items, with_items
from sottovoce.errors import DataError

# Two users and four items.
SHOP_DATA = Interactions(
    "shop", Histories.from_lists([[0, 1, 2], [2, 3]], 4), np.arange(2), np.array([10, 20, 30, 40])
)
# Titles and tags of the four items after reading ITEM_COLUMNS.
ITEM_TITLES = ["Alien", "Up", "", ""]
ITEM_TAGS: list[dict[str, Any]] = [
    {"genre": ("Horror", "Sci-Fi"), "year": 1979},
    {"genre": ("Children",)},
    {"year": 1990},
    {},
]
# A table in another order than the data, and without its last item.
ITEM_COLUMNS: dict[str, list[Any]] = {
    "movieId": [20, 10, 30],
    "title": ["Up", "Alien", None],
    "genres": ["Children", "Horror|Sci-Fi", None],
    "Year": [None, 1979, 1990],
}


def write_table(
    folder: Path, suffix: str = ".csv", *, extra: dict[str, Any] | None = None, **columns: Any
) -> Path:
    path, content = folder / f"items{suffix}", pl.DataFrame({**columns, **(extra or {})})
    if suffix in (".parquet", ".pq"):
        content.write_parquet(path)
    else:
        content.write_csv(path, separator="\t" if suffix == ".tsv" else ",")
    return path


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_catalogue(folder: Path) -> Path:
    items = [
        {"id": "40", "title": "A film without tags", "tags": {}},
        {"id": "10", "title": "Alien", "tags": {"genre": ["Horror", "Sci-Fi"], "year": 1979}},
        {"id": "20", "title": "Up", "tags": {"genre": ["Children"]}},
    ]
    return write_file(folder, "films.json", json.dumps({"version": 2, "items": items}))


def get_tags(data: Interactions) -> list[Any]:
    assert data.tags is not None
    return list(data.tags)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".pq"])
def test_table_has_titles_and_tags(tmp_path: Path, suffix: str) -> None:
    data = with_items(SHOP_DATA, write_table(tmp_path, suffix, extra=ITEM_COLUMNS))
    assert data.titles is not None
    assert list(data.titles) == ITEM_TITLES
    assert get_tags(data) == ITEM_TAGS
    assert data.histories is SHOP_DATA.histories
    assert data.summary()["tags"] == {"genre": 2, "year": 2}
    assert [title for _, title, _ in data.list_items()] == ["Alien", "Up", "30", "40"]


def test_catalogue_has_titles_and_tags(tmp_path: Path) -> None:
    data = with_items(SHOP_DATA, write_catalogue(tmp_path))
    assert [title for _, title, _ in data.list_items()] == [
        "Alien", "Up", "30", "A film without tags",
    ]  # fmt: skip
    assert get_tags(data) == [ITEM_TAGS[0], ITEM_TAGS[1], {}, {}]
    # A second file replaces all titles and tags of the first.
    other = with_items(data, write_table(tmp_path, item=[40], brands=["Acme"]))
    assert get_tags(other) == [{}, {}, {}, {"brand": ("Acme",)}]
    assert other.titles is not None
    assert not any(other.titles)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 2**53 - 1, None], [0, 2**53 - 1]),
        ([9.5, 0.25, None], [9.5, 0.25]),
        ([Decimal("9.50"), Decimal("0.25"), None], [9.5, 0.25]),
    ],
    ids=["whole", "float", "decimal"],
)
def test_numbers_become_numeric_tags(
    tmp_path: Path, values: list[Any], expected: list[float]
) -> None:
    data = with_items(SHOP_DATA, write_table(tmp_path, ".parquet", item=[10, 20, 30], price=values))
    assert get_tags(data) == [{"price": expected[0]}, {"price": expected[1]}, {}, {}]
    assert {type(tags["price"]) for tags in get_tags(data)[:2]} <= {int, float}
    names = [tag.name for tag in build_tags([*get_tags(data), *get_tags(data)]).names]
    assert sorted(names) == sorted(str(value) for value in expected)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        # No column of ids, or two; repeated and missing ids.
        ("items.csv", "name,genre\n10,a\n", None),
        ("items.csv", "item,film,genre\n10,20,a\n", None),
        ("items.csv", "item,genre\n10,a\n10,b\n", 3), ("items.csv", "item,genre\n10,a\n,b\n", 3),
        ("items.csv", "item,genre\n10,a\n20,b,c\n", 3), ("items.csv", "", None),
        ("items.csv", "item,genre\n\n", None), ("items.csv", 'item,genre\n10,"a\n', 2),
        # Repeated columns, encodings, numbers out of range, and names that are no kind of tag.
        ("items.csv", "item,genre,genre\n10,a,b\n", None),
        ("items.csv", b"item,genre\n10,\xff\n", 2),
        ("items.csv", "item,year\n20,1999\n10,-1\n", 3),
        ("items.csv", "item,year\n10,inf\n20,5.5\n", 2), ("items.csv", "item,2nd\n10,a\n", None),
        ("items.csv", "item,genre,genres\n10,a,b\n", None),
        ("items.csv", "item,title,Title\n10,a,b\n", None),
        # No item of the data, and files of another format than their suffix says.
        ("items.csv", "item,genre\nten,a\n", None), ("items.csv", "item,genre\n10,\n", None),
        ("items.tsv", "item,genre\n10,a\n", None), ("items.txt", "item,genre\n10,a\n", None),
        ("items", "item,genre\n10,a\n", None), ("items.parquet", b"PAR1 not at all", None),
        ("items.json", "[]", None), ("items.json", '{"version": 1, "items": []}', None),
    ],
)  # fmt: skip
def test_error_names_the_file_and_the_line(
    tmp_path: Path, name: str, content: str | bytes, line: int | None
) -> None:
    path = write_file(tmp_path, name, content)
    with pytest.raises(DataError) as caught:
        with_items(SHOP_DATA, path)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_spaces_around_cells_are_stripped(tmp_path: Path) -> None:
    content = "item , title,price\n S-050 , A lamp ,4.5 \nS-051,   ,\n"
    items = read_items(write_file(tmp_path, "shop.csv", content))
    assert items == {"S-050": ("A lamp", {"price": 4.5}), "S-051": ("", {})}
    columns = {"item": [" S-050 ", "S-051"], "title": [" A lamp ", "  "]}
    assert read_items(write_table(tmp_path, ".parquet", extra=columns)) == {
        "S-050": ("A lamp", {}),
        "S-051": ("", {}),
    }


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["4.50", "", "3"], [4.5, None, 3.0]),
        (["4", "", "+3"], [4, None, 3]),
        (["36", "XL", "S|M|S"], [("36",), ("XL",), ("S", "M")]),
    ],
    ids=["numbers", "whole", "labels"],
)
def test_types_of_text_columns_are_inferred(
    tmp_path: Path, cells: list[str], values: list[Any]
) -> None:
    rows = "".join(f"00{number},{cell}\n" for number, cell in enumerate(cells))
    items = read_items(write_file(tmp_path, "shop [*].csv", "item,x\n" + rows))
    # Leading zeros are significant.
    assert list(items) == ["000", "001", "002"]
    assert [tags.get("x") for _, tags in items.values()] == values
    assert [type(tags.get("x")) for _, tags in items.values()] == [type(value) for value in values]


def test_one_error_lists_all_problems_with_their_lines(tmp_path: Path) -> None:
    """Count empty lines and line ends within quotes as lines, but not as items."""
    content = 'sku,name,price\n\nA,"two\nlines",1\n,x,2\nA,y,-3\n'
    path = write_file(tmp_path, "shop.csv", content)
    with pytest.raises(DataError) as caught:
        read_items(path, {"item": "sku", "title": "name", "price": "price"})
    problems = str(caught.value).splitlines()[1:]
    assert [int(re.findall(r"\d+", line)[0]) for line in problems] == [3, 5, 6, 6]
    # 19 problems, of which the error lists 10.
    many = write_file(tmp_path, "many.csv", "item\n" + "A\n" * 20)
    with pytest.raises(DataError, match=r"\b19\b(.*\n)+.*\b9\b.*$"):
        read_items(many)


def test_invalid_parquet_is_refused(tmp_path: Path) -> None:
    for values in ([[1.0]], [True], [{"a": 1}]):  # neither numbers nor text
        with pytest.raises(DataError):
            with_items(SHOP_DATA, write_table(tmp_path, ".parquet", item=[10], odd=values))
    with pytest.raises(DataError, match=r"\b3\b.*\b1\b"):
        read_items(write_table(tmp_path, ".parquet", item=["A", "B", "A"]))


@pytest.mark.parametrize("name", ["no.csv", "no.parquet", "no.json"])
def test_missing_file_or_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    # First the file is missing, then a folder has its name.
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            with_items(SHOP_DATA, path)
        assert caught.value.path == path
        path.mkdir(exist_ok=True)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = write_file(tmp_path, "shop.csv", "sku,name\nA,x\n")
    with pytest.raises(DataError, match=r"'id'.*'kind'"):
        read_items(path, {"item": "id", "title": "name", "genre": "kind"})
