"""Shards: the data is the same for any size of blocks and shards."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.data import Interactions, Shards, load, parquet
from sottovoce.data.loading import find_shards, shard
from sottovoce.data.shards import INDEX_FILE, ITEMS_FILE
from sottovoce.errors import DataError, SettingsError


def is_same(actual: Interactions, expected: Interactions) -> bool:
    """Compare everything except the ids of users, which shards do not store."""
    pairs: list[tuple[Any, Any]] = [
        (actual.histories.indptr, expected.histories.indptr),
        (actual.histories.indices, expected.histories.indices),
        (actual.item_ids, expected.item_ids),
        (actual.timestamps, expected.timestamps),
        (actual.titles, expected.titles),
        (actual.tags, expected.tags),
    ]
    return all((a is None) == (b is None) and np.array_equal(a, b) for a, b in pairs)


def draw_rows(seed: int, n: int, people: int = 30, items: int = 25) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "who": [f"p{number:03}" for number in rng.integers(0, people, n)],
        "what": rng.integers(100, 100 + items, n),
        "rating": rng.integers(0, 6, n).astype(float),
        "timestamp": rng.integers(0, 50, n),
    }


def write_three_users(folder: Path) -> str:
    """Write a Parquet file with three users, who have one item each."""
    pl.DataFrame({"user": [0, 1, 2], "item": [0, 1, 0]}).write_parquet(folder / "x.parquet")
    return str(folder / "x.parquet")


# Names of the columns of draw_rows().
ROW_COLUMNS = {"user": "who", "item": "what"}


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(1, 400),
    block=st.integers(1, 120),
    shard_rows=st.integers(1, 200),
    min_interactions=st.integers(0, 6),
)
def test_shards_of_parquet_equal_the_loaded_and_filtered_data(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    size: int,
    block: int,
    shard_rows: int,
    min_interactions: int,
) -> None:
    """Use files with rows in any order, repeats, and ratings of 0."""
    folder = tmp_path_factory.mktemp("data")
    frame = pl.DataFrame(draw_rows(seed, size))
    (folder / "raw" / "day=2").mkdir(parents=True)
    frame[: size // 3].write_parquet(folder / "raw" / "a.parquet")
    frame[size // 3 :].write_parquet(folder / "raw" / "day=2" / "b.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_PARQUET_BLOCK_ROWS", block)
        try:
            expected = load(folder / "raw", ROW_COLUMNS).filter(min_interactions)
        # The filter may leave nothing: then no file may be left either.
        except DataError:
            with pytest.raises(DataError):
                shard(
                    str(folder / "raw"),
                    folder / "out",
                    columns=ROW_COLUMNS,
                    min_interactions=min_interactions,
                )
            assert [path.name for path in folder.iterdir()] == ["raw"]
            return
        shards = shard(
            str(folder / "raw"),
            folder / "out",
            columns=ROW_COLUMNS,
            min_interactions=min_interactions,
            rows=shard_rows,
        )
    assert is_same(shards.join(), expected)
    assert is_same(load(folder / "out"), expected)
    assert (shards.n_users, shards.n_items) == (expected.n_users, expected.n_items)
    assert shards.n_interactions == expected.n_interactions
    assert shards.load_counts == expected.load_counts
    assert shards.typical_length == expected.typical_length
    assert [shards.first(index) for index in range(len(shards))] == [
        int(part.user_ids[0]) for part in shards
    ]
    # A shard holds whole users, so it may exceed its size by one history.
    longest = int(np.diff(expected.histories.indptr).max())
    largest = max(part.histories.n_interactions for part in shards)
    assert largest <= shard_rows + longest


def test_shard_with_other_contents_is_refused(tmp_path: Path) -> None:
    shards = shard(write_three_users(tmp_path), tmp_path / "out")
    path = tmp_path / "out" / "part-00000.parquet"
    original = path.read_bytes()
    # Neither a cut file nor a valid one with other items has the right digest.
    other = io.BytesIO()
    pl.read_parquet(path).with_columns(item=1 - pl.col("item")).write_parquet(other)
    for content in (original[:-1], other.getvalue()):
        path.write_bytes(content)
        with pytest.raises(DataError):
            shards[0]
    path.write_bytes(original)
    assert shards[0].n_users == 3
    path.unlink()
    with pytest.raises(DataError):
        shards[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index | {"format": "sottovoce-shards-0"},
        lambda index: index | {"shards": [{"file": "x"}]},
        lambda index: {},
    ],
)
def test_invalid_index_is_refused(tmp_path: Path, change: Any) -> None:
    out = tmp_path / "out"
    shard(write_three_users(tmp_path), out, rows=1)
    (out / INDEX_FILE).write_text(json.dumps(change(json.loads((out / INDEX_FILE).read_bytes()))))
    with pytest.raises(DataError):
        Shards.read(out)


def test_full_disk_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", raise_disk_full)
    with pytest.raises(DataError):
        shard("synthetic:N=20,M=10", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_name_of_a_data_set_comes_before_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shard("synthetic:N=20,M=10", Path("ml-latest-small"))
    assert find_shards("ml-latest-small") is None
    assert find_shards("./ml-latest-small") == Path("ml-latest-small")
    assert load("ml-latest-small").n_users == 610
    assert load("./ml-latest-small").n_users == 20
    assert shard("ml-latest-small", tmp_path / "out").n_users == 610


def test_shards_can_be_made_from_any_source(tmp_path: Path) -> None:
    """Try a named data set, shards, synthetic people, and Parquet with a file of items."""
    one = shard("ml-latest-small", tmp_path / "one", min_interactions=20, rows=10_000)
    assert 6 <= len(one) <= 8
    assert one.name == "ml-latest-small"
    # Shards of shards, filtered a second time.
    again = shard(str(tmp_path / "one"), tmp_path / "two", min_interactions=30, rows=5_000)
    assert is_same(again.join(), load("ml-latest-small").filter(20).filter(30))
    synthetic = "synthetic:N=1000,M=50,seed=3"
    for name, min_interactions in (("three", 0), ("four", 1)):
        shards = shard(synthetic, tmp_path / name, rows=10_000, min_interactions=min_interactions)
        assert len(shards) > 1
        assert is_same(shards.join(), load(synthetic))
    source, items = write_three_users(tmp_path), tmp_path / "items.csv"
    items.write_text("item,title,kind\n0,Tea,drink\n1,Cup,\n")
    described = shard(source, tmp_path / "five", items=items, rows=1)
    assert is_same(described.join(), load(Path(source), items=items))


def test_shards_that_cannot_be_written_or_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    source, out = write_three_users(tmp_path / "raw"), tmp_path / "out"
    shard(source, out)
    with pytest.raises(SettingsError):
        shard(source, tmp_path / "none", rows=0)
    # Folders that are not empty or lie in the source, and columns where they are fixed.
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
    (out / ITEMS_FILE).write_text('[[1, "a", 3]]')
    with pytest.raises(DataError):
        Shards.read(out)
    (out / ITEMS_FILE).unlink()
    with pytest.raises(DataError):
        load(out)
