"""What the commands share to say something."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.cli import output


@pytest.mark.parametrize(
    ("negatives", "untouched", "said", "can_miss"),
    [
        (99, [99, 500], "99 negatives", True), (99, [9, 10], "at most 99 negatives", True),
        (99, [2, 9], "at most 99 negatives", False), (0, [10], "the whole catalogue", True),
        (0, [9], "the whole catalogue", False), (9, [500], "9 negatives", False),
    ],
)  # fmt: skip
def test_what_an_item_is_ranked_against(
    negatives: int, untouched: list[int], said: str, can_miss: bool
) -> None:
    """A hit that cannot miss is no result."""
    assert output.rivals(negatives, np.array(untouched)) == said
    with output.messages.capture() as warned:
        output.warn_of_few_candidates(negatives, np.array(untouched))
    assert (warned.get() == "") == can_miss
