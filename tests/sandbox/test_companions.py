"""Invented people who report beside somebody who tries a service out."""

from itertools import islice
from random import Random

from sottovoce.protocol import Catalogue, Item
from sottovoce.sandbox.companions import TOUCHED, companions


def catalogue(*kinds: str) -> Catalogue:
    return Catalogue.from_items(
        Item(f"{number}", "Title", {"kind": (kind,)} if kind else {})
        for number, kind in enumerate(kinds)
    )


def test_each_likes_one_kind_and_nobody_is_beyond_the_catalogue() -> None:
    shop = catalogue(*["tea"] * 20, *["coffee"] * 3, "mill")
    found = list(islice(companions(shop, Random(0)), 200))
    assert {len(rows) for rows in found} == {TOUCHED, 3}
    assert all(max(rows) < 20 or min(rows) >= 20 for rows in found)
    assert {rows[-1] >= 20 for rows in found} == {True, False}
    assert all(rows == sorted(set(rows)) and rows[-1] < 23 for rows in found)


def test_without_labels_they_like_anything() -> None:
    for size in (1, 4, 50):
        rows = next(companions(catalogue(*[""] * size), Random(1)))
        assert len(rows) == min(TOUCHED, size)
        assert max(rows) < size
