"""MovieLens archives, zipped and unpacked."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from sottovoce.data import Interactions, load
from sottovoce.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = "|".join("1" if place in (1, 14) else "0" for place in range(19))
EDITIONS: dict[str, dict[str, bytes]] = {
    "dat": {
        "ratings.dat": b"1::10::5::100\n1::20::3::200\n2::10::4::300\n",
        "movies.dat": "10::Am\u00e9lie: Part 2 (2001)::Action|Romance\n20::B::Drama\n".encode(
            "latin-1"
        ),
    },
    "csv": {
        "ratings.csv": b"userId,movieId,rating,timestamp\n1,10,5.0,100\n1,20,0.5,200\n2,10,4,300\n",
        "movies.csv": 'movieId,title,genres\n10,"Am\u00e9lie: Part 2 (2001)",Action|Romance\n'
        '20,"B, The ""C""",Drama\n'.encode(),
    },
    "100k": {
        "u.data": b"1\t10\t5\t100\n1\t20\t3\t200\n2\t10\t4\t300\n",
        "u.item": f"10|Am\u00e9lie: Part 2 (2001)|01-Jan-2001||http://x|{FLAGS}\n"
        f"20|B|||x|{FLAGS}\n".encode("latin-1"),
    },
}


def archive(folder: Path, files: dict[str, bytes], inside: str = "ml-x/") -> Path:
    path = folder / "ml-x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(inside + name, data)
    return path


def unpacked(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def check(data: Interactions) -> None:
    assert data.user_ids.tolist() == [1, 2]
    assert data.item_ids.tolist() == [10, 20]
    assert data.histories[0].tolist() == [0, 1]
    assert data.histories[1].tolist() == [0]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [100, 200, 300]
    assert data.titles is not None
    assert data.tags is not None
    assert data.titles[0] == "Am\u00e9lie: Part 2 (2001)"
    assert data.tags[0] == {"genre": ("Action", "Romance"), "year": 2001}


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("inside", ["ml-x/", ""])
def test_archives(tmp_path: Path, edition: str, inside: str) -> None:
    data = load(archive(tmp_path, EDITIONS[edition], inside))
    check(data)
    assert data.name == "ml-x"


@pytest.mark.parametrize("edition", EDITIONS)
def test_folders(tmp_path: Path, edition: str) -> None:
    check(load(unpacked(tmp_path, EDITIONS[edition])))


@pytest.mark.parametrize("name", ["ratings.dat", "u.data"])
def test_the_ratings_file_alone(tmp_path: Path, name: str) -> None:
    edition = "dat" if name.endswith(".dat") else "100k"
    check(load(unpacked(tmp_path, EDITIONS[edition]) / name))


def test_titles_with_commas_and_quotes(tmp_path: Path) -> None:
    data = load(archive(tmp_path, EDITIONS["csv"]))
    assert data.titles is not None
    assert data.titles[1] == 'B, The "C"'


def test_titles_in_utf_8(tmp_path: Path) -> None:
    """10M's list is UTF-8 where 1M's is Latin-1."""
    files = dict(EDITIONS["dat"])
    files["movies.dat"] = files["movies.dat"].decode("latin-1").encode()
    check(load(archive(tmp_path, files)))


def test_ratings_alone_have_no_titles(tmp_path: Path) -> None:
    data = load(archive(tmp_path, {"ratings.dat": EDITIONS["dat"]["ratings.dat"]}))
    assert data.titles is None
    assert data.tags is None


def test_a_film_without_title(tmp_path: Path) -> None:
    data = load(archive(tmp_path, EDITIONS["dat"] | {"movies.dat": b"20::B::Drama\n"}))
    assert data.titles is not None
    assert data.titles.tolist() == ["", "B"]


@pytest.mark.parametrize(
    ("edition", "name", "text", "line"),
    [
        ("dat", "ratings.dat", b"1::10::5::100\n1::20::3\n", 2),
        ("dat", "ratings.dat", b"1:::10::5::100\n", 1),
        ("csv", "ratings.csv", b"userId,movieId,rating,timestamp\n1,10,5,1\n1,x,5,1\n", 3),
        ("100k", "u.data", b"1\t10\tgood\t100\n", 1),
        ("dat", "movies.dat", b"10::A::B\n20::A\n", 2),
        ("csv", "movies.csv", b"movieId,title,genres\n10,A,B\nx,A,B\n", 3),
        ("100k", "u.item", b"10|A|||x|0|1\n", 1),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, edition: str, name: str, text: bytes, line: int
) -> None:
    with pytest.raises(DataError) as caught:
        load(archive(tmp_path, EDITIONS[edition] | {name: text}))
    assert caught.value.line == line
    assert name in str(caught.value)


def test_truncated_and_false_archives(tmp_path: Path) -> None:
    path = archive(tmp_path, EDITIONS["dat"])
    whole = path.read_bytes()
    for damaged in (whole[:-30], b"", b"no archive"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"ml-x\.zip: damaged, truncated or not a zip archive"):
            load(path)


def test_a_flipped_byte_inside_an_archive(tmp_path: Path) -> None:
    path = archive(tmp_path, EDITIONS["dat"])
    data = bytearray(path.read_bytes())
    data[len("ml-x/ratings.dat") + 32] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError):
        load(path)


def test_columns_make_no_sense_here(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one CSV, TSV or Parquet file"):
        load(archive(tmp_path, EDITIONS["dat"]), columns={"user": "x"})


def test_control_characters_in_a_title_become_spaces(tmp_path: Path) -> None:
    films = "10::A\x9b2J\u202eB (2001)::Action|Ro\x85mance\n20::B::Drama\n".encode()
    data = load(archive(tmp_path, EDITIONS["dat"] | {"movies.dat": films}))
    assert data.titles is not None
    assert data.tags is not None
    assert data.titles[0] == "A 2J B (2001)"
    assert data.tags[0] == {"genre": ("Action", "Ro mance"), "year": 2001}
