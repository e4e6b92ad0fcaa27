"""Reading CSV, TSV, Parquet, DataFrames and matrices, and the errors that name a line."""

import csv
import datetime as dt
import gzip
import io
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.data import Interactions, load, parquet, parse_columns, text_tables
from sottovoce.data.columns import to_seconds
from sottovoce.data.interactions import LoadCounts
from sottovoce.data.text_tables import Block, Layout, parse_block
from sottovoce.errors import DataError

# Any text that a field of a CSV file can hold, but no blanks alone.
ids = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=8
).filter(str.strip)
RATING_ROLES = ("user", "item", "rating", "timestamp")


def write_file(folder: Path, content: str | bytes, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_parquet(folder: Path, **columns: Any) -> Path:
    pl.DataFrame(columns).write_parquet(folder / "x.parquet")
    return folder / "x.parquet"


def get_pairs(data: Interactions) -> set[tuple[object, object]]:
    users = data.user_ids[data.histories.users_of_entries()]
    items = data.item_ids[data.histories.indices]
    return set(zip(users.tolist(), items.tolist(), strict=True))


def get_times(data: Interactions) -> list[int]:
    assert data.timestamps is not None
    return list(data.timestamps)


def get_counts(data: Interactions) -> tuple[int, int, int]:
    assert data.load_counts is not None
    return data.load_counts.rows, data.load_counts.not_positive, data.load_counts.duplicates


@given(st.sets(st.tuples(ids, ids), min_size=1, max_size=12), st.integers(30, 200))
def test_text_ids_are_read_the_same_with_any_block_size(
    expected: set[tuple[str, str]], size: int
) -> None:
    # The csv module is the reference: it quotes where it must.
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("user", "item"), *expected])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Blocks of this size end within records, and within quoted fields.
        patch.setattr(text_tables, "_BLOCK_BYTES", size)
        pairs = get_pairs(load(write_file(Path(folder), out.getvalue())))
    assert {(str(user), str(item)) for user, item in pairs} == expected


@given(st.sets(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers()), min_size=1))
def test_integer_ids_are_read_as_integers(expected: set[tuple[int, int]]) -> None:
    lines = [f"{user}\t{item}" for user, item in expected]
    with tempfile.TemporaryDirectory() as folder:
        data = load(write_file(Path(folder), "\n".join(["user\titem", *lines]), "x.tsv"))
    assert data.user_ids.dtype == "int64"
    assert {(user, int(str(item))) for user, item in get_pairs(data)} == expected


def test_ratings_above_zero_count_and_repeated_pairs_are_merged(tmp_path: Path) -> None:
    """Merge a pair into the row with the latest timestamp."""
    text = "user,item,rating,timestamp\n1,1,5,10\n1,2,0,11\n1,3,-1,12\n1,1,0.5,30\n1,1,2,20\n"
    data = load(write_file(tmp_path, text))
    assert (get_pairs(data), get_times(data), get_counts(data)) == ({(1, 1)}, [30], (5, 2, 2))


@pytest.mark.parametrize(
    "header",
    ["userId,movieId", "user_id|item_id", "USER ID;Film", "uid\tiid", "user.id,product-id"],
)
def test_column_names_and_separators_are_recognised(tmp_path: Path, header: str) -> None:
    separator = next(mark for mark in ",|;\t" if mark in header)
    assert get_pairs(load(write_file(tmp_path, f"{header}\n1{separator}2\n"))) == {(1, 2)}
    # The ids "007" and "7" are different.
    seven = load(write_file(tmp_path, f"{header}\n7{separator}a\n007{separator}a\n"))
    assert seven.user_ids.tolist() == ["007", "7"]


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    # A column called "user" is ignored if another one is chosen.
    path = write_file(tmp_path, "when,what,who,user\n5,film,ann,0\n")
    data = load(path, columns=parse_columns("user=who, item=what,timestamp=when"))
    assert (get_pairs(data), get_times(data)) == ({("ann", "film")}, [5])


def test_interactions_of_recbole_are_read(tmp_path: Path) -> None:
    text = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\ta:1\t3\t881250949\n"
    for content, name in ((text.encode(), "x.inter"), (gzip.compress(text.encode()), "x.inter.gz")):
        data = load(write_file(tmp_path, content, name))
        assert (get_pairs(data), get_times(data), data.name) == ({(7, "a:1")}, [881250949], "x")
    # Types are no part of the names, and other columns may be lists.
    path = write_file(tmp_path, "uid:token\tasin:token\tpast:token_seq\n1\tb\tc d\n", "y.inter")
    assert get_pairs(load(path, columns={"item": "asin"})) == {(1, "b")}
    # Only a header in which every column has a type is RecBole's.
    colon = write_file(tmp_path, "user,item:token\n1,2\n")
    assert get_pairs(load(colon, columns={"item": "item:token"})) == {(1, 2)}


