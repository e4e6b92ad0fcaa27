"""MovieLens and the Netflix Prize, in archives and folders."""

import gzip
import zipfile
from pathlib import Path

import pytest

from sottovoce.data import Interactions, load, tables
from sottovoce.errors import DataError

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
FIRST = b"1:\n30,3,2005-09-06\n7,5,2005-05-13\n"
SECOND = b"2:\n7,1,1999-12-31\n"
TITLES = "1,2003,D\u00e9j\u00e0, Vu\n2,NULL,No Year\n".encode("latin-1")


def archive(folder: Path, files: dict[str, bytes], inside: str = "ml-x/") -> Path:
    path = folder / "ml-x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(inside + name, data)
    return path


def unpacked(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def known(data: Interactions) -> tuple[list[str], list[object]]:
    assert data.titles is not None
    return data.titles.tolist(), [] if data.tags is None else data.tags.tolist()


def check(data: Interactions) -> None:
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == ([1, 2], [10, 20])
    assert [data.histories[user].tolist() for user in (0, 1)] == [[0, 1], [0]]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [100, 200, 300]
    titles, tags = known(data)
    assert titles[0] == "Am\u00e9lie: Part 2 (2001)"
    assert tags[0] == {"genre": ("Action", "Romance"), "year": 2001}


@pytest.mark.parametrize("edition", EDITIONS)
def test_archives_and_folders(tmp_path: Path, edition: str) -> None:
    files = EDITIONS[edition]
    for inside in ("ml-x/", ""):
        data = load(archive(tmp_path, files, inside))
        check(data)
        assert data.name == "ml-x"
    folder = tmp_path / "folder"
    folder.mkdir()
    check(load(unpacked(folder, files)))
    ratings = next(iter(files))
    if edition != "csv":
        check(load(folder / ratings))
    (folder / ratings).unlink()
    (folder / f"{ratings}.gz").write_bytes(gzip.compress(files[ratings]))
    check(load(folder))


def test_lists_of_films(tmp_path: Path) -> None:
    assert known(load(archive(tmp_path, EDITIONS["csv"])))[0][1] == 'B, The "C"'
    dat = EDITIONS["dat"]
    in_utf_8 = dat["movies.dat"].decode("latin-1").encode()  # as 10M's is
    check(load(archive(tmp_path, dat | {"movies.dat": in_utf_8})))
    assert known(load(archive(tmp_path, dat | {"movies.dat": b"20::B::\n"}))) == (["", "B"], [])
    films = "10::A\x9b2J\u202eB (2001)::Action|Ro\x85mance\n20::B::Drama\n".encode()
    titles, tags = known(load(archive(tmp_path, dat | {"movies.dat": films})))
    assert titles[0] == "A 2J B (2001)", "control characters become spaces"
    assert tags[0] == {"genre": ("Action", "Ro mance"), "year": 2001}
    bare = load(archive(tmp_path, {"ratings.dat": dat["ratings.dat"]}))
    assert bare.titles is bare.tags is None


@pytest.mark.parametrize(
    ("edition", "name", "text", "line"),
    [
        ("dat", "ratings.dat", b"1::10::5::100\n1::20::3\n", 2),
        ("dat", "ratings.dat", b"1:::10::5::100\n", 1),
        ("csv", "ratings.csv", b"userId,movieId,rating,timestamp\n1,10,5,1\n1,x,5,1\n", 3),
        ("100k", "u.data", b"1\t10\tgood\t100\n", 1),
        ("dat", "movies.dat", b"10::A::B\n20::A\n", 2),
        ("csv", "movies.csv", b"movieId,title,genres\nx,A,B\n", 2),
        ("100k", "u.item", b"10|A|x|||0|1\n", 1),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, edition: str, name: str, text: bytes, line: int
) -> None:
    with pytest.raises(DataError) as caught:
        load(archive(tmp_path, EDITIONS[edition] | {name: text}))
    assert caught.value.line == line
    assert name in str(caught.value.path)


def test_damaged_and_false_archives(tmp_path: Path) -> None:
    path = archive(tmp_path, EDITIONS["dat"])
    whole = path.read_bytes()
    at = len("ml-x/ratings.dat") + 32
    flipped = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
    for damaged in (whole[:-30], b"", b"no archive", flipped):
        path.write_bytes(damaged)
        with pytest.raises(DataError):
            load(path)


def combined(folder: Path, content: bytes = FIRST + SECOND) -> Path:
    return unpacked(folder, {"combined_data_1.txt": content, "movie_titles.csv": TITLES})


def check_netflix(data: Interactions) -> None:
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == ([7, 30], [1, 2])
    assert [data.histories[user].tolist() for user in (0, 1)] == [[0, 1], [0]]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1115942400, 946598400, 1125964800]
    titles = ["D\u00e9j\u00e0, Vu (2003)", "No Year"]
    assert known(data) == (titles, [{"year": 2003}, {}])


def test_netflix_as_handed_out(tmp_path: Path) -> None:
    parts = {"training_set/mv_0000001.txt": FIRST, "training_set/mv_0000002.txt": SECOND}
    check_netflix(load(unpacked(tmp_path, {**parts, "movie_titles.txt": TITLES})))


def test_netflix_combined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_netflix(load(combined(tmp_path)))
    monkeypatch.setattr(tables, "_BLOCK", 20)  # a film goes on in the next block
    check_netflix(load(tmp_path))
    (tmp_path / "movie_titles.csv").write_bytes(b"1,2003,A\n2,2004\n")
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert caught.value.line == 2
    (tmp_path / "movie_titles.csv").unlink()
    assert load(tmp_path).titles is None


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"7,5,2005-05-13\n", 1), (b"1:\n7,5\n", 2), (b"1:\n7,5,2005-05-13\nx,5,2005-05-13\n", 3),
        (b"1:\n7,5,2005-05-13,9\n", 2), (b"1:\n7,5,2005-05-13,9,9\n", 2),
        (b"1:\n7,good,2005-05-13\n", 2), (b"1:\n7,nan,2005-05-13\n", 2),
        (b"1:\n7,5,13.5.2005\n", 2), (b"1:\n7,5,2005-02-31\n", 2), (b"x:\n7,5,2005-05-13\n", 1),
        (b"1:,5\n7,5,2005-05-13\n", 1), (b"1:\n\n7,5,2005-05-13\n", 2),
        (b"1:\n7,5,2005-05-13\n2:\n8,,2005-05-13\n", 4),
    ],
)  # fmt: skip
def test_a_bad_line_of_netflix_is_named(tmp_path: Path, content: bytes, line: int) -> None:
    with pytest.raises(DataError) as caught:
        load(combined(tmp_path, content))
    assert caught.value.line == line
    assert "combined_data_1.txt" in str(caught.value.path)
