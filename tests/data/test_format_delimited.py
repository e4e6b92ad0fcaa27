"""CSV and TSV files."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.data import Interactions, load, parse_columns
from sottovoce.errors import DataError

ids = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=8)


def written(folder: Path, text: str, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def pairs(data: Interactions) -> set[tuple[object, object]]:
    users = data.user_ids[data.histories.users_of_entries()]
    items = data.item_ids[data.histories.indices]
    return set(zip(users.tolist(), items.tolist(), strict=True))


@given(st.sets(st.tuples(ids, ids), min_size=1, max_size=12))
def test_any_ids_come_back(given_pairs: set[tuple[str, str]]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("user", "item"), *given_pairs])
    with tempfile.TemporaryDirectory() as folder:
        found = pairs(load(written(Path(folder), out.getvalue())))
    assert {(str(user), str(item)) for user, item in found} == given_pairs


@given(st.sets(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers()), min_size=1))
def test_whole_numbers_come_back_as_such(given_pairs: set[tuple[int, int]]) -> None:
    lines = [f"{user}\t{item}" for user, item in given_pairs]
    with tempfile.TemporaryDirectory() as folder:
        data = load(written(Path(folder), "\n".join(["user\titem", *lines]), "x.tsv"))
    assert data.user_ids.dtype == "int64"
    assert {(user, int(str(item))) for user, item in pairs(data)} == given_pairs


def test_ids_are_not_taken_for_equal_numbers(tmp_path: Path) -> None:
    data = load(written(tmp_path, "user,item\n7,a\n007,a\n"))
    assert data.user_ids.tolist() == ["007", "7"]


def test_uuids(tmp_path: Path) -> None:
    people = sorted(str(uuid.UUID(int=number * 7**40 % 2**128)) for number in range(1, 6))
    data = load(written(tmp_path, "user,item\n" + "".join(f"{one},1\n" for one in people)))
    assert data.user_ids.tolist() == people


def test_rules_for_ratings_and_repeats(tmp_path: Path) -> None:
    """Above 0 is an interaction, the rest is counted; the latest of a repeated pair counts."""
    text = "user,item,rating,timestamp\n1,1,5,10\n1,2,0,11\n1,3,-1,12\n1,1,0.5,30\n1,1,2,20\n"
    data = load(written(tmp_path, text))
    assert pairs(data) == {(1, 1)}
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [30]
    assert data.loaded is not None
    counted = (data.loaded.rows, data.loaded.not_positive, data.loaded.duplicates)
    assert counted == (5, 2, 2)


@pytest.mark.parametrize(
    "header", ["userId,movieId", "user_id,item_id", "USER ID,Film", "uid,iid", "user.id,product-id"]
)
def test_common_names_of_columns(tmp_path: Path, header: str) -> None:
    assert pairs(load(written(tmp_path, f"{header}\n1,2\n"))) == {(1, 2)}


def test_columns_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "when,what,who,user\n5,film,ann,0\n")
    data = load(path, columns=parse_columns("user=who, item=what,timestamp=when"))
    assert pairs(data) == {("ann", "film")}
    assert data.timestamps is not None


@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_separators(tmp_path: Path, separator: str) -> None:
    text = "user,item,rating\nx,y,1\n".replace(",", separator)
    assert pairs(load(written(tmp_path, text))) == {("x", "y")}


def test_compressed_with_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress("\ufeffuser,item\r\nx,y\r\n\r\n".encode()))
    data = load(path)
    assert pairs(data) == {("x", "y")}
    assert data.name == "log"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("user,item\n", "there is no interaction: it has no rows"),
        ("user,item,rating\n1,1,0\n", "all 1 ratings are 0 or less"),
        ("who,item\n1,1\n", "no column for the user; the columns are 'who', 'item'"),
        ("user,item,movie\n1,1,1\n", "'item', 'movie' could each be the item"),
        ("user,item\n1,1\n1\n", "line 3: expected 2 fields, found 1"),
        ("user,item\n1,1\n\n1,2\n", "line 3: expected 2 fields, found 0"),
        ("user,item\n1,1\n1,2,3\n", "line 3: expected 2 fields, found 3"),
        ("user,item\n1\n", "line 2: expected 2 fields, found 1"),
        ("user,item\n1,2,3\n1,1\n", "line 2: expected 2 fields, found 3"),
        ("user,item,x,y\n1,1,1,1\n1,1,1\n", "line 3: expected 4 fields, found 3"),
        ("user,item,x,y\n1,1,1,1\n1,1,1,1,1\n", "line 3: expected 4 fields, found 5"),
        ("user,item,x\n1,1,1,1\n1,1\n", "line 2: expected 3 fields, found 4"),
        ("x" * 200_000, "no column for the user"),
        ('user,item\n"' + "x" * 200_000 + '"\n', "line 2: expected 2 fields, found 0"),
        ("user,item\n1,1\n,3\n", "line 3: the user is empty"),
        ('user,item\n1,1\n1,""\n', "line 3: the item is empty"),
        ("user,item,rating\n1,1,x\n", "line 2: the rating must be a finite number, found 'x'"),
        ("user,item,rating\n1,1,NaN\n", "line 2: the rating must be a finite number"),
        ("user,item,rating\n1,1,\n", "line 2: the rating is empty"),
        ("user,item,time\n1,1,later\n", "line 2: the timestamp must be a number or an ISO date"),
        ('user,item\n1,a"b\n', "somewhere in lines 2..2"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": "nobody"}, "there is no column 'nobody'"),
        ({"person": "user"}, "not person"),
        ({"item": "user"}, "the same column was given for two purposes"),
    ],
)
def test_wrong_columns(tmp_path: Path, columns: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(written(tmp_path, "user,item\n1,1\n"), columns=columns)


@pytest.mark.parametrize("text", ["", "user", "user=", "=x"])
def test_columns_must_be_written_so(text: str) -> None:
    with pytest.raises(DataError, match="user=NAME,item=NAME"):
        parse_columns(text)


def test_damaged_compression(tmp_path: Path) -> None:
    whole = gzip.compress(b"user,item\n" + b"1,2\n" * 1000)
    path = tmp_path / "x.csv.gz"
    for damaged in (whole[:-20], b"plain text"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cannot be read"):
            load(path)


def test_header_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xff\xfe\n1,2\n")
    with pytest.raises(DataError, match="header is not UTF-8"):
        load(path)