def test_gzip_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    content = gzip.compress("\ufeffuser,item\r\nx,y\r\n\r\n".encode())
    data = load(write_file(tmp_path, content, "log.csv.gz"))
    assert (get_pairs(data), data.name) == ({("x", "y")}, "log")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # Files without rows, interactions or recognised columns.
        ("", None), ("user,item\n", None), ("user,item,rating\n1,1,0\n", None),
        ("who,item\n1,1\n", None), ("user,item,movie\n1,1,1\n", None), ("x" * 200_000, None),
        # Too few or too many fields, and empty lines between rows.
        ("user,item\n1,1\n1\n", 3), ("user,item\n1,1\n\n1,2\n", 3),
        ("user,item\n1,1\n1,2,3\n", 3), ("user,item\n1\n", 2), ("user,item\n1,2,3\n1,1\n", 2),
        ("user,item,x,y\n1,1,1,1\n1,1,1\n", 3), ("user,item,x,y\n1,1,1,1\n1,1,1,1,1\n", 3),
        # Fields beyond the limit of the csv module, and missing or invalid values.
        ('user,item\n"' + "x" * 200_000 + '"\n', 2), ("user,item\n1,1\n,3\n", 3),
        ('user,item\n1,1\n1,""\n', 3), ("user,item,rating\n1,1,NaN\n", 2),
        ("user,item,rating\n1,1,\n", 2), ("user,item,time\n1,1,later\n", 2),
        # Quotes: malformed ones, and a line end within a field before the bad line.
        ('user,item\n1,a"b\n', None), ('user,item,rating\n"a\n\nb",i,1\n"c",i,one\n', 5),
        # Mixed timestamps, and bytes that are not UTF-8.
        ("user,item,time\na,i,2020-01-01\na,j,5\n", 2), (b"\xff\xfe\n1,2\n", 1),
        (b"user,item\n1,2\n1,\xff\n", 3),
    ],
)  # fmt: skip
def test_error_in_text_names_the_file_and_the_line(
    tmp_path: Path, text: str | bytes, line: int | None
) -> None:
    path = write_file(tmp_path, text)
    with pytest.raises(DataError) as caught:
        load(path)
    assert (caught.value.path, caught.value.line) in ((str(path), line), (path, line))


def test_unterminated_quoted_field_is_refused_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tables, "_BLOCK_BYTES", 16)
    with pytest.raises(DataError) as caught:
        load(write_file(tmp_path, 'user,item\na,b\n"' + "c,d\n" * 100))
    assert caught.value.line == 3


@pytest.mark.parametrize(
    "line",
    [
        # Wrong numbers of fields, then values that are not numbers.
        *(b"1::2::3", b"1::2::3::4::5", b"", b"1\t2::3::4", b"x::2::3::4", b"1::2.5::3::4"),
        *(b"1::99999999999999999999::3::4", b"::2::3::4", b"1::2::good::4", b"1::2::nan::4"),
        *(b"1::2::-inf::4", b"1::2::3::soon", b"1::2\xff::3::4"),
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_first_bad_line_of_a_block_is_named(line: bytes, before: int) -> None:
    data = b"7::8::3.5::9\n" * before + line + b"\n7::8::3.5::9\n"
    with pytest.raises(DataError) as caught:
        parse_block(Block("ratings.dat", 11, data), Layout("::", RATING_ROLES))
    assert caught.value.line == 11 + before


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["5", "-7"], [5, -7]), (["1112486027.0", "2"], [1112486027, 2]),
        (["1970-01-02", "1970-01-01"], [86400, 0]), (["1970-01-01 00:01:00"], [60]),
        (["1970-01-01T01:00:00"], [3600]), (["5", "soon"], [5, None]),
        (["nan", "1.5"], [None, 1]), (["2020-01-01", "", "1970-01-02"], [1577836800, None, 86400]),
    ],
)  # fmt: skip
def test_timestamps_become_seconds(texts: list[str], expected: list[int | None]) -> None:
    assert to_seconds(pl.Series(texts)).to_list() == expected


