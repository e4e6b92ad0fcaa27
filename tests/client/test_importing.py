"""Items from outside: all or nothing, and an error says where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.errors import DataError

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
