"""The extensions of docs/extending.md work as the page says."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nightly.follow import ROOT, Follower, follow

__all__ = ["follow"]


@pytest.mark.slow
def test_a_mechanism_an_engine_and_a_format(
    follow: Callable[[str], Follower], tmp_path: Path
) -> None:
    person = follow("extending.md")
    person.know(CLONE=str(ROOT))
    person.next()
    assert count_passed(person.next()) >= 7, "the contract of mechanisms"
    assert person.next().strip() == "0.189", "as the page says; it asserts its vector"
    person.next()
    assert count_passed(person.next()) >= 60, "the contract of engines"
    person.next()  # asserts the same matrix
    shown = person.next()
    orders = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text().splitlines()]
    pairs = {(order["customer"], item) for order in orders for item in order["items"]}
    people, items = ({pair[place] for pair in pairs} for place in (0, 1))
    assert f"{len(people)} people, {len(items)} items, {len(pairs)} interactions" in shown
    assert set(re.findall(r"'(\w+)'", shown)) <= items - {"cup"}
    assert person.left == 0


def count_passed(shown: str) -> int:
    """Return how many tests passed; fail if one failed."""
    assert "failed" not in shown
    (number,) = re.findall(r"(\d+) passed", shown)
    return int(number)