def test_parquet_is_read_in_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_PARQUET_BLOCK_ROWS", 2)
    users, items = ["b", "a", "b", "a", "b"], ["y", "z", "x", "y", "y"]
    data = load(write_parquet(tmp_path, user_id=users, item_id=items, timestamp=[1, 2, 3, 4, 5]))
    assert data.user_ids.tolist() == ["a", "b"]
    assert [data.histories[user].tolist() for user in (0, 1)] == [[1, 2], [0, 1]]
    assert (get_times(data), get_counts(data)) == ([4, 2, 3, 5], (5, 0, 1))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([-(2**62), 2**62, 5], [-(2**62), 5, 2**62]),
        ([b"\x01", b"\x00", b"\x01"], [b"\x00", b"\x01"]),
        (pl.Series(["b", "a", "b"], dtype=pl.Categorical), ["a", "b"]),
        (pl.Series([2**64 - 1, 2**64 - 2, 3], dtype=pl.UInt64), [3, 2**64 - 2, 2**64 - 1]),
    ],
    ids=["wide range", "binary", "categorical", "unsigned 64 bits"],
)
def test_types_of_ids_are_read(tmp_path: Path, ids: Any, expected: list[Any]) -> None:
    data = load(write_parquet(tmp_path, user=ids, item=[1, 2, 3]))
    assert data.user_ids.tolist() == expected
    assert get_pairs(data) == set(zip(list(ids), [1, 2, 3], strict=True))


@pytest.mark.parametrize(
    "time", [dt.date(1970, 1, 2), dt.datetime(1970, 1, 2, tzinfo=dt.UTC), 86400.0, "1970-01-02"]
)
def test_types_of_timestamps_become_seconds(tmp_path: Path, time: Any) -> None:
    assert get_times(load(write_parquet(tmp_path, user=[1], item=[1], timestamp=[time]))) == [86400]


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ({"user": [1, 2, 3, None], "item": [1, 1, 1, 1]}, 4),
        ({"user": ["a", ""], "item": [1, 1]}, 2),
        ({"user": [1], "item": [1], "rating": [float("nan")]}, 1),
        ({"user": [1], "item": [1], "rating": [float("inf")]}, 1),
        ({"user": [1, 2], "item": [1, 1], "rating": ["1", "x"]}, 2),
        ({"user": [1], "item": [1], "timestamp": ["soon"]}, 1),
        ({"user": [1, 2], "item": [1, 1], "timestamp": [1, None]}, 2),
        # Errors of a whole file: types, columns, and no rows.
        ({"user": [1.5], "item": [1]}, None),
        ({"user": [[1]], "item": [1]}, None),
        ({"person": [1], "item": [1]}, None),
        ({"user": [], "item": []}, None),
    ],
)
def test_error_in_parquet_names_the_file_and_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], row: int | None
) -> None:
    monkeypatch.setattr(parquet, "_PARQUET_BLOCK_ROWS", 2)
    path = write_parquet(tmp_path, **columns)
    with pytest.raises(DataError) as caught:
        load(path)
    assert caught.value.path in (path, str(path))
    assert row is None or re.match(rf"{path}\D*\b{row}\b", str(caught.value))


def test_folders_called_name_value_become_columns(tmp_path: Path) -> None:
    for user, rating, items in (("b b", 1.0, [3, 4]), ("a", 0.0, [3]), ("a", 5.0, [5])):
        folder = tmp_path / "t" / f"who={quote(user)}" / f"rating={rating}"
        folder.mkdir(parents=True)
        pl.DataFrame({"item": items}).write_parquet(folder / "X.PARQUET")
    data = load(tmp_path / "t", {"user": "who", "item": "item"})
    assert get_pairs(data) == {("a", 5), ("b b", 3), ("b b", 4)}


