"""Reading MovieLens and the Netflix Prize from archives and folders."""

import gzip
import zipfile
from pathlib import Path

import pytest

from sottovoce.data import Interactions, load, text_tables
from sottovoce.errors import DataError

# Action and Romance in a film list of 100K.
GENRE_FLAGS = "|".join("1" if place in (1, 14) else "0" for place in range(19))
# The same ratings and films in each format of MovieLens.
MOVIELENS_FILES: dict[str, dict[str, bytes]] = {
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
        "u.item": f"10|Am\u00e9lie: Part 2 (2001)|01-Jan-2001||http://x|{GENRE_FLAGS}\n"
        f"20|B|||x|{GENRE_FLAGS}\n".encode("latin-1"),
    },
}
# Ratings of two films of the Netflix Prize, and their list.
FIRST_FILM = b"1:\n30,3,2005-09-06\n7,5,2005-05-13\n"
SECOND_FILM = b"2:\n7,1,1999-12-31\n"
FILM_LIST = "1,2003,D\u00e9j\u00e0, Vu\n2,NULL,No Year\n".encode("latin-1")


def write_archive(folder: Path, files: dict[str, bytes], prefix: str = "ml-x/") -> Path:
    path = folder / "ml-x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(prefix + name, data)
    return path


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def get_descriptions(data: Interactions) -> tuple[list[str], list[object]]:
    assert data.titles is not None
    return data.titles.tolist(), [] if data.tags is None else data.tags.tolist()


def check_movielens(data: Interactions) -> None:
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == ([1, 2], [10, 20])
    assert [data.histories[user].tolist() for user in (0, 1)] == [[0, 1], [0]]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [100, 200, 300]
    titles, tags = get_descriptions(data)
    assert titles[0] == "Am\u00e9lie: Part 2 (2001)"
    assert tags[0] == {"genre": ("Action", "Romance"), "year": 2001}


@pytest.mark.parametrize("edition", MOVIELENS_FILES)
def test_movielens_is_read_from_archives_folders_and_files(tmp_path: Path, edition: str) -> None:
    files = MOVIELENS_FILES[edition]
    for prefix in ("ml-x/", ""):
        data = load(write_archive(tmp_path, files, prefix))
        check_movielens(data)
        assert data.name == "ml-x"
    folder = tmp_path / "folder"
    folder.mkdir()
    check_movielens(load(write_files(folder, files)))
    # A file of ratings stands for its folder, and may be compressed.
    ratings = next(iter(files))
    if edition != "csv":
        check_movielens(load(folder / ratings))
    (folder / ratings).unlink()
    (folder / f"{ratings}.gz").write_bytes(gzip.compress(files[ratings]))
    check_movielens(load(folder))


def test_film_lists_may_be_missing_partial_or_in_another_encoding(tmp_path: Path) -> None:
    assert (
        get_descriptions(load(write_archive(tmp_path, MOVIELENS_FILES["csv"])))[0][1]
        == 'B, The "C"'
    )
    dat = MOVIELENS_FILES["dat"]
    # The list of 1M is Latin-1, that of 10M UTF-8.
    in_utf_8 = dat["movies.dat"].decode("latin-1").encode()
    check_movielens(load(write_archive(tmp_path, dat | {"movies.dat": in_utf_8})))
    assert get_descriptions(load(write_archive(tmp_path, dat | {"movies.dat": b"20::B::\n"}))) == (
        ["", "B"],
        [],
    )
    # Control characters become spaces.
    films = "10::A\x9b2J\u202eB (2001)::Action|Ro\x85mance\n20::B::Drama\n".encode()
    titles, tags = get_descriptions(load(write_archive(tmp_path, dat | {"movies.dat": films})))
    assert titles[0] == "A 2J B (2001)"
    assert tags[0] == {"genre": ("Action", "Ro mance"), "year": 2001}
    bare = load(write_archive(tmp_path, {"ratings.dat": dat["ratings.dat"]}))
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
def test_bad_line_of_movielens_is_named(
    tmp_path: Path, edition: str, name: str, text: bytes, line: int
) -> None:
    with pytest.raises(DataError) as caught:
        load(write_archive(tmp_path, MOVIELENS_FILES[edition] | {name: text}))
    assert caught.value.line == line
    assert name in str(caught.value.path)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = write_archive(tmp_path, MOVIELENS_FILES["dat"])
    content = path.read_bytes()
    # A byte of the compressed ratings, behind their header of 30 bytes and a name.
    place = len("ml-x/ratings.dat") + 32
    flipped = content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
    for damaged in (content[:-30], b"", b"no archive", flipped):
        path.write_bytes(damaged)
        with pytest.raises(DataError):
            load(path)


def write_combined(folder: Path, content: bytes = FIRST_FILM + SECOND_FILM) -> Path:
    return write_files(folder, {"combined_data_1.txt": content, "movie_titles.csv": FILM_LIST})


def check_netflix(data: Interactions) -> None:
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == ([7, 30], [1, 2])
    assert [data.histories[user].tolist() for user in (0, 1)] == [[0, 1], [0]]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1115942400, 946598400, 1125964800]
    titles = ["D\u00e9j\u00e0, Vu (2003)", "No Year"]
    assert get_descriptions(data) == (titles, [{"year": 2003}, {}])


def test_netflix_is_read_from_the_original_files(tmp_path: Path) -> None:
    parts = {"training_set/mv_0000001.txt": FIRST_FILM, "training_set/mv_0000002.txt": SECOND_FILM}
    check_netflix(load(write_files(tmp_path, {**parts, "movie_titles.txt": FILM_LIST})))


def test_netflix_is_read_from_combined_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_netflix(load(write_combined(tmp_path)))
    monkeypatch.setattr(
        text_tables, "_BLOCK_BYTES", 20
    )  # the ratings of a film continue in the next block
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
        # Ratings without a film, missing fields, and too many fields.
        (b"7,5,2005-05-13\n", 1), (b"1:\n7,5\n", 2), (b"1:\n7,5,2005-05-13\nx,5,2005-05-13\n", 3),
        (b"1:\n7,5,2005-05-13,9\n", 2), (b"1:\n7,5,2005-05-13,9,9\n", 2),
        # Invalid ratings, dates and films.
        (b"1:\n7,good,2005-05-13\n", 2), (b"1:\n7,nan,2005-05-13\n", 2),
        (b"1:\n7,5,13.5.2005\n", 2), (b"1:\n7,5,2005-02-31\n", 2), (b"x:\n7,5,2005-05-13\n", 1),
        (b"1:,5\n7,5,2005-05-13\n", 1), (b"1:\n\n7,5,2005-05-13\n", 2),
        (b"1:\n7,5,2005-05-13\n2:\n8,,2005-05-13\n", 4),
    ],
)  # fmt: skip
def test_bad_line_of_netflix_is_named(tmp_path: Path, content: bytes, line: int) -> None:
    with pytest.raises(DataError) as caught:
        load(write_combined(tmp_path, content))
    assert caught.value.line == line
    assert "combined_data_1.txt" in str(caught.value.path)
