"""The Netflix Prize, in both forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from sottovoce.data import load
from sottovoce.data.formats import netflix, text
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.data import Interactions

FIRST = b"1:\n30,3,2005-09-06\n7,5,2005-05-13\n"
SECOND = b"2:\n7,1,1999-12-31\n"
TITLES = "1,2003,D\u00e9j\u00e0, Vu\n2,NULL,No Year\n".encode("latin-1")


def official(folder: Path, second: bytes = SECOND) -> Path:
    (folder / "training_set").mkdir()
    (folder / "training_set" / "mv_0000001.txt").write_bytes(FIRST)
    (folder / "training_set" / "mv_0000002.txt").write_bytes(second)
    (folder / "movie_titles.txt").write_bytes(TITLES)
    return folder


def combined(folder: Path, content: bytes = FIRST + SECOND) -> Path:
    (folder / "combined_data_1.txt").write_bytes(content)
    (folder / "movie_titles.csv").write_bytes(TITLES)
    return folder


def check(data: Interactions) -> None:
    assert data.user_ids.tolist() == [7, 30]
    assert data.item_ids.tolist() == [1, 2]
    assert data.histories[0].tolist() == [0, 1]
    assert data.histories[1].tolist() == [0]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1115942400, 946598400, 1125964800]
    assert data.titles is not None
    assert data.titles.tolist() == ["D\u00e9j\u00e0, Vu (2003)", "No Year"]
    assert data.tags is not None
    assert data.tags.tolist() == [{"year": 2003}, {}]


def test_the_folder_as_handed_out(tmp_path: Path) -> None:
    check(load(official(tmp_path)))


def test_the_combined_files(tmp_path: Path) -> None:
    check(load(combined(tmp_path)))


def test_a_film_goes_on_in_the_next_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netflix, "blocks", partial(text.blocks, size=20))
    check(load(combined(tmp_path)))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"7,5,2005-05-13\n", 1),
        (b"1:\n7,5\n", 2),
        (b"1:\n7,5,2005-05-13\nx,5,2005-05-13\n", 3),
        (b"1:\n7,5,2005-05-13,9\n", 2),
        (b"1:\n7,good,2005-05-13\n", 2),
        (b"1:\n7,nan,2005-05-13\n", 2),
        (b"1:\n7,5,13.5.2005\n", 2),
        (b"x:\n7,5,2005-05-13\n", 1),
        (b"1:,5\n7,5,2005-05-13\n", 1),
        (b"1:\n\n7,5,2005-05-13\n", 2),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: bytes, line: int) -> None:
    with pytest.raises(DataError) as caught:
        load(combined(tmp_path, content))
    assert caught.value.line == line
    assert "combined_data_1.txt" in str(caught.value)


def test_a_bad_title_is_named(tmp_path: Path) -> None:
    combined(tmp_path)
    (tmp_path / "movie_titles.csv").write_bytes(b"1,2003,A\n2,2004\n")
    with pytest.raises(DataError, match=r"movie_titles\.csv, line 2"):
        load(tmp_path)


def test_titles_are_not_needed(tmp_path: Path) -> None:
    (combined(tmp_path) / "movie_titles.csv").unlink()
    assert load(tmp_path).titles is None


def test_an_impossible_date(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"combined_data_1\.txt, line 2"):
        load(combined(tmp_path, b"1:\n7,5,2005-02-31\n"))