@pytest.mark.parametrize(
    "other", [{"user": [1], "item": [2]}, {"user": ["x"], "item": [2], "timestamp": [3]}]
)
def test_files_of_a_folder_must_have_the_same_columns(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    pl.DataFrame({"user": [1], "item": [2], "timestamp": [3]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame(other).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    assert caught.value.path == tmp_path / "b.parquet"


@pytest.mark.parametrize("columns", [{"user": "no"}, {"person": "user"}, {"item": "user"}])
def test_wrong_columns_are_refused(tmp_path: Path, columns: dict[str, str]) -> None:
    with pytest.raises(DataError):
        load(write_file(tmp_path, "user,item\n1,1\n"), columns=columns)
    for text in ("", "user", "user=", "=x", "user=a,user=b"):
        with pytest.raises(DataError):
            parse_columns(text)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array])
def test_matrices_are_read(tmp_path: Path, kind: Any) -> None:
    # The second user and the last item have no interaction, and stay.
    dense = np.array([[1.0, 0.0, 4.5, -1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    sparse.save_npz(tmp_path / "m.npz", kind(dense))
    data = load(tmp_path / "m.npz")
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == ([0, 1, 2], [0, 1, 2, 3])
    assert [data.histories[user].tolist() for user in range(3)] == [[0, 2], [], [1]]
    assert get_counts(data) == (4, 1, 0)


def save_matrix(*values: float) -> bytes:
    """Return a saved matrix with all values at one cell."""
    out, places = io.BytesIO(), np.zeros(len(values), int)
    sparse.save_npz(out, sparse.coo_matrix((np.array(values), (places, places)), shape=(1, 2)))
    return out.getvalue()


def save_array() -> bytes:
    out = io.BytesIO()
    np.savez(out, a=np.arange(3))
    return out.getvalue()


def test_repeated_entries_of_a_matrix_are_merged(tmp_path: Path) -> None:
    assert get_counts(load(write_file(tmp_path, save_matrix(1, 1, -5), "m.npz"))) == (3, 1, 1)


GZIPPED_TABLE = gzip.compress(b"user,item\n" + b"1,2\n" * 1000)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("m.npz", save_matrix(value)) for value in (np.nan, np.inf, -1.0)),
        *(("m.npz", content) for content in (save_array(), b"PK nothing", b"")),
        *(("x.parquet", content) for content in (b"PAR1 not at all", b"")),
        *(("x.csv.gz", content) for content in (GZIPPED_TABLE[:-20], b"plain text")),
    ],
    ids=range(10),
)
def test_error_of_a_damaged_file_names_it(tmp_path: Path, name: str, content: bytes) -> None:
    path = write_file(tmp_path, content, name)
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value.path) == str(path)


class PandasLike:
    """A DataFrame like that of pandas without pyarrow."""

    def __init__(self, **columns: list[Any]):
        self._columns = {name: np.array(values, object) for name, values in columns.items()}

    # pandas has this method, but it fails without pyarrow.
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ImportError

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]


class ArrowLike:
    """A table like that of pyarrow."""

    def __init__(self, **columns: list[Any]):
        self._frame = pl.DataFrame(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


TABLE_TYPES: dict[str, Callable[..., Any]] = {
    "polars": lambda **columns: pl.DataFrame(columns),
    "arrow": ArrowLike,
    "pandas": PandasLike,
    "mapping": dict,
}


@pytest.mark.parametrize("make_table", TABLE_TYPES.values(), ids=TABLE_TYPES)
def test_table_in_memory_keeps_its_ids(make_table: Callable[..., Any]) -> None:
    table = make_table(
        **{"Item-ID": ["2", "1", "2", "1"], "user": [7, 7, 7, 9], "stars": [5, 0, 3, 1]}
    )
    data = load(table)
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == ([7, 9], ["1", "2"])
    assert data.histories.to_csr().toarray().tolist() == [[0, 1], [1, 0]]
    assert data.load_counts == LoadCounts("table in memory", 4, 1, 1)
    data = load(
        make_table(a=[1], b=["x"], c=[3]), columns={"user": "a", "item": "b", "timestamp": "c"}
    )
    assert data.timestamps is not None
    refused: list[dict[str, list[Any]]] = [
        {"who": ["a"], "item": [1]},
        {"user": ["a", None], "item": [1, 2]},
        {"user": [1.5], "item": [1]},
        {"user": [], "item": []},
        {"user": ["a"], "item": [1], "rating": [-1]},
    ]
    for columns in refused:
        with pytest.raises(DataError):
            load(make_table(**columns))


def test_columns_and_matrices_in_memory_are_read() -> None:
    for rows in (([5, 5, 6], ["x", "y", "x"]), (np.array([5, 5, 6]), pl.Series(["x", "y", "x"]))):
        assert load(rows).histories.to_csr().toarray().tolist() == [[1, 1], [1, 0]]
    for matrix in ([[1, 0, 2], [0, -1, 0]], np.eye(2, 3), sparse.csr_array(np.eye(2, 3))):
        assert (load(matrix).n_users, load(matrix).n_items) == (2, 3)
    # Not a pair, unequal lengths, mixed types, a ragged matrix, text, and no table at all.
    for wrong in (
        ([1], [2], [3]),
        ([1, 2], [3]),
        (["a", 3], [1, 2]),
        [[1], [2, 3]],
        [["a"]],
        3,
        None,
    ):
        with pytest.raises(DataError):
            load(wrong)
    with pytest.raises(DataError):
        load(np.eye(3), columns={"user": "a"})
