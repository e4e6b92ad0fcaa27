"""Parquet files."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl
import pytest

from sottovoce.data import load
from sottovoce.data.formats import parquet
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, **columns: Any) -> Path:
    path = folder / "x.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return path


def test_dense_numbers(tmp_path: Path) -> None:
    data = load(written(tmp_path, user=[0, 0, 1], item=[0, 1, 1], timestamp=[0, 1, 1]))
    assert data.user_ids.tolist() == data.item_ids.tolist() == [0, 1]
    assert data.histories[0].tolist() == [0, 1]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [0, 1, 1]
    assert data.name == "x"


def test_unsorted_text_in_several_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS", 2)
    path = written(tmp_path, user_id=["b", "a", "b", "a", "b"], item_id=["y", "z", "x", "y", "y"])
    data = load(path)
    assert data.user_ids.tolist() == ["a", "b"]
    assert [data.histories[user].tolist() for user in (0, 1)] == [[1, 2], [0, 1]]
    assert data.loaded is not None
    assert data.loaded.duplicates == 1


def test_wide_negative_and_binary_ids(tmp_path: Path) -> None:
    data = load(written(tmp_path, user=[-(2**62), 2**62, 5], item=[b"\x01", b"\x00", b"\x01"]))
    assert data.user_ids.tolist() == [-(2**62), 5, 2**62]
    assert data.item_ids.tolist() == [b"\x00", b"\x01"]


def test_categories(tmp_path: Path) -> None:
    names = pl.Series(["b", "a", "b"], dtype=pl.Categorical)
    data = load(written(tmp_path, user=names, item=[1, 1, 2]))
    assert data.user_ids.tolist() == ["a", "b"]
    assert data.histories[1].tolist() == [0, 1]


def test_ids_beyond_64_bits_signed(tmp_path: Path) -> None:
    ids = pl.Series([2**64 - 1, 2**64 - 2], dtype=pl.UInt64)
    data = load(written(tmp_path, user=ids, item=[1, 1]))
    assert data.user_ids.tolist() == [2**64 - 2, 2**64 - 1]


@pytest.mark.parametrize("kind", ["date", "datetime", "float"])
def test_kinds_of_time(tmp_path: Path, kind: str) -> None:
    times = {
        "date": [dt.date(1970, 1, 2)],
        "datetime": [dt.datetime(1970, 1, 2, tzinfo=dt.UTC)],
        "float": [86400.0],
    }[kind]
    data = load(written(tmp_path, user=[1], item=[1], timestamp=times))
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [86400]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1, None], "item": [1, 1]}, "row 2: the user is None"),
        ({"user": ["a", ""], "item": [1, 1]}, "row 2: the user is ''"),
        ({"user": [1], "item": [1], "rating": [float("nan")]}, "row 1: the rating is nan"),
        ({"user": [1], "item": [1], "rating": [float("inf")]}, "row 1: the rating is inf"),
        ({"user": [1, 2], "item": [1, 1], "rating": ["1", "x"]}, "row 2: the rating is 'x'"),
        ({"user": [1], "item": [1], "timestamp": ["soon"]}, "row 1: the timestamp is 'soon'"),
        ({"user": [1, 2], "item": [1, 1], "timestamp": [1, None]}, "row 2: the timestamp is None"),
        ({"user": [1.5], "item": [1]}, "ids must be integers or text"),
        ({"user": [[1]], "item": [1]}, "ids must be integers or text"),
        ({"person": [1], "item": [1]}, "no column for the user"),
        ({"user": [], "item": []}, "it has no rows"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = written(tmp_path, **columns)
    with pytest.raises(DataError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_row_in_a_later_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS", 2)
    with pytest.raises(DataError, match="row 4: the item is None"):
        load(written(tmp_path, user=[1, 2, 3, 4], item=[1, 1, 1, None]))


def test_unreadable(tmp_path: Path) -> None:
    path = written(tmp_path, user=[1] * 100, item=list(range(100)))
    whole = path.read_bytes()
    for damaged in (whole[:-10], b"", b"PAR1 not at all"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="not a Parquet file that can be read"):
            load(path)


def test_a_published_folder_is_read_as_such_whatever_lies_beside(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,3,4\n")
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n2,Heat (1995),Action\n")
    written(tmp_path, user=[5, 6], item=[7, 8])
    assert load(tmp_path).item_ids.tolist() == [2]
    (tmp_path / "ratings.csv").unlink()
    assert load(tmp_path).item_ids.tolist() == [7, 8]


def test_folders_that_are_columns(tmp_path: Path) -> None:
    for user, rating, items in (("b b", 1.0, [3, 4]), ("a", 0.0, [3]), ("a", 5.0, [5])):
        folder = tmp_path / "t" / f"who={quote(user)}" / f"rating={rating}"
        folder.mkdir(parents=True)
        pl.DataFrame({"item": items}).write_parquet(folder / "X.PARQUET")
    data = load(tmp_path / "t", {"user": "who", "item": "item"})
    assert data.user_ids.tolist() == ["a", "b b"]
    assert [data.item_ids[data.histories[u]].tolist() for u in range(2)] == [[5], [3, 4]]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"user": [1], "item": [2]},
            r"b.parquet: this file has item \(numbers\), user \(numbers\)",
        ),
        ({"user": ["x"], "item": [2], "timestamp": [3]}, r"user \(text\), and a.parquet has"),
    ],
)
def test_files_of_a_folder_have_the_same_columns(
    tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pl.DataFrame({"user": [1], "item": [2], "timestamp": [3]}).write_parquet(folder / "a.parquet")
    pl.DataFrame(other).write_parquet(folder / "b.parquet")
    with pytest.raises(DataError, match=message):
        load(folder)
