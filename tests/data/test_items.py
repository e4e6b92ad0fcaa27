"""Titles and tags from a file beside a data set."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sottovoce.core.model import Histories
from sottovoce.core.recommending import tags_of
from sottovoce.data import Interactions
from sottovoce.data.items import read_items, with_items
from sottovoce.errors import DataError

DATA = Interactions(
    "shop", Histories.from_lists([[0, 1, 2], [2, 3]], 4), np.arange(2), np.array([10, 20, 30, 40])
)
TITLES = ["Alien", "Up", "", ""]
TAGS: list[dict[str, Any]] = [
    {"genre": ("Horror", "Sci-Fi"), "year": 1979},
    {"genre": ("Children",)},
    {"year": 1990},
    {},
]
COLUMNS: dict[str, list[Any]] = {
    "movieId": [20, 10, 30],
    "title": ["Up", "Alien", None],
    "genres": ["Children", "Horror|Sci-Fi", None],
    "Year": [None, 1979, 1990],
}
"""In another order than the data, and without its last item."""


def table(
    folder: Path, suffix: str = ".csv", *, extra: dict[str, Any] | None = None, **columns: Any
) -> Path:
    path, content = folder / f"items{suffix}", pl.DataFrame({**columns, **(extra or {})})
    if suffix in (".parquet", ".pq"):
        content.write_parquet(path)
    else:
        content.write_csv(path, separator="\t" if suffix == ".tsv" else ",")
    return path


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def catalogue(folder: Path) -> Path:
    items = [
        {"id": "40", "title": "A film without tags", "tags": {}},
        {"id": "10", "title": "Alien", "tags": {"genre": ["Horror", "Sci-Fi"], "year": 1979}},
        {"id": "20", "title": "Up", "tags": {"genre": ["Children"]}},
    ]
    return written(folder, "films.json", json.dumps({"version": 2, "items": items}))


def tags_in(data: Interactions) -> list[Any]:
    assert data.tags is not None
    return list(data.tags)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".pq"])
def test_a_table_says_what_the_items_are(tmp_path: Path, suffix: str) -> None:
    data = with_items(DATA, table(tmp_path, suffix, extra=COLUMNS))
    assert data.titles is not None
    assert list(data.titles) == TITLES
    assert tags_in(data) == TAGS
    assert data.histories is DATA.histories
    assert data.summary()["tags"] == {"genre": 2, "year": 2}
    assert [title for _, title, _ in data.described()] == ["Alien", "Up", "30", "40"]


def test_a_catalogue_says_it_too(tmp_path: Path) -> None:
    data = with_items(DATA, catalogue(tmp_path))
    assert [title for _, title, _ in data.described()] == [
        "Alien", "Up", "30", "A film without tags",
    ]  # fmt: skip
    assert tags_in(data) == [TAGS[0], TAGS[1], {}, {}]
    other = with_items(data, table(tmp_path, item=[40], brands=["Acme"]))
    assert tags_in(other) == [{}, {}, {}, {"brand": ("Acme",)}]
    assert other.titles is not None
    assert not any(other.titles)


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ([0, 2**53 - 1, None], [0, 2**53 - 1]),
        ([9.5, 0.25, None], [9.5, 0.25]),
        ([Decimal("9.50"), Decimal("0.25"), None], [9.5, 0.25]),
    ],
    ids=["whole", "broken", "decimal"],
)
def test_numbers_are_numbers(tmp_path: Path, values: list[Any], known: list[float]) -> None:
    data = with_items(DATA, table(tmp_path, ".parquet", item=[10, 20, 30], price=values))
    assert tags_in(data) == [{"price": known[0]}, {"price": known[1]}, {}, {}]
    assert {type(tags["price"]) for tags in tags_in(data)[:2]} <= {int, float}
    names = [tag.name for tag in tags_of([*tags_in(data), *tags_in(data)]).names]
    assert sorted(names) == sorted(str(each) for each in known)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("items.csv", "name,genre\n10,a\n", None),
        ("items.csv", "item,film,genre\n10,20,a\n", None),
        ("items.csv", "item,genre\n10,a\n10,b\n", 3), ("items.csv", "item,genre\n10,a\n,b\n", 3),
        ("items.csv", "item,genre\n10,a\n20,b,c\n", 3), ("items.csv", "", None),
        ("items.csv", "item,genre\n\n", None), ("items.csv", 'item,genre\n10,"a\n', 2),
        ("items.csv", "item,genre,genre\n10,a,b\n", None),
        ("items.csv", b"item,genre\n10,\xff\n", 2),
        ("items.csv", "item,year\n20,1999\n10,-1\n", 3),
        ("items.csv", "item,year\n10,inf\n20,5.5\n", 2), ("items.csv", "item,2nd\n10,a\n", None),
        ("items.csv", "item,genre,genres\n10,a,b\n", None),
        ("items.csv", "item,title,Title\n10,a,b\n", None),
        ("items.csv", "item,genre\nten,a\n", None), ("items.csv", "item,genre\n10,\n", None),
        ("items.tsv", "item,genre\n10,a\n", None), ("items.txt", "item,genre\n10,a\n", None),
        ("items", "item,genre\n10,a\n", None), ("items.parquet", b"PAR1 not at all", None),
        ("items.json", "[]", None), ("items.json", '{"version": 1, "items": []}', None),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(
    tmp_path: Path, name: str, content: str | bytes, line: int | None
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(DataError) as caught:
        with_items(DATA, path)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_spaces_around_cells_are_no_part_of_them(tmp_path: Path) -> None:
    content = "item , title,price\n S-050 , A lamp ,4.5 \nS-051,   ,\n"
    known = read_items(written(tmp_path, "shop.csv", content))
    assert known == {"S-050": ("A lamp", {"price": 4.5}), "S-051": ("", {})}
    columns = {"item": [" S-050 ", "S-051"], "title": [" A lamp ", "  "]}
    assert read_items(table(tmp_path, ".parquet", extra=columns)) == {
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
def test_how_a_column_of_text_is_judged(
    tmp_path: Path, cells: list[str], values: list[Any]
) -> None:
    rows = "".join(f"00{number},{cell}\n" for number, cell in enumerate(cells))
    known = read_items(written(tmp_path, "shop [*].csv", "item,x\n" + rows))
    assert list(known) == ["000", "001", "002"], "numbers of books and goods begin with zeros"
    assert [tags.get("x") for _, tags in known.values()] == values
    assert [type(tags.get("x")) for _, tags in known.values()] == [type(each) for each in values]


def test_all_problems_are_told_at_once_by_the_lines_of_the_file(tmp_path: Path) -> None:
    """An empty line and a line end within quotes count as lines, not as items."""
    content = 'sku,name,price\n\nA,"two\nlines",1\n,x,2\nA,y,-3\n'
    path = written(tmp_path, "shop.csv", content)
    with pytest.raises(DataError) as caught:
        read_items(path, {"item": "sku", "title": "name", "price": "price"})
    said = str(caught.value).splitlines()[1:]
    assert [int(re.findall(r"\d+", line)[0]) for line in said] == [3, 5, 6, 6]
    many = written(tmp_path, "many.csv", "item\n" + "A\n" * 20)
    with pytest.raises(DataError, match=r"\b19\b(.*\n)+.*\b9\b.*$"):
        read_items(many)


def test_what_is_wrong_in_parquet(tmp_path: Path) -> None:
    for values in ([[1.0]], [True], [{"a": 1}]):  # neither numbers nor text
        with pytest.raises(DataError):
            with_items(DATA, table(tmp_path, ".parquet", item=[10], odd=values))
    with pytest.raises(DataError, match=r"\b3\b.*\b1\b"):
        read_items(table(tmp_path, ".parquet", item=["A", "B", "A"]))


@pytest.mark.parametrize("name", ["no.csv", "no.parquet", "no.json"])
def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            with_items(DATA, path)
        assert caught.value.path == path
        path.mkdir(exist_ok=True)


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, "shop.csv", "sku,name\nA,x\n")
    with pytest.raises(DataError, match=r"'id'.*'kind'"):
        read_items(path, {"item": "id", "title": "name", "genre": "kind"})
