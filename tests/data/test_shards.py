"""Data sets that need not fit into memory: whatever the blocks and shards, it is the same data."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.data import Interactions, Shards, load, tables
from sottovoce.data.loading import shard, shards_at
from sottovoce.data.shards import INDEX, ITEMS
from sottovoce.errors import DataError, SettingsError


def same(found: Interactions, expected: Interactions) -> bool:
    """But for the ids of people, which shards do not keep."""
    pairs: list[tuple[Any, Any]] = [
        (found.histories.indptr, expected.histories.indptr),
        (found.histories.indices, expected.histories.indices),
        (found.item_ids, expected.item_ids),
        (found.timestamps, expected.timestamps),
        (found.titles, expected.titles),
        (found.tags, expected.tags),
    ]
    return all((a is None) == (b is None) and np.array_equal(a, b) for a, b in pairs)


def rows(seed: int, n: int, people: int = 30, items: int = 25) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "who": [f"p{number:03}" for number in rng.integers(0, people, n)],
        "what": rng.integers(100, 100 + items, n),
        "rating": rng.integers(0, 6, n).astype(float),
        "timestamp": rng.integers(0, 50, n),
    }


def three(folder: Path) -> str:
    """People with an item each."""
    pl.DataFrame({"user": [0, 1, 2], "item": [0, 1, 0]}).write_parquet(folder / "x.parquet")
    return str(folder / "x.parquet")


COLUMNS = {"user": "who", "item": "what"}


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(1, 400),
    block=st.integers(1, 120),
    shard_rows=st.integers(1, 200),
    least=st.integers(0, 6),
)
def test_shards_of_parquet_are_what_is_loaded_and_filtered(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    size: int,
    block: int,
    shard_rows: int,
    least: int,
) -> None:
    """In any order, in several files and blocks, with repeats and ratings of 0."""
    folder = tmp_path_factory.mktemp("data")
    frame = pl.DataFrame(rows(seed, size))
    (folder / "raw" / "day=2").mkdir(parents=True)
    frame[: size // 3].write_parquet(folder / "raw" / "a.parquet")
    frame[size // 3 :].write_parquet(folder / "raw" / "day=2" / "b.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_ROWS", block)
        try:
            expected = load(folder / "raw", COLUMNS).filter(least)
        except DataError:
            with pytest.raises(DataError):
                shard(str(folder / "raw"), folder / "out", columns=COLUMNS, min_interactions=least)
            assert [each.name for each in folder.iterdir()] == ["raw"], "nothing is left"
            return
        made = shard(
            str(folder / "raw"),
            folder / "out",
            columns=COLUMNS,
            min_interactions=least,
            rows=shard_rows,
        )
    assert same(made.joined(), expected)
    assert same(load(folder / "out"), expected)
    assert (made.n_users, made.n_items) == (expected.n_users, expected.n_items)
    assert made.n_interactions == expected.n_interactions
    assert made.loaded == expected.loaded
    assert made.typical_length == expected.typical_length
    assert [made.first(index) for index in range(len(made))] == [
        int(part.user_ids[0]) for part in made
    ]
    longest = int(np.diff(expected.histories.indptr).max())
    most = max(part.histories.n_interactions for part in made)
    assert most <= shard_rows + longest, "a shard is about as large as was asked for"


def test_a_shard_with_other_contents_is_refused(tmp_path: Path) -> None:
    made = shard(three(tmp_path), tmp_path / "out")
    path = tmp_path / "out" / "part-00000.parquet"
    whole = path.read_bytes()
    other = io.BytesIO()
    pl.read_parquet(path).with_columns(item=1 - pl.col("item")).write_parquet(other)
    for content in (whole[:-1], other.getvalue()):
        path.write_bytes(content)
        with pytest.raises(DataError):
            made[0]
    path.write_bytes(whole)
    assert made[0].n_users == 3
    path.unlink()
    with pytest.raises(DataError):
        made[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index | {"format": "sottovoce-shards-0"},
        lambda index: index | {"shards": [{"file": "x"}]},
        lambda index: {},
    ],
)
def test_an_index_of_another_kind_is_refused(tmp_path: Path, change: Any) -> None:
    out = tmp_path / "out"
    shard(three(tmp_path), out, rows=1)
    (out / INDEX).write_text(json.dumps(change(json.loads((out / INDEX).read_bytes()))))
    with pytest.raises(DataError):
        Shards.read(out)


def test_nothing_is_left_of_a_disk_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(DataError):
        shard("synthetic:N=20,M=10", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_name_is_a_name_whatever_lies_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shard("synthetic:N=20,M=10", Path("ml-latest-small"))
    assert shards_at("ml-latest-small") is None
    assert shards_at("./ml-latest-small") == Path("ml-latest-small")
    assert load("ml-latest-small").n_users == 610
    assert load("./ml-latest-small").n_users == 20
    assert shard("ml-latest-small", tmp_path / "out").n_users == 610


def test_shards_of_anything(tmp_path: Path) -> None:
    """With titles, tags and times; shards of shards; invented people; titles of a file."""
    one = shard("ml-latest-small", tmp_path / "one", min_interactions=20, rows=10_000)
    assert 6 <= len(one) <= 8
    assert one.name == "ml-latest-small"
    again = shard(str(tmp_path / "one"), tmp_path / "two", min_interactions=30, rows=5_000)
    assert same(again.joined(), load("ml-latest-small").filter(20).filter(30))
    invented = "synthetic:N=1000,M=50,seed=3"
    for name, least in (("three", 0), ("four", 1)):
        made = shard(invented, tmp_path / name, rows=10_000, min_interactions=least)
        assert len(made) > 1
        assert same(made.joined(), load(invented))
    source, items = three(tmp_path), tmp_path / "items.csv"
    items.write_text("item,title,kind\n0,Tea,drink\n1,Cup,\n")
    described = shard(source, tmp_path / "five", items=items, rows=1)
    assert same(described.joined(), load(Path(source), items=items))


def test_what_cannot_be_written_or_read(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    source, out = three(tmp_path / "raw"), tmp_path / "out"
    shard(source, out)
    with pytest.raises(SettingsError):
        shard(source, tmp_path / "none", rows=0)
    for origin, folder, columns in (
        (source, out, None),
        (source, Path(source), None),
        (source, Path(source) / "below", None),
        (str(tmp_path / "raw"), tmp_path / "raw" / "out", None),
        ("ml-latest-small", tmp_path / "none", {"user": "x"}),
        (str(out), tmp_path / "none", {"user": "x"}),
    ):
        with pytest.raises(DataError):
            shard(origin, folder, columns=columns)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.parent != out) == [
        *("out", "raw", "x.parquet"),
    ]
    (out / ITEMS).write_text('[[1, "a", 3]]')
    with pytest.raises(DataError):
        Shards.read(out)
    (out / ITEMS).unlink()
    with pytest.raises(DataError):
        load(out)
