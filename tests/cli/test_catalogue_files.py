"""Catalogues from tables: what an operator is told when theirs does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cli.catalogue_files import catalogue_in
from sottovoce.cli.server import app
from sottovoce.errors import DataError
from tests.processes import calling

call = calling(app)
SHOP = "sku,name,price\nA,Tea,4.5\nB,   ,3\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    return path


def test_an_item_without_a_title_is_called_by_its_id(shop: Path) -> None:
    found = catalogue_in(shop, "item=sku,title=name").items
    assert [(item.id, item.title) for item in found] == [("A", "Tea"), ("B", "B")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("item=sku,item=name", "columns name the item twice, item=sku and item=name"),
        ("item:sku", "must look like 'item=NAME,title=NAME,genre=NAME', found 'item:sku'"),
        ("title=name", "one column must be the item .* --columns item=NAME,title=NAME,genre=NAME"),
        (None, "one column must be the item .* --columns item=NAME,title=NAME,genre=NAME"),
    ],
)
def test_columns_are_named_once_and_the_way_to_do_it_is_said(
    shop: Path, columns: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        catalogue_in(shop, columns)


def test_a_table_that_makes_no_catalogue_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(f"item\n{'x' * 600}\n")
    with pytest.raises(DataError, match=r"shop\.csv: catalogue: id: a string of 1\.\.512"):
        catalogue_in(path)


def test_numbers_and_labels_of_one_kind_are_told_with_file_kind_and_item(
    shop: Path, tmp_path: Path
) -> None:
    columns = ("--columns", "item=sku,title=name,price=price")
    call("init", tmp_path / "s", "--catalogue", shop, *columns)
    new = tmp_path / "new.csv"
    new.write_text("sku,name,price\nC,Pot,n/a\n")
    config = tmp_path / "s" / "server.toml"
    told = r"new\.csv: .*item 'C' has labels as its price, item 'A' has a number as its price"
    with pytest.raises(DataError, match=told):
        call("catalogue", "add", "--config", config, new, *columns)


@pytest.mark.parametrize("command", ["init", "add", "diff", "update"])
def test_every_command_refuses_text_among_numbers(command: str, shop: Path, tmp_path: Path) -> None:
    columns = ("--columns", "item=sku,title=name,price=price")
    call("init", tmp_path / "s", "--catalogue", shop, *columns)
    shop.write_text(SHOP + "C,Pot,n/a\n")
    asked: tuple[object, ...] = (
        ("init", tmp_path / "t", "--catalogue", shop)
        if command == "init"
        else ("catalogue", command, "--config", tmp_path / "s" / "server.toml", shop)
    )
    with pytest.raises(DataError, match=r"shop\.csv, line 4: column 'price' has 2 numbers, but"):
        call(*asked, *columns)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ('a,"\x1b]0;PWNED\x07\x1b[2Jred",x\n', "title"),
        ('a,"line1\nAccepted terms: epsilon 0",x\n', "title"),
        ("a\u202eb,A,x\n", "item"),
        ("a,A,x\u2066\n", "genre"),
    ],
)
def test_control_characters_are_refused_with_item_and_column(
    tmp_path: Path, row: str, column: str
) -> None:
    table = tmp_path / "items.csv"
    table.write_text(f"item,title,genre\n{row}", newline="")
    with pytest.raises(DataError, match=f"column '{column}' of item 'a.*has a control character"):
        catalogue_in(table)
