"""Items from outside: all or nothing, and an error says where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.client.client import read_items
from sottovoce.errors import DataError
from tests.client.world import item

if TYPE_CHECKING:
    from sottovoce.client import Client


def test_recording_counts_what_is_new(client: Client) -> None:
    assert client.record(["a", "b", "a"]) == 2
    assert client.record(iter(["b", "c"])) == 1
    assert client.record([]) == 0
    assert client.status().interactions == 6


@pytest.mark.parametrize("bad", ["", "x" * 513, "\ud800", 7, None])
def test_one_bad_name_and_nothing_is_recorded(client: Client, bad: Any) -> None:
    with pytest.raises(DataError, match="item"):
        client.record(["good", bad])
    assert client.status().interactions == 3


def test_one_string_is_not_a_list(client: Client) -> None:
    with pytest.raises(DataError, match="one string"):
        client.record("abc")


@pytest.mark.parametrize(
    ("content", "column"),
    [
        (b"item\na\nb\n", "item"),
        (b"\xef\xbb\xbfitem\r\na\r\nb\r\n", "item"),
        (b"when,movieId\n1,a\n\n2,b", "movieId"),
        (b'item,note\n"a","x, ""y""\nz"\nb,\n', "item"),
    ],
)
def test_a_column_of_a_csv_file(
    client: Client, tmp_path: Path, content: bytes, column: str
) -> None:
    path = tmp_path / "watched.csv"
    path.write_bytes(content)
    assert client.record_csv(path, column) == 2
    assert {"a", "b"} <= set(client.status().unknown)


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"", 1, "columns are none"),
        (b"movie\na\n", 1, "columns are movie; one must be called 'item'"),
        (b"item,item\na,b\n", 1, "one must be"),
        (b"item,x\na,1\nb\n", 3, "1 fields, the first line names 2"),
        (b"item,x\na,1\n,2\n", 3, "1..512 characters"),
        (b"item\na\n" + b"x" * 513 + b"\n", 3, "1..512 characters"),
        (b"item\na\n\xff\n", 3, "not UTF-8"),
        (b'item\na\n"b\n', 3, "unexpected end"),
        (b'item\na\n"b"c\n', 3, "expected"),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    client: Client, tmp_path: Path, content: bytes, line: int, what: str
) -> None:
    path = tmp_path / "watched.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        client.record_csv(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert what in str(caught.value)
    assert client.status().interactions == 3


def test_a_missing_file_is_named(client: Client, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        client.record_csv(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="cannot be read"):
        client.record_csv(tmp_path)


# With a column that says when.


def watched(folder: Path, *lines: str) -> Path:
    path = folder / "watched.csv"
    path.write_text("\n".join(["when,item", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "moments"),
    [
        (["30,c", "1,a", "-2.5,z", "30,b"], [["z"], ["a"], ["c", "b"]]),
        (["1e9,b", "999999999.5,a", "1000000000,c"], [["a"], ["b", "c"]]),
        (["2021-03-04,b", "1999-12-31,a", "2021-03-04 00:00:00,c"], [["a"], ["b", "c"]]),
        (["2021-03-04T10:00:01,b", "2021-03-04 10:00,a"], [["a"], ["b"]]),
        (["2021-03-04T12:00:00+02:00,a", "2021-03-04T10:00:00Z,b"], [["a", "b"]]),
        (["1970-01-02T00:00:00Z,b", "86399,a", "86401,c"], [["a"], ["b"], ["c"]]),
        (["5,a", "", "6,b"], [["a"], ["b"]]),
        ([], []),
    ],
    ids=["numbers", "fractions", "dates", "times", "zones", "mixed", "an empty line", "nothing"],
)
def test_items_come_in_the_order_of_their_times(
    tmp_path: Path, lines: list[str], moments: list[list[str]]
) -> None:
    assert read_items(watched(tmp_path, *lines), "item", "when") == moments


def test_without_a_column_of_times_all_is_one_moment(tmp_path: Path) -> None:
    path = watched(tmp_path, "2,a", "1,b", "2,c")
    assert read_items(path, "item") == [["a", "b", "c"]]


def test_recording_a_file_with_times_keeps_the_order_and_not_the_times(
    client: Client, tmp_path: Path
) -> None:
    path = watched(tmp_path, "2021-01-01,c", "2020-01-01,a", "2021-01-01,b", "2022-01-01,a")
    assert client.record_csv(path, time="when") == 3
    kept = client._store.history.touched()
    assert {name: kept[name] for name in "abc"} == {"b": 3, "c": 3, "a": 4}
    files = b"".join(file.read_bytes() for file in (tmp_path / "client").iterdir())
    assert item(3).encode() in files
    assert b"2021-01-01" not in files


def test_a_file_is_later_than_all_that_was_recorded_before(client: Client, tmp_path: Path) -> None:
    """However old its times are."""
    client.record(["x"])
    client.record_csv(watched(tmp_path, "1,b", "0,a"), time="when")
    client.record(["y"])
    kept = client._store.history.touched()
    assert [kept[name] for name in ("x", "a", "b", "y")] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "bad", ["soon", "", "nan", "inf", "-Infinity", "2021-13-01", "0x10", "12:30", "9999999-01-01"]
)
def test_a_bad_time_names_its_line_and_nothing_is_recorded(
    client: Client, tmp_path: Path, bad: str
) -> None:
    path = watched(tmp_path, "1,a", "2021-01-01,b", f"{bad},c", "3,d")
    with pytest.raises(DataError) as caught:
        client.record_csv(path, time="when")
    assert str(caught.value).startswith(f"{path}, line 4: a time is a number or an ISO date, not ")
    assert client.status().interactions == 3


def test_a_time_that_is_not_utf_8_is_an_error_of_its_line(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "watched.csv"
    path.write_bytes(b"when,item\n1,a\n\xff,b\n")
    with pytest.raises(DataError, match="line 3: "):
        client.record_csv(path, time="when")


def test_a_column_of_times_that_is_not_there(client: Client, tmp_path: Path) -> None:
    path = watched(tmp_path, "1,a")
    with pytest.raises(DataError, match="line 1: its columns are when, item; one must be called"):
        client.record_csv(path, time="timestamp")
    assert client.status().interactions == 3
