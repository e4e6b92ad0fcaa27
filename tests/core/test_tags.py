"""Which columns a catalogue has, by the rules that every client keeps to."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.recommending import Tags, no_tags, tags_of


def names(tags: Tags) -> list[str]:
    return [f"{tag.kind} {tag.name}" for tag in tags.names]


def column(tags: Tags, name: str) -> list[int]:
    """The items that have a tag."""
    return np.flatnonzero(tags.table.toarray()[:, names(tags).index(name)]).tolist()


def labelled(counts: dict[str, int], n_items: int) -> list[dict[str, Any]]:
    """Each label on the first so many items."""
    return [
        {"genre": tuple(label for label, count in counts.items() if row < count)}
        for row in range(n_items)
    ]


def numbered(values: list[float | None]) -> list[dict[str, Any]]:
    return [{} if value is None else {"year": value} for value in values]


@pytest.mark.parametrize(
    ("n_items", "enough"),
    [(2, 2), (100, 2), (101, 3), (500, 10), (950, 19), (951, 20), (1_000, 20), (5_000, 20)],
)
def test_a_tag_has_twenty_items_or_a_fiftieth_and_never_one(n_items: int, enough: int) -> None:
    tags = tags_of(labelled({"short": enough - 1, "enough": enough}, n_items))
    assert names(tags) == ["genre enough"]


@given(st.integers(1, 1_300), st.integers(0, 30))
def test_how_many_items_are_enough(n_items: int, count: int) -> None:
    count = min(count, n_items)
    counts = count >= min(20, max(2, ceil(n_items / 50)))
    assert bool(tags_of(labelled({"x": count}, n_items)).names) is counts


def test_of_too_many_the_most_frequent_stay_in_their_order() -> None:
    sizes = {f"t{place}": 2 + place % 3 for place in range(200)}
    found = names(tags_of(labelled(sizes, 100)))
    most = sorted(sizes, key=lambda name: -sizes[name])[:128]
    assert found == [f"genre {name}" for name in sizes if name in most]


def test_among_equals_the_earlier_ones_stay() -> None:
    sizes = {f"t{place}": 2 for place in range(130)} | {"last": 3}
    assert names(tags_of(labelled(sizes, 100))) == [
        *(f"genre t{place}" for place in range(127)),
        "genre last",
    ]


def test_labels_come_as_they_turn_up_and_bands_after_them() -> None:
    films: list[dict[str, Any]] = [
        {"year": 1999, "genre": ("b", "a"), "brand": ("z",)},
        {"price": 5, "brand": ("z", "a"), "genre": ("c",)},
        {"genre": ("a", "c", "b"), "year": 1999, "price": 5, "brand": ("a",)},
    ]
    expected = ["genre b", "genre a", "brand z", "brand a", "genre c", "year 1999", "price 5"]
    assert names(tags_of(films)) == expected


def test_one_name_of_two_kinds_is_two_tags() -> None:
    films = [{"genre": ("War",), "brand": ("War",)}] * 2
    assert names(tags_of(films)) == ["genre War", "brand War"]


def test_the_table_says_who_has_what() -> None:
    films: list[dict[str, Any]] = [
        {"genre": ("a",)},
        {},
        {"genre": ("b", "a"), "year": 2},
        {"genre": ("b",), "year": 2},
    ]
    tags = tags_of(films)
    assert names(tags) == ["genre a", "genre b", "year 2"]
    assert tags.table.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1]]
    assert tags.n_items == 4


def test_bands_have_equally_many_items() -> None:
    years = list(range(1900, 2000))
    tags = tags_of(numbered([float(year) for year in years]))
    assert names(tags) == [f"year {low} to {low + 9}" for low in range(1900, 2000, 10)]
    assert tags.table.sum(axis=0).tolist() == [10.0] * 10


def test_a_value_that_many_share_is_in_one_band() -> None:
    """Of ten beginnings nine are 2000, and count once: 3 before it, and 96 from it to 2001."""
    values: list[float | None] = [1990.0, 1991.0, 1992.0, *[2000.0] * 95, 2001.0]
    tags = tags_of(numbered(values))
    assert names(tags) == ["year 1990 to 1992", "year 2000 to 2001"]
    assert column(tags, "year 2000 to 2001") == list(range(3, 99))


def test_items_whose_number_is_not_known_are_in_no_band() -> None:
    tags = tags_of(numbered([None, 7.0, None, 7.0, 7.5, 7.5]))
    assert names(tags) == ["year 7", "year 7.5"]
    assert [column(tags, name) for name in names(tags)] == [[1, 3], [4, 5]]


def test_a_band_of_one_item_is_no_tag() -> None:
    assert names(tags_of(numbered([1.0, 2.0, 2.0, 3.0]))) == ["year 2"]


@given(st.lists(st.none() | st.integers(0, 30), max_size=90))
def test_bands_are_those_of_the_definition(values: list[int | None]) -> None:
    """Begun by the values at places floor(b n / 10), each once; ended by the next."""
    known = sorted(value for value in values if value is not None)
    begins = sorted({known[len(known) * band // 10] for band in range(10)}) if known else []
    expected = []
    for low, high in zip(begins, [*begins, 31][1:], strict=True):
        rows = [row for row, v in enumerate(values) if v is not None and low <= v < high]
        if len(rows) >= 2:
            expected.append(rows)
    found = tags_of(numbered([None if value is None else float(value) for value in values]))
    assert [column(found, name) for name in names(found)] == expected


@given(
    st.lists(st.fixed_dictionaries({}, optional={"genre": st.sets(st.sampled_from("abcde"))})),
)
def test_a_column_is_of_the_items_with_its_label(films: list[dict[str, set[str]]]) -> None:
    tags = tags_of([{kind: tuple(sorted(has)) for kind, has in film.items()} for film in films])
    for tag in tags.names:
        expected = [row for row, film in enumerate(films) if tag.name in film.get("genre", ())]
        assert column(tags, f"genre {tag.name}") == expected
        assert len(expected) >= 2


def test_a_catalogue_without_tags_has_no_columns() -> None:
    for tags in (no_tags(3), tags_of([{}, {}, {}]), tags_of([{"genre": ()}] * 3)):
        assert tags.names == ()
        assert tags.table.shape == (3, 0)
    assert tags_of([]).table.shape == (0, 0)
