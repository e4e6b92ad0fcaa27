"""Tags of a catalogue: which labels and bands there are, and what they are called."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.tags import Tags, build_tags, make_empty_tags


def list_names(tags: Tags) -> list[str]:
    return [f"{tag.kind} {tag.name}" for tag in tags.names]


def find_items(tags: Tags, name: str) -> list[int]:
    """Return the items that have a tag."""
    return np.flatnonzero(tags.table.toarray()[:, list_names(tags).index(name)]).tolist()


def make_labelled_items(counts: dict[str, int], n_items: int) -> list[dict[str, Any]]:
    """Return items of which the first `count` have a label."""
    return [
        {"genre": tuple(label for label, count in counts.items() if row < count)}
        for row in range(n_items)
    ]


def make_numbered_items(values: Sequence[float | None]) -> list[dict[str, Any]]:
    return [{} if value is None else {"year": value} for value in values]


@pytest.mark.parametrize(
    ("n_items", "min_items"),
    [(2, 2), (100, 2), (101, 3), (500, 10), (950, 19), (951, 20), (1_000, 20), (5_000, 20)],
)
def test_minimum_number_of_items_for_a_tag(n_items: int, min_items: int) -> None:
    tags = build_tags(make_labelled_items({"too few": min_items - 1, "enough": min_items}, n_items))
    assert list_names(tags) == ["genre enough"]


def test_table_has_a_column_for_each_tag() -> None:
    films: list[dict[str, Any]] = [
        {"genre": ("a",)},
        {},
        {"genre": ("b", "a"), "year": 2},
        {"genre": ("b",), "year": 2},
    ]
    tags = build_tags(films)
    assert list_names(tags) == ["genre a", "genre b", "year 2"]
    assert tags.table.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1]]
    assert tags.n_items == 4


@given(st.lists(st.none() | st.integers(0, 30), max_size=90))
def test_bands_begin_at_deciles(values: list[int | None]) -> None:
    # A band begins at the value of rank floor(b n / 10) and ends where the next one begins.
    ascending = sorted(value for value in values if value is not None)
    begins = (
        sorted({ascending[len(ascending) * band // 10] for band in range(10)}) if ascending else []
    )
    expected = []
    for low, high in zip(begins, [*begins, 31][1:], strict=True):
        rows = [row for row, v in enumerate(values) if v is not None and low <= v < high]
        if len(rows) >= 2:
            expected.append(rows)
    tags = build_tags(
        make_numbered_items([None if value is None else float(value) for value in values])
    )
    assert [find_items(tags, name) for name in list_names(tags)] == expected


def is_inside(name: str, value: float, *, whole: bool) -> bool:
    """Return whether a reader expects a number in the band of this name."""
    words = name.split()
    if words[0] == "under":
        return value < float(words[1])
    if words[1:] == ["or", "more"]:
        return value >= float(words[0])
    if len(words) == 1:
        return value == float(name)
    low, high = float(words[0]), float(words[2])
    return low <= value <= high if whole else low <= value < high


@given(st.lists(st.integers(0, 3000), min_size=2, max_size=80), st.sampled_from([1, 100]))
def test_band_names_describe_their_items(values: list[int], unit: int) -> None:
    numbers = [value / unit for value in values] * 20
    whole = all(number == int(number) for number in numbers)
    tags = build_tags(make_numbered_items(numbers))
    for name in list_names(tags):
        band = name.removeprefix("year ")
        inside = [row for row, number in enumerate(numbers) if is_inside(band, number, whole=whole)]
        assert find_items(tags, name) == inside, band


def test_band_edges_are_round() -> None:
    lows = [3.99, 4.49, 9.95, 10.49, 19.9, 24.0, 88.38, 102.0, 120.0, 499.0]
    prices = [price for low in lows for price in (low, low + 0.01)]
    assert [
        name.removeprefix("year ") for name in list_names(build_tags(make_numbered_items(prices)))
    ] == [
        *("under 4.4", "4.4 to 9", "9 to 10", "10 to 19", "19 to 20"),
        *("20 to 80", "80 to 100", "100 to 120", "120 to 400", "400 or more"),
    ]
    years = [float(year) for year in range(1950, 2010) if year % 10 < 8]
    bands = [
        name.removeprefix("year ") for name in list_names(build_tags(make_numbered_items(years)))
    ]
    assert bands[:3] == ["under 1954", "1954 to 1960", "1961 to 1965"]


def test_catalogue_without_tags_has_no_columns() -> None:
    for tags in (make_empty_tags(3), build_tags([{}, {}, {}]), build_tags([{"genre": ()}] * 3)):
        assert tags.names == ()
        assert tags.table.shape == (3, 0)
    assert build_tags([]).table.shape == (0, 0)
